"""The turn that a hook runs for a prompt, within the time that the agent waits.

What was said before joins the brief (`brief`), code the bundle (`agent_bundle`). Both are added as
soon as they are rendered, before the receipt is stored. Trade-off: a decision
model gives no reasons here, since that would be a second call.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.cli.interrupt import run_interruptible
from xscore.cli.start import STARTED_AT
from xscore.extensions.agents.agent_bundle import (
    render_from_store,
    size_of,
    split_spoken,
    without_spoken,
)
from xscore.extensions.agents.hook_call import INDEXING, HookCall
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import TurnOptions
from xscore.pipeline.turn import run_turn
from xscore.records.events import Observer, StageBegan, TurnEvent
from xscore.records.receipt import Answer, Selected
from xscore.records.turn import Turn
from xscore.settings import LoadedSettings
from xscore.store.hook_state import read_hook_state, session_brief
from xscore.store.index_rows import read_index_meta
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.pipeline.turn_stages import Ranking

_kept_alive: list["Ranking"] = []
"""Rankings of this process, which ends soon and frees all at once: freeing the records of a large
pool one by one took half as long as ranking them."""


def run_hook_turn(call: HookCall, task: str) -> Answer | None:
    """Run the turn within the deadline and add its bundle; None where nothing is indexed yet."""

    async def work() -> Answer | None:
        async with Pipeline.open(
            call.root.path, _hurried(call), observer=_StageNotice(call)
        ) as pipeline:
            if not read_index_meta(pipeline.store.connection, "index_profile"):
                return None

            def deliver(answer: Answer) -> None:
                call.answer(*_added(call, pipeline.store, answer))

            options = TurnOptions(
                answer=False,
                command="hook",
                deliver=deliver,
                ranked=lambda _, ranking: _kept_alive.append(ranking),
            ).asked_at(STARTED_AT)
            return await run_turn(pipeline.parts, Turn(task=task, thread=call.thread), options)

    return run_interruptible(
        work(), notify=lambda _: None, cleanup=lambda: os._exit(0), late_loop=True
    )


def _added(call: HookCall, store: Store, answer: Answer) -> tuple[str, str]:
    """Return a prompt's brief of earlier work, and its code."""
    spoken, _ = split_spoken(answer.selected)
    brief = _brief_text(call, store, answer, spoken) if spoken else ""
    room = call.settings.agents.hook_max_chars - size_of(brief) - 1
    return brief, render_from_store(store, without_spoken(answer), max_chars=room)


def _brief_text(
    call: HookCall, store: Store, answer: Answer, spoken: Sequence[Selected]
) -> str:
    """Return the session's brief of earlier work, and record that it was given."""
    when = call.settings.agents.memory
    if when == "off":
        return ""
    # Only where something was said before.
    from xscore.extensions.agents.brief import brief_of_turn

    before = session_brief(read_hook_state(call.state_file), call.thread)
    text, call.brief = brief_of_turn(store, answer, spoken, before, every=when == "every")
    return text


def _hurried(call: HookCall) -> LoadedSettings:
    """Return the settings with the hook's deadline, and without the call that gives reasons to a
    decision model."""
    settings = call.settings
    seconds = call.settings.agents.hook_deadline_s
    deadline_s = min(seconds, settings.budget.deadline_s or seconds)
    changed = replace(
        settings,
        budget=replace(settings.budget, deadline_s=deadline_s),
        judge=replace(settings.judge, reason_model="none"),
    )
    return replace(call.loaded, settings=changed)


class _StageNotice(Observer):
    """Notes that the index is being built, in case time runs out meanwhile."""

    def __init__(self, call: HookCall) -> None:
        self._call = call

    def on(self, event: TurnEvent) -> None:
        """Note a stage."""
        if isinstance(event, StageBegan):
            self._call.notice = INDEXING if event.name == "index" else ""
