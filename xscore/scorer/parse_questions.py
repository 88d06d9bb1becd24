"""A reply about several questions read without trust: a valid integer for an id under its question, or nothing. Pure.

Strict and tolerant as `scores_read`, and by the same rules for each score. Beyond them, a score is never taken from one
question for another: it counts under the code that it stands under, wherever that stands in the reply; a code that is
given twice with different scores is void with all of them; and a score out of a mended reply counts only where the raw
text states it in full right behind its question's code, before any other brace or code. Trade-off: a reply that leaves
the questions out, as a reply to one turn would, says nothing, also where there was only one question to mean.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from xscore.scorer.scores_read import NOTHING, Reply, Written, in_conflict, printable, scored, stated, written

_QUESTION = re.compile(r"(?<!\w)[\"'“”]?(q\d{1,2})[\"'“”]?\s*:\s*\{")
MOST_MENDED_SCORES = 60
"""As many as one turn's reply can hold bound the brackets of what is mended: mending takes time quadratic in them."""
_END = re.compile(r"[{}\[\]]|(?<!\w)q\d{1,2}(?!\w)")


@dataclass(frozen=True, slots=True)
class Replies:
    """What a reply validly says to each question."""

    by_question: Mapping[str, Reply]
    whole: Reply
    """Without scores: counts what was wrong with all of it."""


def read_one(text: str, ids: Collection[str]) -> Reply:
    """Read a reply to the prompt with one question, `q1`."""
    found = read_questions(text, ("q1",), ids)
    one, whole = found.by_question["q1"], found.whole
    return Reply(one.scores, one.reasons, whole.foreign, whole.void, whole.mended)


def read_questions(text: str, questions: Collection[str], ids: Collection[str]) -> Replies:
    """Read a reply to a prompt with these questions and ids; there is a `Reply` for each question."""
    found = written(text, scores=min(len(questions) * (len(ids) + 1), MOST_MENDED_SCORES))
    by_question = dict.fromkeys(questions, NOTHING)
    data = found.data if found else None
    if found is None or not isinstance(data, dict):
        return Replies(by_question, Reply({}, {}, mended=bool(found and found.mended)))
    scores = data.get("scores")
    if in_conflict(data, "scores") or not isinstance(scores, dict):
        return Replies(by_question, Reply({}, {}, mended=found.mended))
    reasons = _reasons(data.get("reasons"))
    foreign = void = 0
    for code, given in scores.items():
        if code not in by_question:
            foreign += 1
        elif not isinstance(given, dict) or in_conflict(scores, code):
            void += 1
        else:
            reply = by_question[code] = _reply(given, ids, reasons.get(code, {}), _stretch(found, code))
            foreign, void = foreign + reply.foreign, void + reply.void
    return Replies(by_question, Reply({}, {}, foreign, void, found.mended))


def _reply(given: Mapping[str, object], ids: Collection[str], reasons: Mapping[str, str], raw: str | None) -> Reply:
    """Read the scores of one question. raw: what they must be stated in; None: they stood there whole."""
    found = scored(given, ids)
    kept = found.scores if raw is None else stated(found.scores, raw)
    void = found.void + len(found.scores) - len(kept)
    return Reply(kept, {id_: said for id_, said in reasons.items() if id_ in kept}, found.foreign, void)


def _stretch(found: Written, code: str) -> str | None:
    """Return the damaged text in which this question's scores must stand; nothing where its code is given twice."""
    if not found.damaged:
        return None
    own = [match.end() for match in _QUESTION.finditer(found.damaged) if match[1] == code]
    if len(own) != 1:
        return ""
    end = _END.search(found.damaged, own[0])
    return found.damaged[own[0] : end.start() + 1 if end else len(found.damaged)]


def _reasons(data: object) -> dict[str, dict[str, str]]:
    """Sort the reasons by question; those that do not say which are dropped."""
    found: dict[str, dict[str, str]] = {}
    for entry in data if isinstance(data, list) else ():
        if not isinstance(entry, dict):
            continue
        code, id_, said = entry.get("q"), entry.get("id"), entry.get("reason", entry.get("reasoning"))
        if isinstance(code, str) and isinstance(id_, str) and isinstance(said, str):
            found.setdefault(code, {})[id_] = printable(said)
    return found
