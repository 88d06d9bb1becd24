"""Read a chat model's reply without trust: a valid integer for an id of this pack, or nothing.
Pure.

Strict JSON first. A reply that is not JSON is repaired by json-repair, and a score counts only if
the raw text plainly states the same one, because a repair may turn a truncated score into a lower
one. Nothing is clamped or rounded. Trade-off: `92.0` is void, because otherwise the `1.0` of a
model that scores 0..1 would pass as the lowest score.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from xscore.scorer.replies import EMPTY_REPLY, ParsedReply
from xscore.store.redaction import redact

MAX_REPLY_CHARS = 200_000
"""Longest valid reply: the largest honest one, 60 ids with reasons, has about 10,000."""
MAX_REPAIRED_CHARS = 30_000
"""Longest reply that is repaired; nor are those with more brackets than scores and reasons
need: repairing takes time quadratic in both, and half a minute of it was provoked by 100,000
braces."""
MOST_REPAIRED_SCORES = 60
"""Bounds the brackets of a reply to several questions that is repaired, by what the reply to one
turn can hold."""
MAX_REASON_CHARS = 240

_THINKING = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_END_OF_THINKING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_WRITTEN = re.compile(r"(?<!\w)[\"'“”]?(\w{2})[\"'“”]?\s*:\s*([^\s,}\]]+)(?=(\s*[,}\n])?)")


class _ConflictTrackingDict(dict[str, object]):
    """A JSON object that remembers keys given twice with different values."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__()
        self.conflicts: set[str] = set()
        for key, value in pairs:
            before = self.get(key)
            if key in self and (
                (type(before), before) != (type(value), value) or _in_doubt(before)
            ):
                self.conflicts.add(key)
            self[key] = value


class ReplyObject(NamedTuple):
    """The object of a reply, before anything in it is believed."""

    data: object
    repaired: bool = False
    """Whether the reply had to be repaired to be JSON."""
    damaged: str = ""
    """The text that the object was repaired from; empty if it was intact."""


def _without_thinking(text: str) -> str:
    """Drop what a model thinks aloud.

    One pattern over both marks would scan the rest of the text for each opening mark.
    """
    kept: list[str] = []
    place = 0
    while (begin := _THINKING.search(text, place)) and (
        end := _END_OF_THINKING.search(text, begin.end())
    ):
        kept.append(text[place : begin.start()])
        place = end.end()
    return "".join(kept) + text[place:]


def find_object(text: str, *, scores: int) -> ReplyObject | None:
    """Find the object of a reply, bare, in prose, or repaired; None if there is none.

    scores: how many it should hold.
    """
    if len(text) > MAX_REPLY_CHARS:
        return None
    strict = _strict(text)
    if strict is not None:
        return ReplyObject(strict)
    body = _without_thinking(text)
    start = body.find("{")
    end = body.rfind("}")
    if start < 0:
        return None
    inner = _strict(body[start : end + 1])
    if inner is not None:
        return ReplyObject(inner, repaired=True)
    damaged = body[start:]
    brackets = damaged.count("{") + damaged.count("[")
    if len(damaged) > MAX_REPAIRED_CHARS or brackets > 10 + 2 * scores:
        return None
    return ReplyObject(_repaired(damaged), repaired=True, damaged=damaged)


def stated_scores(scores: Mapping[str, int], text: str) -> dict[str, int]:
    """Return the repaired scores that this damaged text states in full, and states nowhere
    otherwise."""
    stated: dict[str, set[str]] = {}
    for match in _WRITTEN.finditer(text):
        id_, value, closed = match.groups()
        stated.setdefault(id_, set()).add(value if closed else value + " cut")
    return {id_: score for id_, score in scores.items() if stated.get(id_) == {str(score)}}


def has_conflict(data: Mapping[str, object], key: str) -> bool:
    """Whether this key was given twice with different values."""
    return isinstance(data, _ConflictTrackingDict) and key in data.conflicts


def printable_reason(reason: str) -> str:
    """One printable line for terminals and the store, without secrets, which a model may repeat or
    make up."""
    line = " ".join(_UNPRINTABLE.sub(" ", reason).split())
    line = redact(line.encode("utf-8", "replace").decode("utf-8")).text
    if len(line) <= MAX_REASON_CHARS:
        return line
    return line[: MAX_REASON_CHARS - 1] + "…"


