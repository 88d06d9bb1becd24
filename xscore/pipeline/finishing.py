"""Which turn `xscore continue` takes up again, as what, and with which judge.

The turn as it was asked is asked again under a new id: what it judged is found in the cache and counts as carried, what
it left is judged. That holds for its own judge alone, so the turn goes on with that one, and is refused where another
is wanted: everything would be paid again behind the back of whoever asked to go on. The receipt of the first turn stays
as it was. Trade-off: the current file and the diff are not kept with a turn, so the moment is that of today, and under
`judge.context = full` it makes another question.
"""

import json
from dataclasses import replace

from xscore import database
from xscore.cache.keys import judge_key
from xscore.errors import NothingMatched, UsageError
from xscore.memory import turns
from xscore.memory.turns import PastTurn
from xscore.paths import native
from xscore.pipeline import kept
from xscore.pipeline.parts import Parts
from xscore.records import Turn


def turn_to_finish(parts: Parts, turn_id: str, *, answer: bool) -> tuple[Parts, Turn]:
    """Return the turn to run, and the parts with its judge; an empty id names the latest.

    Raises NothingMatched for an unknown turn, UsageError where nothing is to be finished, or only with another judge
    than the turn's.
    """
    past = turns.past_turn(parts.store.connection, turn_id)
    if past is None:
        said = f"there is no turn {turn_id}" if turn_id else "there is no turn yet"
        raise NothingMatched(
            said, hint="The last line of `xscore ask` names its turn; `xscore status` names the latest."
        )
    wants_answer = answer and parts.answerer is not None and not past.answer
    if past.state is turns.TurnState.DONE and not wants_answer:
        raise UsageError(
            f"turn {past.turn.id} is done: every candidate was judged", hint="Ask again to see what has changed since."
        )
    return _with_its_judge(parts, past), replace(_still_there(parts, past.turn), id="", continues=past.turn.id)


def _with_its_judge(parts: Parts, past: PastTurn) -> Parts:
    """Seat the judge of the turn, unless it left nothing that another could not have."""
    fits = _if_its_judge(parts, past)
    if fits is not None:
        return fits
    if not kept.known(parts.store, past.turn_key, past.judge):
        parts.observer.note(f"turn {past.turn.id} was judged by another judge: nothing of it can be carried over")
        return parts
    spec = _judge_named(past)
    if spec and parts.judged_by is not None:
        own = _if_its_judge(parts.judged_by(spec), past)
        if own is not None:
            parts.observer.note(f"turn {past.turn.id} goes on with its own judge, {spec}")
            return own
    who = f"by {spec}" if spec else "otherwise"
    raise UsageError(
        f"turn {past.turn.id} was judged {who}, and not with this model, host, order and packing: nothing would be"
        " carried over",
        hint="Go on with the judge and the options of the turn, or ask anew with `xscore ask`.",
    )


def _if_its_judge(parts: Parts, past: PastTurn) -> Parts | None:
    """Return the parts with this judge, or with the same model in prompts that questions share; None: it is another."""
    if past.judge == judge_key(parts.judge.identity):
        return parts
    shared = parts.judge.sharing_packs()
    return replace(parts, judge=shared) if past.judge == judge_key(shared.identity) else None


def _judge_named(past: PastTurn) -> str:
    """Name the judge of the turn as a user writes it; empty for a turn that was killed before its receipt."""
    if not past.receipt:
        return ""
    with database.making_sense("a receipt"):
        judge = json.loads(past.receipt)["judge"]
        provider, model = str(judge["provider"]), str(judge["model"])
    if provider == "scripted":  # its model is the file and the digest of what was in it
        model = model.rpartition("@")[0]
    return f"{provider}:{model}"


def _is_saved(parts: Parts, name: str) -> bool:
    from xscore.memory.checkpoints import is_saved  # few turns name one

    return is_saved(parts.store.connection, name)


def _still_there(parts: Parts, turn: Turn) -> Turn:
    """Name the files of the turn by their whole path, from wherever it goes on; those that are gone are left out."""
    if turn.checkpoint and not _is_saved(parts, turn.checkpoint):
        parts.observer.note(f"gone since turn {turn.id}, and left out: checkpoint {turn.checkpoint}")
        turn = replace(turn, checkpoint="")
    named = dict.fromkeys([*([turn.file] if turn.file else []), *turn.recent])
    found = {name: path for name in named if (path := parts.root.path / native(name)).exists()}
    gone = [name for name in named if name not in found]
    if gone:
        parts.observer.note(f"gone since turn {turn.id}, and left out: {', '.join(gone)}")
    return replace(
        turn,
        file=str(found.get(turn.file, "")),
        line=turn.line if turn.file in found else 0,
        recent=tuple(str(found[name]) for name in turn.recent if name in found),
    )
