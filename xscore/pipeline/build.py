"""`Pipeline`, the Python interface: it opens a repository and puts the parts of a turn together.

Opening costs no time or money: the HTTP client is imported at the first call, and modules that only
some commands need when they run.
"""

import os
import stat
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec.structs import replace

from xscore.pipeline.assembly import assemble_parts
from xscore.pipeline.parts import (
    AFTER_INDEX,
    TURN_LISTENER,
    PipelineParts,
    TurnListener,
    TurnOptions,
)
from xscore.platform.errors import NothingMatched, UsageError, require_kind
from xscore.platform.files import is_there
from xscore.platform.paths import RepositoryRoot, find_root, user_config_file
from xscore.platform.processes import random_hex
from xscore.records.events import ForwardingObserver, Observer, TurnEvent
from xscore.records.indexing import IndexReport
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import LoadedSettings, Settings, load_settings
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.pipeline.stream import EventStream
    from xscore.records.estimates import Estimate
    from xscore.records.reports import Diagnosis, Explanation, StoreStatus

Clock = Callable[[], float]


class Pipeline:
    """One repository, opened. Used by one task at a time."""

    def __init__(self, parts: PipelineParts) -> None:
        self.parts = parts
        self._stream: EventStream | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path | str = ".",
        settings: Settings | LoadedSettings | None = None,
        *,
        observer: Observer | None = None,
        clock: Clock = time.time,
        listener: TurnListener | None = None,
        make: bool = True,
    ) -> AsyncIterator[Self]:
        """Open the repository around `path`.

        make: create the store if it is missing; False: read a missing one as empty.
        settings: None reads the user's and the repository's files and the environment, as the
            command line does.
        clock: Unix seconds, for the timestamps and leases of a turn.
        listener: called with every turn that has ended; None: chosen by `telemetry.otel`.
        Raises StoreUntrusted, StoreDamaged, StoreError, UsageError for invalid settings, and
        NoUsableModel if a model named in the settings is not available.
        """
        require_kind(str, Path, path=path)
        require_kind(Settings, LoadedSettings, type(None), settings=settings)
        require_kind(Observer, type(None), observer=observer)
        require_kind(Callable, type(None), listener=listener)
        if not is_there(Path(path), stat.S_ISDIR):
            raise UsageError(f"there is no folder {path}", hint="Name a folder that exists.")
        root = find_root(Path(path))
        loaded = None
        if isinstance(settings, Settings):
            chosen = settings
        else:
            loaded = settings or _load_settings(root)
            chosen = loaded.settings
        if listener is None:
            for make_listener in TURN_LISTENER.implementations(chosen):
                listener = make_listener()
        with closing(Store.open_with(root, chosen, create=make, clock=clock)) as store:
            feed = _EventFeed(observer or Observer())
            store.listen(feed.note)
            pipeline = cls(assemble_parts(store, chosen, loaded, feed, listener=listener))
            feed.pipeline = pipeline
            try:
                yield pipeline
            finally:
                if pipeline._stream is not None:
                    await pipeline._stream.stop()

    @property
    def store(self) -> Store:
        """The memories of all six layers, and operations on them."""
        return self.parts.store

    async def index(self) -> IndexReport:
        """Bring the index up to date with the files, and the vectors if an embedder is set."""
        report = self.parts.index(None)
        parts = self.parts
        for finish in AFTER_INDEX.implementations(parts.settings):
            async with parts.open_resources(f"e_{random_hex(8)}") as resources:
                failed = await finish(parts.settings, store=parts.store, resources=resources)
            if failed:
                parts.observer.note(failed)
        return report

    async def ask(
        self,
        turn: Turn | str,
        *,
        about: Mapping[str, object] | None = None,
        answer: bool = True,
        answer_anyway: bool = False,
        all_scores: Path | str | None = None,
        started: float | None = None,
    ) -> Answer:
        """Judge every memory against the turn, then call the answering model once, if there is one.

        turn: a string is its task.
        about: what else it is about, such as `{"customer": "Ann"}`; both models are shown it as
            data.
        answer: False: call no answering model.
        answer_anyway: call it even if no memory reached the threshold.
        all_scores: a file for one JSON line a candidate.
        started: `time.monotonic()` from which the deadline and the receipt's seconds count; None:
            from now.

        Unjudged candidates and a failed answering call are not errors: both are in the receipt
        (`exit_code` says how the command would end). Raises UsageError, StoreError.
        """
        options = TurnOptions(
            answer=answer, answer_anyway=answer_anyway, all_scores=_file(all_scores)
        )
        return await _run_turn(self.parts, as_turn(turn, about), options.asked_at(started))

    async def stream(
        self,
        turn: Turn | str,
        *,
        about: Mapping[str, object] | None = None,
        answer: bool = True,
        answer_anyway: bool = False,
    ) -> AsyncGenerator[TurnEvent, None]:
        """Ask as `ask` does, and yield what the turn reports while it runs (`TurnEvent`), its
        `Answer` last.

        Leaving the loop stops the turn and keeps what was paid for; so does a cancellation, and
        then the receipt still comes. Raises what `ask` raises, and UsageError while another turn is
        streamed.
        """
        # Few callers follow the events of a turn.
        from xscore.pipeline.stream import EventStream

        if self._stream is not None:
            raise UsageError(
                "another turn is being streamed",
                hint="Leave its loop, or open the folder again.",
            )
        asking = self.ask(turn, about=about, answer=answer, answer_anyway=answer_anyway)
        self._stream = EventStream(asking)
        try:
            async for event in self._stream.read():
                yield event
        finally:
            await self._stream.stop()
            self._stream = None

    async def resume(
        self,
        turn_id: str = "",
        *,
        answer: bool = True,
        all_scores: Path | str | None = None,
        started: float | None = None,
    ) -> Answer:
        """Finish an earlier turn, by default the latest: judge what it left unjudged, then answer.

        It continues with its own judge, and its judgments are carried over. Raises UsageError if
        there is no such turn, nothing is left to do, or another judge is named, and NoUsableModel
        if its judge is not available.
        """
        from xscore.pipeline.past_turns import turn_to_continue  # a new turn continues none

        require_kind(str, turn_id=turn_id)
        parts, turn = turn_to_continue(self.parts, turn_id, answer=answer)
        options = TurnOptions(answer=answer, command="continue", all_scores=_file(all_scores))
        return await _run_turn(parts, turn, options.asked_at(started))

    async def context(
        self,
        turn: Turn | str,
        *,
        about: Mapping[str, object] | None = None,
        form: str = "xml",
        max_tokens: int | None = None,
        all_scores: Path | str | None = None,
        started: float | None = None,
    ) -> Answer:
        """Do all but the answering call; `bundle` holds what was chosen.

        form: `xml`, `markdown`, `json`, `memory`, or empty for no bundle.
        max_tokens: most tokens of the bundle; None: the setting `bundle.max_tokens`. The others
        are those of `ask`, and so is what is raised.
        """
        require_kind(int, type(None), max_tokens=max_tokens)
        if form:
            from xscore.prompts.bundle_forms import FORMS  # an answer names no form

            if form not in FORMS:
                raise UsageError(
                    f"there is no form {form!r}", hint=f"One of: {', '.join(FORMS)}."
                )
        if max_tokens is not None and max_tokens < 1:
            raise UsageError(f"`max_tokens` is {max_tokens}", hint="Give a number from 1 up.")
        options = TurnOptions(
            answer=False,
            command="context",
            bundle=form,
            max_tokens=max_tokens,
            all_scores=_file(all_scores),
        )
        return await _run_turn(self.parts, as_turn(turn, about), options.asked_at(started))

    async def remember(
        self,
        text: str,
        *,
        metadata: Mapping[str, object] | None = None,
        when: datetime | float | None = None,
    ) -> str:
        """Store an entry and return its id (`m_…`). The same text, metadata and time again are the
        same entry.

        metadata: shown to judge and answerer below the text, a line each, as data.
        when: the time of the entry, which recency counts from and both models are shown; Unix
            seconds, or a time (without a zone: local); None: now, and not shown. Secrets are
            redacted.

        Raises UsageError for an empty or too long text.
        """
        from xscore.store.remembering import entry_statement, remember  # a turn states nothing

        return remember(self.parts.store, entry_statement(text, metadata or {}, when)).memory.id

    async def forget(self, memory_id: str) -> None:
        """Erase a remembered entry for good, with its judgments and all that quotes it.

        Raises NothingMatched if there is none, and UsageError for what a file says.
        """
        require_kind(str, memory_id=memory_id)
        from xscore.extensions.privacy.erasure import erase_memories  # an extension

        if erase_memories(self.parts.store, [memory_id], now=self.parts.clock()).missing:
            raise NothingMatched(
                f"no memory has the id {memory_id}", hint="`remember` returns ids."
            )

    async def estimate(self, turn: Turn | str) -> "Estimate":
        """Estimate a turn, by kind and folder; sends nothing."""
        from xscore.pipeline.turn_estimate import estimate_turn  # a cached turn costs nothing

        return estimate_turn(self.parts, as_turn(turn))

    async def explain(self, memory: str, *, turn_id: str = "") -> "Explanation":
        """Explain why a memory (id or `path::entity`) was or was not chosen in a turn, by default
        the latest."""
        from xscore.pipeline.explaining import explain_choice  # a turn explains no other

        require_kind(str, memory=memory, turn_id=turn_id)
        return explain_choice(self.parts, memory, turn_id=turn_id)

    async def status(self) -> "StoreStatus":
        """Count what the store holds."""
        from xscore.pipeline.store_status import read_store_status  # a turn counts no store

        return read_store_status(self.parts.store, self.parts.settings)

    async def doctor(self, *, probe: bool = False) -> "Diagnosis":
        """Look at store, settings and models; `probe` sends one pack of two memories to the
        judge."""
        from xscore.pipeline.doctor import diagnose  # a turn does not check the set-up

        return await diagnose(self.parts, probe=probe)


