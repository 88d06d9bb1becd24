"""Decision models: one state, many independent questions, probabilities in return. Two wires, one
provider.

A reply is checked answer by answer: one that is missing, repeated, renamed, of another type or out
of 0..1 has no score, and its neighbours keep theirs. `Completion.text` holds the answers as JSON by
question name, in one form for both wires (`scorer.prompt_builder` reads it). Trade-off: output is
free on every such host, so it is not counted.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import msgspec
from msgspec.structs import replace

from xscore.providers.connection import HostConnection
from xscore.providers.decision_hosts import (
    DECISION_HOSTS,
    DECISIONS_OF_OPENAI,
    DecisionHost,
    DecisionWire,
    base_url_setting,
    decision_access,
)
from xscore.providers.host_facts import (
    cached_count,
    json_object,
    make_completion,
    sub_object,
    token_count,
    whole_input,
)
from xscore.providers.hosts import host_of, is_host_within, usable_key
from xscore.providers.provider import OnText
from xscore.providers.reply_bounds import expecting_tokens
from xscore.providers.transport import headers_of_environment
from xscore.providers.wire_errors import CallContext, DialectProfile, clean_completion
from xscore.records.calls import (
    DECLINED,
    Capability,
    Completion,
    Finish,
    ReplyForm,
    Request,
    Usage,
)
from xscore.settings import Settings

ANSWER_TOKENS = 120
"""What one answer may take at most: five levels with a legend and a probability each."""
MOST_NAME_CHARS = 200
_DIALECTS = {DecisionWire.DECISIONS: "decisions", DecisionWire.SYSTEM_ONE: "System One"}
"""Wire -> its name in messages."""


class DecisionProvider(HostConnection):
    """One host of decision models. It is `Adaptable`, and takes one form only."""

    forms: tuple[ReplyForm, ...] = (ReplyForm.JSON_SCHEMA,)
    is_vendors_own = False
    """In the sense of `Adaptable`, even at the vendor's own address: each host is probed, since
    only a reply says whether it has the route, and which model answers."""

    def __init__(self, name: str, model: str, settings: Settings) -> None:
        """Connect to one of `DECISION_HOSTS`; nothing is sent yet.

        Raises UsageError for a missing or malformed base URL and a malformed key,
        AuthenticationFailed for no key.
        """
        self.name: str = name
        self.declared: DecisionHost = DECISION_HOSTS[name]
        access = decision_access(name, settings)
        self.profile: DialectProfile = decision_profile(name, self.declared)
        host = host_of(access.base_url, setting=self.profile.setting)
        super().__init__(access.base_url, usable_key(access, host=host, model=model))
        self._capability = replace(self._capability, limits=self.declared.limits)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt within `request.timeout_s`. Raises leaves of `ProviderError`."""
        call = CallContext(self.host, self.key, request.model, request)
        body = msgspec.json.encode(self.fields(request))
        async with self.deadline(request.timeout_s):
            with expecting_tokens(ANSWER_TOKENS * len(request.reply_ids)):
                reply = await self.exchange(self.declared.route, body, call)
        completion = clean_completion(
            self.read(reply.data, reply.headers, request), secret=self.key
        )
        capability = self._capability
        name = completion.model
        self._capability = replace(
            capability,
            model=request.model,
            reports_usage=completion.usage_reported,
            limits=completion.limits or capability.limits,
            answered_by=name,
            renamed=capability.renamed + (capability.answered_by not in ("", name)),
        )
        return completion

    def fields(self, request: Request) -> dict[str, Any]:
        """Return the JSON body of a request."""
        assert request.decision is not None, "decision models accept decision requests only"
        match self.declared.wire:
            case DecisionWire.DECISIONS:
                return _decisions_fields(request)
            case DecisionWire.SYSTEM_ONE:
                return _system_one_fields(request)

    async def context_tokens(self, model: str) -> int | None:
        """Return what is declared: these hosts do not tell."""
        return self.declared.request_tokens

    def adopt(self, capability: Capability) -> None:
        """Remember what is known of the host."""
        self._capability = replace(capability, limits=capability.limits or self.declared.limits)

    def headers(self) -> dict[str, str]:
        """Return the authentication headers."""
        if self.name != DECISIONS_OF_OPENAI:
            return super().headers()
        is_vendors_own = is_host_within(self.base_url, self.profile.vendor)
        return super().headers() | headers_of_environment(
            "openai", is_vendors_own=is_vendors_own
        )

    def read(self, data: bytes, headers: Mapping[str, str], request: Request) -> Completion:
        """Return the completion in the body of a success.

        Raises UnreadableResponse, or the error it carries.
        """
        call = CallContext(self.host, self.key, request.model, request)
        reply = _decoded(data, headers, self.profile, call)
        self.profile.raise_inner(reply.get("error"), call)
        answers = _answers(self.declared.wire, reply, request.reply_ids)
        if answers is None:
            is_other = isinstance(reply.get("answers"), list | dict)
            content = "no answers"
            if is_other:
                content = "answers in the form of the other wire of decision models"
            raise self.profile.unreadable(content, call)
        text = json.dumps(
            {name: _value(answer, request.levels) for name, answer in answers.items()}
        )
        model = reply.get("model")
        return make_completion(
            call,
            text,
            Finish.STOP,
            _usage(reply),
            model=model if _is_name(model) else request.model,
            limits=self.rate_limits(headers),
        )


