"""The turn that a hook runs for a prompt, within the time that the agent waits.

Its bundle is added as soon as it is rendered, before the receipt is stored. Trade-off: a decision
model gives no reasons here, since that would be a second call.
"""

import os

from msgspec.structs import replace

from xscore.cli.interrupt import run_interruptible
from xscore.cli.start import STARTED_AT
from xscore.extensions.agents.agent_bundle import render_from_store
from xscore.extensions.agents.hook_call import INDEXING, HookCall
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import TurnOptions
from xscore.pipeline.turn import run_turn
from xscore.records.events import Observer, StageBegan, TurnEvent
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import LoadedSettings
from xscore.store.index_rows import read_index_meta


def run_hook_turn(call: HookCall, task: str) -> Answer | None:
    """Run the turn within the deadline and add its bundle; None where nothing is indexed yet."""

    async def work() -> Answer | None:
        async with Pipeline.open(
            call.root.path, _hurried(call), observer=_StageNotice(call)
        ) as pipeline:
            if not read_index_meta(pipeline.store.connection, "index_profile"):
                return None

            def deliver(answer: Answer) -> None:
                call.add(
                    render_from_store(
                        pipeline.store, answer, max_chars=call.settings.agents.hook_max_chars
                    )
                )

            options = TurnOptions(answer=False, command="hook", deliver=deliver).asked_at(
                STARTED_AT
            )
            return await run_turn(pipeline.parts, Turn(task=task, thread=call.thread), options)

    return run_interruptible(
        work(), notify=lambda _: None, cleanup=lambda: os._exit(0), late_loop=True
    )


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
        """Take a stage."""
        if isinstance(event, StageBegan):
            self._call.notice = INDEXING if event.name == "index" else ""