def _in_doubt(value: object) -> bool:
    return isinstance(value, _ConflictTrackingDict) and bool(value.conflicts)


_DECODER = json.JSONDecoder(object_pairs_hook=_ConflictTrackingDict)
"""Decoder that is kept, since creating one takes as long as parsing a small reply."""


def _strict(text: str) -> object | None:
    try:
        decoded: object = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return decoded


def _repaired(text: str) -> object:
    import json_repair  # few replies are broken

    try:
        return json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None


def parse_reply(text: str, ids: Collection[str]) -> ParsedReply:
    """Read a reply to a prompt with these ids.

    Every other id, and every value in doubt, is void.
    """
    (reply,) = parse_replies(text, ids)
    return reply


def parse_replies(
    text: str, ids: Collection[str], questions: Sequence[str] = ()
) -> list[ParsedReply]:
    """Read a reply to a prompt with these ids, and with these questions if several may share it.

    Returns one result for each question, or one for a prompt that names none. A score counts
    only for the question under whose code it is, and a damaged reply to several for none. What
    is wrong with the reply as a whole is in the first result.
    """
    expected = len(ids)
    if questions:
        expected = min(len(questions) * (len(ids) + 1), MOST_REPAIRED_SCORES)
    nothing = [EMPTY_REPLY] * max(1, len(questions))
    reply = find_object(text, scores=expected)
    if reply is None:
        return nothing
    nothing[0] = ParsedReply({}, {}, repaired=reply.repaired)
    data = reply.data
    # A score of a damaged reply cannot be assigned to a question for certain.
    if (reply.damaged and len(questions) > 1) or not isinstance(data, dict):
        return nothing
    scores = data.get("scores")
    if has_conflict(data, "scores") or not isinstance(scores, dict):
        return nothing
    if not questions:
        return [believed_scores(scores, ids, _reasons(data.get("reasons")), reply)]
    return _by_question(scores, data.get("reasons"), reply, ids, questions)


def _by_question(
    scores: Mapping[str, object],
    reasons: object,
    reply: ReplyObject,
    ids: Collection[str],
    questions: Sequence[str],
) -> list[ParsedReply]:
    """Read an object of scores by question and id."""
    results: list[ParsedReply] = []
    void = 0
    for code in questions:
        of_question = scores.get(code, {})
        if not isinstance(of_question, dict) or has_conflict(scores, code):
            of_question = {}
            void += 1
        reasons_by_id = _reasons(reasons, question=code)
        result = believed_scores(of_question, ids, reasons_by_id, reply)
        # The reply is one, so that its repair is counted once.
        results.append(replace(result, repaired=False))
    first = results[0]
    results[0] = replace(
        first,
        foreign=first.foreign + len(scores.keys() - set(questions)),
        void=first.void + void,
        repaired=reply.repaired,
    )
    return results


def believed_scores(
    scores: Mapping[str, object],
    ids: Collection[str],
    reasons: Mapping[str, str],
    reply: ReplyObject,
) -> ParsedReply:
    """Read an object of scores: integers 0..100 given once; from a damaged reply only what its
    text plainly states."""
    valid: dict[str, int] = {}
    foreign = 0
    for id_, value in scores.items():
        if id_ not in ids:
            foreign += 1
        elif type(value) is int and 0 <= value <= 100 and not has_conflict(scores, id_):
            valid[id_] = value
    if reply.damaged:
        valid = stated_scores(valid, reply.damaged)
    reasons_of_valid = {id_: reason for id_, reason in reasons.items() if id_ in valid}
    void = len(scores) - foreign - len(valid)
    return ParsedReply(valid, reasons_of_valid, foreign, void, reply.repaired)


def _reasons(data: object, *, question: str = "") -> dict[str, str]:
    """Return the reasons by id. question: whose, where several questions share the reply."""
    pairs: list[tuple[object, object]] = []
    if isinstance(data, dict) and not question:
        pairs = list(data.items())
    elif isinstance(data, list):
        for entry in data:
            if isinstance(entry, dict) and (not question or entry.get("q") == question):
                reason = entry.get("reason", entry.get("reasoning"))
                pairs.append((entry.get("id"), reason))
    reasons: dict[str, str] = {}
    for id_, text in pairs:
        if isinstance(id_, str) and isinstance(text, str):
            reasons[id_] = printable_reason(text)
    return reasons
