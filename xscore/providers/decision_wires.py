"""The wires of decision models: each is one record, how a request is written and a reply is read.

A reply is read answer by answer: one that is missing, repeated, renamed, of another type or out of
0..1 has no value, and its neighbours keep theirs. Nothing here sends, and no wire knows its hosts
(`decision_hosts`). Trade-off: output is free on every such host, so it is not counted.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from xscore.providers.host_facts import cached_count, sub_object, token_count, whole_input
from xscore.records.calls import DECLINED, DecisionWire, Request, Usage


class _JsonObject(dict[str, Any]):
    """A JSON object that remembers names given twice; which of the values was meant cannot be
    told."""

    repeated: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> "dict[str, Any]":
        """Make one from its pairs; a plain dict where no name is repeated."""
        decoded = dict(pairs)
        if len(decoded) == len(pairs):
            return decoded
        counted = Counter(name for name, _ in pairs)
        marked = cls(decoded)
        marked.repeated = frozenset(name for name, count in counted.items() if count > 1)
        return marked


def repeated_names(decoded: object) -> frozenset[str]:
    """Return the names that occurred twice in an object of `DECODER`."""
    if isinstance(decoded, _JsonObject):
        return decoded.repeated
    return frozenset()


DECODER = json.JSONDecoder(object_pairs_hook=_JsonObject.of)
"""Decoder of replies, which keeps the names that an object repeats."""


def is_probability(value: object) -> bool:
    """Whether this is a number in 0..1."""
    return type(value) in (int, float) and 0 <= value <= 1  # type: ignore[operator]  # `type` has shown that it is a number; NaN is in no range


def usage_in_body(reply: Mapping[str, Any], headers: Mapping[str, str]) -> Usage | None:
    """Return the tokens read; None where the host states none that make sense."""
    usage = sub_object(reply, "usage")
    input_tokens = token_count(usage.get("input_tokens"))
    if input_tokens is None or repeated_names(usage):
        return None
    cached = cached_count(usage) or 0
    return Usage(input_tokens=whole_input(input_tokens, cached), cached_input_tokens=cached)


class Wire(Struct, frozen=True, kw_only=True):
    """How requests to hosts of decision models are written, and replies read."""

    title: str
    """Name in messages, as in `the System One dialect`."""
    fields: Callable[[Request], dict[str, Any]]
    """Returns the JSON body of a request: `content` is the state, then a question for each of
    `reply_ids`."""
    answers: Callable[[Mapping[str, Any], Request], dict[str, object] | None]
    """Returns what a reply says, by id: a probability, one for each of the request's levels,
    `DECLINED`, or None for what is not an answer. None: it has no answers in the form of this
    wire."""
    usage: Callable[[Mapping[str, Any], Mapping[str, str]], Usage | None] = usage_in_body
    """Returns the tokens that a reply or its headers (looked up in lower case) say were read;
    None if they do not."""
    key_header: str = "Authorization"
    """Header of the key: there after `Bearer`, elsewhere alone."""
    takes_levels: bool = True
    """Whether questions may have levels; if not, a question has one probability, and
    `judge.wire = decisions-score` is refused."""


def _decisions_fields(request: Request) -> dict[str, Any]:
    state, *texts = request.content
    kind = "predicate"
    rated: dict[str, Any] = {}
    if request.levels:
        kind = "score"
        rated["levels"] = [{"label": name} for name in request.levels]
    questions: list[dict[str, Any]] = []
    for name, text in zip(request.reply_ids, texts, strict=True):
        questions.append({"name": name, "type": kind, "instructions": text, **rated})
    return {
        "model": request.model,
        "input": [
            {"type": "message", "role": "developer", "content": request.system},
            {"type": "message", "role": "user", "content": state},
        ],
        "questions": questions,
    }


def _decisions_answers(reply: Mapping[str, Any], request: Request) -> dict[str, object] | None:
    """Read them by name; where none has one and all are there, by place."""
    answers = reply.get("answers")
    if not isinstance(answers, list):
        return None
    ids = request.reply_ids
    names = [answer.get("name") if isinstance(answer, dict) else None for answer in answers]
    if len(answers) == len(ids) and not any(name is not None for name in names):
        return _values(dict(zip(ids, answers, strict=True)), request)
    by_id: dict[str, object] = {}
    for name, answer in zip(names, answers, strict=True):
        if isinstance(name, str):
            by_id[name] = None if name in by_id else answer
    return _values(by_id, request)


def _system_one_fields(request: Request) -> dict[str, Any]:
    state, *texts = request.content
    # What this wire calls a predicate, in questions and in answers.
    kind = "noul"
    rated: dict[str, Any] = {}
    if request.levels:
        kind = "score"
        rated["criteria"] = list(request.levels)
    questions: dict[str, dict[str, Any]] = {}
    for name, text in zip(request.reply_ids, texts, strict=True):
        questions[name] = {"type": kind, "instructions": text, **rated}
    return {
        "model": request.model,
        "state": f"{request.system}\n\n{state}",
        "questions": questions,
    }


def _system_one_answers(reply: Mapping[str, Any], request: Request) -> dict[str, object] | None:
    """Read them by name; one whose name occurred twice is not an answer."""
    answers = reply.get("answers")
    if not isinstance(answers, dict):
        return None
    # Answered twice: it is unknown which answer counts.
    ambiguous = dict.fromkeys(repeated_names(answers))
    return _values(answers | ambiguous, request)


def _values(answers: Mapping[str, object], request: Request) -> dict[str, object]:
    return {name: _value(answer, request.levels) for name, answer in answers.items()}


def _value(answer: object, levels: Sequence[str]) -> object:
    """Return a probability, one for each level, `DECLINED`, or None for what is not an answer."""
    if not isinstance(answer, dict) or repeated_names(answer):
        return None
    kind = answer.get("type")
    if kind == "refusal":
        return DECLINED
    if not levels:
        value = answer.get("noul" if kind == "noul" else "probability")
        if kind in ("noul", "predicate") and is_probability(value):
            return value
        return None
    if kind == "score":
        return _shares(answer.get("probabilities"), levels)
    return None


def _shares(levels_given: object, levels: Sequence[str]) -> list[float] | None:
    """Return the probabilities of the levels in their order: by the level's number, or from a list
    by its label."""
    if repeated_names(levels_given):
        return None
    if isinstance(levels_given, dict):
        values = [levels_given.get(str(number)) for number in range(len(levels))]
    elif isinstance(levels_given, list):
        by_label = _probability_by_label(levels_given)
        values = [by_label.get(name) for name in levels]
    else:
        return None
    shares = []
    for value in values:
        if is_probability(value) and isinstance(value, int | float):
            shares.append(float(value))
    if len(shares) == len(levels_given) == len(levels):
        return shares
    return None


def _probability_by_label(levels: Sequence[object]) -> dict[str, object]:
    by_label: dict[str, object] = {}
    for level in levels:
        # An object with a name twice says nothing for certain.
        if not isinstance(level, dict) or repeated_names(level):
            continue
        label = level.get("label")
        if isinstance(label, str):
            by_label[label] = level.get("probability")
    return by_label


WIRES: dict[DecisionWire, Wire] = {
    DecisionWire.DECISIONS: Wire(
        title="decisions", fields=_decisions_fields, answers=_decisions_answers
    ),
    DecisionWire.SYSTEM_ONE: Wire(
        title="System One", fields=_system_one_fields, answers=_system_one_answers
    ),
}
