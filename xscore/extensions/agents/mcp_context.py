"""The `context` tool of `xscore mcp`: one turn without an answering call, as text for an agent.

It sets the turn's deadline, cap and scope; the pipeline does the rest. The background process
finishes what a deadline left. Trade-off: a deadline is set even where the client would wait longer.
"""

import os
import posixpath
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.cli.progress import STAGES
from xscore.extensions.agents.agent_bundle import coverage_line, quoted, render_from_store
from xscore.extensions.agents.background import wake_background
from xscore.extensions.agents.mcp_calls import Call
from xscore.extensions.agents.mcp_workplace import ContextArguments, Workplace
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import TurnOptions
from xscore.pipeline.turn import run_turn
from xscore.platform.errors import UsageError
from xscore.platform.paths import RepositoryRoot
from xscore.platform.text import ellipsize
from xscore.platform.tokens import OTHER
from xscore.prompts.fences import well_formed
from xscore.records.events import Observer, Progress, StageBegan, TurnEvent
from xscore.records.judgment import UnjudgedCause
from xscore.records.receipt import Answer
from xscore.records.turn import Scope, Turn
from xscore.settings import LoadedSettings

DEADLINE_S = 15.0
"""Seconds for a call of a client that shows no progress. Clients give up after 60 s, and calls
may wait for each other."""
PROGRESS_DEADLINE_S = 45.0
"""Seconds for a call of a client that shows progress."""
REPORT_EVERY_S = 0.5
MOST_WARNINGS, WARNING_CHARS = 3, 300
_GLOB = re.compile(r"[*?\[]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class ToolResult(Struct, frozen=True):
    """A tool's text for the model, and data for programs."""

    text: str
    about: dict[str, Any] = {}
    """Facts sent as `_meta.xscore`, which models do not see. They are not structured content,
    because several agents then hide the text from their model."""
    is_error: bool = False

    def to_wire(self) -> dict[str, Any]:
        """Return the result of `tools/call`."""
        wire: dict[str, Any] = {
            "content": [{"type": "text", "text": well_formed(self.text)}],
            "isError": self.is_error,
        }
        if self.about:
            wire["_meta"] = {"xscore": self.about}
        return wire


class ProgressReporter(Observer):
    """Reports the progress of a turn at intervals, with numbers that only grow."""

    def __init__(self, report: Callable[[float, float | None, str], None]) -> None:
        """report: takes the progress, the total if known, and a message."""
        self._report, self._shown, self._at = report, 0.0, 0.0

    def on(self, event: TurnEvent) -> None:
        """Tell of stages and of settled judgments."""
        if isinstance(event, StageBegan):
            self._tell(self._shown, None, STAGES.get(event.name, event.name))
        elif isinstance(event, Progress):
            settled = event.cached + event.judged + event.unjudged
            if time.monotonic() - self._at >= REPORT_EVERY_S or settled == event.candidates:
                self._tell(
                    settled, event.candidates, f"judged {settled:,} of {event.candidates:,}"
                )

    def _tell(self, value: float, total: float | None, words: str) -> None:
        self._at = time.monotonic()
        # The protocol requires each value to be larger than the last.
        self._shown = max(self._shown + 0.001, value)
        self._report(self._shown, total, words)


async def find_context(place: Workplace, arguments: ContextArguments, call: Call) -> ToolResult:
    """Run a turn and return what is relevant. Raises XscoreError if the turn fails."""
    started = time.monotonic()
    refuse_unlikely_root(place.root)
    turn = Turn(
        task=arguments.task,
        errors=arguments.errors,
        scope=scope_of(arguments.paths, place.root.path),
    )
    loaded = _settings_of_call(place, arguments, call)
    async with Pipeline.open(
        place.root.path, loaded, observer=ProgressReporter(call.report)
    ) as pipeline:
        options = TurnOptions(answer=False, command="mcp")
        answer = await run_turn(pipeline.parts, turn, options.asked_at(started))
        text = _text(pipeline, answer, arguments)
        is_cut = bool(answer.files_left) or UnjudgedCause.DEADLINE in answer.unjudged.by_cause
        if is_cut and not call.is_cancelled:
            wake_background(pipeline.parts.root, settings=pipeline.parts.settings)
    # an error where nothing was judged, by a model or by words: a cap, say, had no room for a
    # single call
    nothing = (
        answer.coverage.unjudged == answer.coverage.candidates > 0 and not answer.ranked_by
    )
    return ToolResult(text, _about(answer), is_error=nothing)


def refuse_unlikely_root(root: RepositoryRoot) -> None:
    """Raise UsageError for the home folder or the file system's root: some clients start servers
    there."""
    if not root.is_git and root.path in (Path.home(), Path(root.path.anchor)):
        raise UsageError(
            f"{root.path} is not a repository",
            hint="Start the server in one: `xscore -C FOLDER mcp`, or set its cwd.",
        )


def scope_of(paths: tuple[str, ...], root: Path) -> Scope:
    """Turn files, folders and globs into a scope. Raises UsageError for a path outside the root."""
    inside = [_confined(path, root) for path in paths]
    globs = [path for path in inside if _GLOB.search(path) and not os.path.lexists(root / path)]
    if not globs:
        return Scope(within=tuple(inside))
    patterns: list[str] = []
    for path in inside:
        if path in globs:
            patterns.append(path)
        else:
            # From the root, and with its own `*` and brackets as letters.
            patterns.append("/" + re.sub(r"([*?\[\]\\])", r"\\\1", path))
    return Scope(paths=tuple(patterns))


def _confined(path: str, root: Path) -> str:
    plain = posixpath.normpath(path)
    if plain.startswith("/"):
        plain = os.path.relpath(plain, root)
    if plain.split("/")[0] in ("..", "~") or _CONTROL.search(plain):
        raise UsageError(
            f"`paths`: {ellipsize(path, 200)} is outside this repository",
            hint="Name files, folders or globs below its root, such as src/ or tests/**/*.py.",
        )
    return plain


def _settings_of_call(
    place: Workplace, arguments: ContextArguments, call: Call
) -> LoadedSettings:
    """Return the settings with this call's deadline, and a cap of `budget.confirm_usd`, since no
    one can confirm."""
    loaded = place.settings()
    settings, budget = loaded.settings, loaded.settings.budget
    usual = PROGRESS_DEADLINE_S if call.wants_progress else DEADLINE_S
    usual = max(usual, settings.agents.hook_deadline_s)
    budget = replace(budget, deadline_s=arguments.deadline_s or budget.deadline_s or usual)
    if loaded.origins["budget.max_usd"] == "default":
        budget = replace(
            budget, max_usd=min(budget.max_usd or budget.confirm_usd, budget.confirm_usd)
        )
    return replace(loaded, settings=replace(settings, budget=budget))


def _text(pipeline: Pipeline, answer: Answer, arguments: ContextArguments) -> str:
    room = int((arguments.max_tokens or pipeline.parts.settings.bundle.max_tokens) * OTHER)
    notes = ""
    for warning in answer.warnings[:MOST_WARNINGS]:
        notes += f"\nNote: {quoted(warning, WARNING_CHARS)}"
    if len(notes.encode()) >= room // 4:
        notes = ""
    room -= len(notes.encode())
    bundle = render_from_store(
        pipeline.store, answer, max_chars=room, errors=arguments.errors, spares=False
    )
    if not bundle:
        bundle = f"{coverage_line(answer)}\nNothing in it is relevant enough to list."
    return bundle + notes


def _about(answer: Answer) -> dict[str, Any]:
    kept: list[dict[str, object]] = []
    for memory in answer.selected:
        kept.append(
            {
                "path": memory.path,
                "start_line": memory.start_line,
                "end_line": memory.end_line,
                "score": round(memory.score, 4),
            }
        )
    return {
        "turn": answer.turn_id,
        "receipt": f"xscore://turn/{answer.turn_id}",
        "coverage": msgspec.to_builtins(answer.coverage),
        "kept": kept,
    }