def decision_profile(name: str, declared: DecisionHost) -> DialectProfile:
    """Return the names that this host's errors and hints use."""
    return DialectProfile(
        name=_DIALECTS[declared.wire],
        vendor=declared.vendor or "invalid",
        setting=base_url_setting(name),
        base_url_ends="with /v1",
        path=declared.route,
        models_path="/models",
    )


def _decisions_fields(request: Request) -> dict[str, Any]:
    """Return the body of the decisions wire."""
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


def _system_one_fields(request: Request) -> dict[str, Any]:
    """Return the body of the System One wire."""
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


def _answers(
    wire: DecisionWire, reply: Mapping[str, Any], ids: Sequence[str]
) -> dict[str, object] | None:
    """Return the answers of a reply by the names of their questions; None: it has none in the form
    of this wire."""
    match wire:
        case DecisionWire.DECISIONS:
            return _in_order(reply.get("answers"), ids)
        case DecisionWire.SYSTEM_ONE:
            return _by_name(reply.get("answers"))


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


def _repeated(decoded: object) -> frozenset[str]:
    if isinstance(decoded, _JsonObject):
        return decoded.repeated
    return frozenset()


_DECODER = json.JSONDecoder(object_pairs_hook=_JsonObject.of)


def _decoded(
    data: bytes, headers: Mapping[str, str], profile: DialectProfile, call: CallContext
) -> dict[str, Any]:
    """Return the JSON object of a success. Raises UnreadableResponse."""
    try:
        decoded = _DECODER.decode(data.decode("utf-8"))
    except (ValueError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict) or _repeated(decoded):
        json_object(data, headers, profile, call)  # says what it is
        raise profile.unreadable("a JSON object that repeats a name", call)
    return decoded


def _by_name(answers: object) -> dict[str, object] | None:
    """Return the answers of the System One wire; one whose name stood twice is not an answer."""
    if not isinstance(answers, dict):
        return None
    repeated = _repeated(answers)
    for name in repeated:
        # Answered twice: it is unknown which answer counts.
        answers[name] = None
    return answers


def _in_order(answers: object, ids: Sequence[str]) -> dict[str, object] | None:
    """Return the answers of the decisions wire by name; where none has one and all are there, by
    place."""
    if not isinstance(answers, list):
        return None
    names = [answer.get("name") if isinstance(answer, dict) else None for answer in answers]
    if len(answers) == len(ids) and not any(name is not None for name in names):
        return dict(zip(ids, answers, strict=True))
    by_id: dict[str, object] = {}
    for name, answer in zip(names, answers, strict=True):
        if isinstance(name, str):
            by_id[name] = None if name in by_id else answer
    return by_id


def _value(answer: object, levels: Sequence[str]) -> object:
    """Return a probability, one for each level, `DECLINED`, or None for what is not an answer."""
    if not isinstance(answer, dict) or _repeated(answer):
        return None
    kind = answer.get("type")
    if kind == "refusal":
        return DECLINED
    if not levels:
        value = answer.get("noul" if kind == "noul" else "probability")
        if kind in ("noul", "predicate") and _is_probability(value):
            return value
        return None
    if kind == "score":
        return _shares(answer.get("probabilities"), levels)
    return None


def _shares(levels_given: object, levels: Sequence[str]) -> list[float] | None:
    """Return the probabilities of the levels in their order, from either wire's form."""
    if _repeated(levels_given):
        return None
    if isinstance(levels_given, dict):  # System One: by the level's number
        values = [levels_given.get(str(number)) for number in range(len(levels))]
    elif isinstance(levels_given, list):
        by_label = _probability_by_label(levels_given)
        values = [by_label.get(name) for name in levels]
    else:
        return None
    shares = []
    for value in values:
        if _is_probability(value) and isinstance(value, int | float):
            shares.append(float(value))
    if len(shares) == len(levels_given) == len(levels):
        return shares
    return None


def _probability_by_label(levels: Sequence[object]) -> dict[str, object]:
    by_label: dict[str, object] = {}
    for level in levels:
        # An object with a name twice says nothing for certain.
        if not isinstance(level, dict) or _repeated(level):
            continue
        label = level.get("label")
        if isinstance(label, str):
            by_label[label] = level.get("probability")
    return by_label


def _is_name(value: object) -> TypeGuard[str]:
    """Whether this can be the name of a model: it becomes part of a judge's identity and is
    shown."""
    return isinstance(value, str) and 0 < len(value) <= MOST_NAME_CHARS and value.isprintable()


def _is_probability(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1  # type: ignore[operator]  # `type` has shown that it is a number; NaN is in no range


def _usage(reply: Mapping[str, Any]) -> Usage | None:
    """Return the tokens read; None where the host states none that make sense."""
    usage = sub_object(reply, "usage")
    input_tokens = token_count(usage.get("input_tokens"))
    if input_tokens is None or _repeated(usage):
        return None
    cached = cached_count(usage) or 0
    return Usage(input_tokens=whole_input(input_tokens, cached), cached_input_tokens=cached)
