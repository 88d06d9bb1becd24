"""Find a past turn and prepare it for `continue`. Sends nothing.

`continue` asks the same question under a new turn id, so judgments come from the cache; it takes
the turn's own judge and answering model, or everything would be paid for again. Trade-off: the
current file and diff are not stored with a turn, so `continue` uses today's.
"""

from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline import pool
from xscore.pipeline.assembly import with_models
from xscore.pipeline.judge_prompts import sharing_prompts
from xscore.pipeline.parts import PipelineParts
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.files import is_there
from xscore.platform.paths import native_name
from xscore.records.turn import Turn
from xscore.store import turns
from xscore.store.checkpoints import load_checkpoint
from xscore.store.turn_history import PastTurn, find_turn_id, past_turn


def find_past_turn(parts: PipelineParts, turn_id: str, *, hint: str) -> PastTurn:
    """Return a past turn, the latest for an empty id. Raises NothingMatched."""
    connection = parts.store.connection
    past = past_turn(connection, find_turn_id(connection, turn_id) if turn_id else "")
    if past is None:
        raise NothingMatched("there is no turn yet", hint=hint)
    return past


def turn_to_continue(
    parts: PipelineParts, turn_id: str, *, answer: bool, even_done: bool = False
) -> tuple[PipelineParts, Turn]:
    """Return the turn to run, and the parts with its judge and answering model; an empty id names
    the latest.

    even_done: also a turn that is done.
    Raises NothingMatched for an unknown turn, UsageError where nothing is to be finished, or only
    with another judge than the turn's.
    """
    hint = "The last line of `xscore ask` names its turn; `xscore status` names the latest."
    past = find_past_turn(parts, turn_id, hint=hint)
    parts = _with_its_models(parts, past)
    wants_answer = answer and parts.answerer is not None and not past.answer
    if past.state is turns.TurnState.DONE and not (wants_answer or even_done):
        raise UsageError(
            f"turn {past.turn.id} is done: every candidate was judged",
            hint="Ask again to see what has changed since.",
        )
    turn = _still_there(parts, past.turn)
    return parts, replace(turn, id="", continues=past.turn.id, changed=None)


def _with_its_models(parts: PipelineParts, past: PastTurn) -> PipelineParts:
    """Return the parts with the turn's models, unless the caller named others.

    Raises UsageError if another judge is named and none of the turn's judgments could be reused.
    """
    with_own = with_models(parts, past.judge_name, past.primary)
    fits = _if_its_judge(with_own, past)
    if fits is not None:
        if parts.judge.identity != with_own.judge.identity:
            parts.observer.note(
                f"turn {past.turn.id} continues with its own judge, {past.judge_name}"
            )
        return fits
    who = f"by {past.judge_name}" if past.judge_name else "otherwise"
    if not pool.known_judgments(parts.store, past.turn_key, past.judge):
        parts.observer.note(
            f"turn {past.turn.id} was to be judged {who}; nothing of it was judged"
        )
        return with_own
    raise UsageError(
        f"turn {past.turn.id} was judged {who}, and not with this model, host, order and packing:"
        " nothing would be carried over",
        hint="Use the turn's own judge and options, or ask again with `xscore ask`.",
    )


def _if_its_judge(parts: PipelineParts, past: PastTurn) -> PipelineParts | None:
    """Return the parts with this judge, or with the same model in shared prompts; None if it is
    another."""
    if past.judge == judge_key(parts.judge.identity):
        return parts
    shared = sharing_prompts(parts.judge)
    if past.judge == judge_key(shared.identity):
        return replace(parts, judge=shared)
    return None


def _still_there(parts: PipelineParts, turn: Turn) -> Turn:
    """Make the turn's paths absolute; leave out files and a checkpoint that are gone."""
    try:
        if turn.checkpoint:
            load_checkpoint(parts.store.connection, turn.checkpoint)
    except NothingMatched:
        parts.observer.note(
            f"gone since turn {turn.id}, and left out: checkpoint {turn.checkpoint}"
        )
        turn = replace(turn, checkpoint="")
    names = dict.fromkeys(filter(None, [turn.file, *turn.recent, *turn.scope.within]))
    existing: dict[str, str] = {}
    for name in names:
        place = parts.root.path / native_name(name)
        if is_there(place):
            existing[name] = str(place)
    gone = [name for name in names if name not in existing]
    if gone:
        parts.observer.note(f"gone since turn {turn.id}, and left out: {', '.join(gone)}")
    recent = [existing[name] for name in turn.recent if name in existing]
    within = [existing[name] for name in turn.scope.within if name in existing]
    scope = turn.scope
    # With none of them left the scope stays as it was: without it, all memories would be judged.
    if within:
        scope = replace(scope, within=tuple(within))
    return replace(
        turn,
        file=existing.get(turn.file, ""),
        line=turn.line if turn.file in existing else 0,
        recent=tuple(recent),
        scope=scope,
    )