class _EventFeed(ForwardingObserver):
    """Passes events to the observer of a pipeline, and to the stream that is read at the moment."""

    pipeline: Pipeline | None = None

    def on(self, event: TurnEvent) -> None:
        super().on(event)
        if self.pipeline is not None and self.pipeline._stream is not None:
            self.pipeline._stream.take(event)


async def _run_turn(parts: PipelineParts, turn: Turn, options: TurnOptions) -> Answer:
    # Imported here for commands that run no turn: it is a fifth of what `xscore index` would load.
    from xscore.pipeline.turn import run_turn
    from xscore.records.notebook_maps import offer_map  # turns alone have maps

    answer = await run_turn(parts, turn, options)
    offer_map(answer.turn_id, partial(_map_of_turn, parts.root, parts.settings, answer.turn_id))
    return answer


def _map_of_turn(root: RepositoryRoot, settings: Settings, turn_id: str) -> str:
    from xscore.extensions.pages.notebook import framed_map  # an extension, for notebooks

    return framed_map(root, settings, turn_id)


def as_turn(turn: Turn | str, about: Mapping[str, object] | None = None) -> Turn:
    """Return the turn of a task given as text, and what it is about besides."""
    require_kind(Turn, str, task=turn)
    require_kind(Mapping, type(None), about=about)
    try:
        if isinstance(turn, str):
            turn = Turn(task=turn)
        else:
            # Checked field by field: a caller may have put anything into it.
            turn = msgspec.convert(msgspec.to_builtins(turn), Turn)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"the turn is wrong: {error}", hint="`xscore.Turn` says what each field holds."
        ) from error
    if not about:
        return turn
    added = [(str(name), str(value)) for name, value in about.items()]
    return replace(turn, about=(*turn.about, *added))


def _load_settings(root: RepositoryRoot) -> LoadedSettings:
    """Read the user's and the repository's settings, and the environment."""
    return load_settings(repo_root=root.path, user_file=user_config_file(), environ=os.environ)


def _file(path: Path | str | None) -> Path | None:
    require_kind(str, Path, type(None), all_scores=path)
    if path is None:
        return None
    return Path(path)
