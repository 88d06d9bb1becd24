"""A model's reply about one turn: a valid integer for an id of this pack, or nothing. Pure.

Read without trust through `scores_read`, by whose rules each score counts. It does not decide what happens to ids
without a score; `repair` does. Trade-off: reasons are taken as a list or as an object, since models give both.
"""

from collections.abc import Collection

from xscore.scorer.scores_read import NOTHING, Reply, in_conflict, printable, scored, stated, written


def read(text: str, ids: Collection[str]) -> Reply:
    """Read a reply to a prompt with these ids. Every other id, and every value in doubt, is void."""
    found = written(text, scores=len(ids))
    if found is None:
        return NOTHING
    reply = _validated(found.data, ids, mended=found.mended)
    return _confirmed(reply, found.damaged) if found.damaged else reply


def _validated(data: object, ids: Collection[str], *, mended: bool) -> Reply:
    if not isinstance(data, dict) or in_conflict(data, "scores"):
        return Reply({}, {}, mended=mended)
    scores = data.get("scores")
    if not isinstance(scores, dict):
        return Reply({}, {}, mended=mended)
    found = scored(scores, ids)
    reasons = {id_: reason for id_, reason in _reasons(data.get("reasons")) if id_ in found.scores}
    return Reply(found.scores, reasons, found.foreign, found.void, mended)


def _reasons(data: object) -> list[tuple[str, str]]:
    pairs: list[tuple[object, object]] = []
    if isinstance(data, dict):
        pairs = list(data.items())
    elif isinstance(data, list):
        entries = [entry for entry in data if isinstance(entry, dict)]
        pairs = [(entry.get("id"), entry.get("reason", entry.get("reasoning"))) for entry in entries]
    return [(id_, printable(text)) for id_, text in pairs if isinstance(id_, str) and isinstance(text, str)]


def _confirmed(reply: Reply, text: str) -> Reply:
    kept = stated(reply.scores, text)
    reasons = {id_: reason for id_, reason in reply.reasons.items() if id_ in kept}
    return Reply(kept, reasons, reply.foreign, reply.void + len(reply.scores) - len(kept), mended=True)
