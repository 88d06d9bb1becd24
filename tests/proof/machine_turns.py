"""Turns as the state machine takes them: at an offset of the clock, at a price, to their end, cancelled, or killed.

A turn that is to be killed runs in a process of its own, forked from a server that has the heavy modules loaded
already, so that a kill costs some tens of milliseconds.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tests.proof.machine_judge import TrueJudge
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import TurnResources
from xscore.pipeline.pool import narrow_to_scope
from xscore.pipeline.resources import open_resources
from xscore.records import Answer, JudgeIdentity, Kind, Scope, Turn, Usage
from xscore.settings import (
    BudgetSettings,
    JudgeSettings,
    OpenAISettings,
    PrimarySettings,
    SelectionSettings,
    Settings,
    StoreSettings,
    validate_group,
)

PRICE_USD = Decimal("0.01")
"""Of every call that has any usage."""
_LONGEST_S = 30.0

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.proof.machine_turns", "openai", "aiohttp", "numpy", "tree_sitter_python"])


class Ask(Struct, frozen=True):
    """What is asked, and how."""

    task: str
    pack_size: int | None = None
    pack_tokens: int | None = None
    concurrency: int = 4
    paths: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    top_k: int = 15
    cap: str = "1"
    deadline_s: float | None = None
    answers: bool = False

    @property
    def model(self) -> str:
        """A name for each judge identity."""
        return "plain-1" if self.pack_size == 1 else "packed-1"

    @property
    def turn(self) -> Turn:
        """The turn to take."""
        return Turn(task=self.task, scope=Scope(paths=self.paths, kinds=self.kinds))


class Place(Struct, frozen=True):
    """Where it happens."""

    folder: Path
    url: str

    @property
    def root(self) -> Path:
        """The repository."""
        return self.folder / "repo"

    @property
    def user_dir(self) -> Path:
        """Where the user's secret is."""
        return self.folder / "user"

    @property
    def store_dir(self) -> Path:
        """The folder of the store."""
        return self.root / ".xscore"

    @property
    def database(self) -> Path:
        """The file of the store."""
        return self.store_dir / "memory.db"

    def settings(self, ask: Ask, *, patience_s: float = 60.0) -> Settings:
        """Settings for one turn; a call of a loopback host may take five times `patience_s`."""
        judge = {
            "model": f"openai:{ask.model}",
            "probe": False,
            "pack_size": ask.pack_size,
            "pack_tokens": ask.pack_tokens,
            "concurrency": ask.concurrency,
            "timeout_s": patience_s,
            "attempts": 1,
        }
        return Settings(
            judge=validate_group(JudgeSettings, judge),
            primary=PrimarySettings(model="openai:strong-1", timeout_s=5 * patience_s),
            openai=OpenAISettings(base_url=self.url),
            budget=BudgetSettings(max_usd=Decimal(ask.cap), deadline_s=ask.deadline_s),
            selection=SelectionSettings(top_k=ask.top_k),
            store=StoreSettings(user_data_dir=self.user_dir),
        )


class Taken(Struct, frozen=True):
    """A turn that came to an end."""

    answer: Answer
    lines: tuple[dict[str, Any], ...]
    """Of `--all-scores`."""
    pool: frozenset[str]
    """Ids of all memories that the scope lets in; no exchanges: the turn may have moved one to its own thread."""
    texts: dict[str, str]
    """What a judge is shown of each of them."""
    judge: JudgeIdentity


@asynccontextmanager
async def opened(place: Place, settings: Settings, *, offset_s: float) -> AsyncIterator[Pipeline]:
    """Open the pipeline under a clock that is off, at a host whose every call has a price."""

    def clock() -> float:
        return time.time() + offset_s

    async with Pipeline.open(place.root, settings, clock=clock) as pipeline:
        parts = pipeline.parts

        @asynccontextmanager
        async def resources(turn_id: str) -> AsyncIterator[TurnResources]:
            priced = open_resources(
                parts.store, settings, answerer=parts.answerer, turn_id=turn_id, price_of=_price, clock=clock
            )
            async with priced as one:
                yield one

        yield Pipeline(replace(parts, open_resources=resources))


def _price(provider: str, model: str, host: str, usage: Usage) -> Decimal:
    return PRICE_USD if usage.input_tokens or usage.output_tokens else Decimal(0)


def take(
    place: Place,
    ask: Ask,
    *,
    offset_s: float,
    patience_s: float = 60.0,
    resumes: str | None = None,
    cancels: tuple[TrueJudge, int] | None = None,
) -> Taken:
    """Take a turn, or finish an earlier one (its id, or empty for the latest). Raises what the pipeline raises.

    cancels: Ctrl-C once the host has seen so many requests of this turn.
    """

    async def course() -> Taken:
        target = place.folder / "scores.jsonl"
        target.unlink(missing_ok=True)
        async with opened(place, place.settings(ask, patience_s=patience_s), offset_s=offset_s) as pipeline:
            if resumes is None:
                turn = pipeline.ask(ask.turn, answer=ask.answers, all_scores=target)
            else:
                turn = pipeline.resume(resumes, answer=ask.answers, all_scores=target)
            answer = await (turn if cancels is None else _cancelled(asyncio.ensure_future(turn), *cancels))
            return _taken(pipeline, answer, target)

    return asyncio.run(course())


async def _cancelled(work: "asyncio.Future[Answer]", judge: TrueJudge, requests: int) -> Answer:
    goal = judge.counts.requests + requests
    while judge.counts.requests < goal and not work.done():  # noqa: ASYNC110  the host counts in a thread of its own
        await asyncio.sleep(0.002)
    work.cancel()
    return await work


def _taken(pipeline: Pipeline, answer: Answer, target: Path) -> Taken:
    store = pipeline.parts.store
    (thread,) = store.connection.execute("SELECT thread FROM turn WHERE id = ?", (answer.turn_id,)).fetchone()
    pool = narrow_to_scope(store.pool(thread=thread), answer.scope)
    written = target.read_text("utf-8") if target.exists() else ""  # not of a turn that could not be kept
    lines = tuple(map(json.loads, written.splitlines()))
    ids = frozenset(candidate.id for candidate in pool if candidate.kind is not Kind.EXCHANGE)
    return Taken(answer, lines, ids, store.texts(pool), pipeline.parts.judge.identity)


def kill(place: Place, ask: Ask, judge: TrueJudge, *, offset_s: float, after: int, wait_s: float) -> bool:
    """Start a turn in a process of its own and SIGKILL it; say whether it was still at work.

    after: so many requests the host sees before. wait_s: and so long it lives on.
    """
    goal = judge.counts.requests + after
    process = _forks.Process(target=_run, args=(place, ask, offset_s))
    process.start()
    give_up = time.monotonic() + _LONGEST_S
    while judge.counts.requests < goal and process.is_alive():
        assert time.monotonic() < give_up, "the turn to be killed hangs"
        time.sleep(0.002)
    process.join(wait_s)
    was_at_work = process.is_alive()
    if was_at_work:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return was_at_work


def _run(place: Place, ask: Ask, offset_s: float) -> None:
    take(place, ask, offset_s=offset_s)
