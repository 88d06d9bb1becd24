"""A disk that fills up at every write of a small run, and right after the answering call."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import store_file
from tests.pipeline.conftest import TASK, ask, settings_for
from tests.pipeline.test_decision_turns import settings_for as decision_settings
from tests.servers.decision_server import DecisionServer
from tests.servers.openai_server import OpenAIServer
from xscore.pipeline.build import Pipeline
from xscore.platform import database
from xscore.platform.errors import StoreError
from xscore.records.calls import Stage
from xscore.records.receipt import Answer

FRAME = 4_096 + 24
"""Size of a page in the journal."""
CONCURRENCY = 2


async def test_a_receipt_that_finds_no_room_costs_no_answer(
    shop: Path, server: OpenAIServer
) -> None:
    """A disk full after the answering call: the paid answer is shown, with a warning and exit code
    6."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        connection = pipeline.parts.store.connection

        def fill_up(prompt: str) -> str:
            connection.execute("PRAGMA max_page_count = 1")  # taken as the pages there are now
            return "The answer. " * 10_000

        server.answer = fill_up
        check_answered(await pipeline.ask(TASK, answer_anyway=True))


@pytest.mark.parametrize("is_capped", [True, False])
async def test_a_ledger_that_finds_no_room_costs_no_answer(
    shop: Path, server: OpenAIServer, is_capped: bool
) -> None:
    """The same if the row of the answering call finds no room, with or without a cap."""
    settings = settings_for(server)
    if not is_capped:
        settings = replace(settings, budget=replace(settings.budget, max_usd=None))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_up(prompt: str) -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
        return "The answer."

    server.answer = fill_up
    try:
        async with Pipeline.open(shop, settings) as pipeline:
            check_answered(await pipeline.ask(TASK, answer_anyway=True))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def check_answered(answer: Answer) -> None:
    """Assert that the answer and the turn's receipt are there."""
    assert answer.answer is not None and answer.answer.startswith("The answer.")
    assert answer.exit_code == 6
    assert any("this turn could not be saved" in warning for warning in answer.warnings)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Limit every file of this process to `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def check_full_at(root: Path, server: OpenAIServer, frames: int) -> str:
    """Run with room for N journal pages, then with enough; return where the first run ended."""
    settings = settings_for(server, pack_size=1, concurrency=CONCURRENCY)
    server.reset()
    with room_for(32 + frames * FRAME):
        try:
            await ask(root, settings)
        except StoreError as error:
            assert error.exit_code == 6 and error.hint
            ended = "judging" if server.counts.judgments else "before"
            if error.receipt is not None:
                assert error.receipt.spent(Stage.JUDGE).attempts > 0
                ended = "judging, as the error's receipt says"
        else:
            ended = "whole"
    sent = sum(server.counts.judgments.values())
    repeated = await ask(root, settings)
    assert repeated.exit_code == 0 and repeated.coverage.unjudged == 0
    paid = sum(server.counts.judgments.values())
    # What was in flight when the disk was full.
    assert paid - repeated.coverage.candidates <= CONCURRENCY
    assert repeated.coverage.cached >= sent - CONCURRENCY
    return ended


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.verify)])
@pytest.mark.timeout(300)
async def test_a_disk_that_is_full_at_the_nth_page(
    shop: Path, server: OpenAIServer, tmp_path: Path, step: int
) -> None:
    """At each n tried: a clear end, spending stops, commits stay, and the next run pays only
    for the rest."""
    ends: list[str] = []
    frames = 0
    while ends[-2:] != ["whole", "whole"]:
        root = tmp_path / f"copy-{frames}"
        shutil.copytree(shop, root)
        ends.append(await check_full_at(root, server, frames))
        shutil.rmtree(root)
        frames += step
    assert {"before", "judging, as the error's receipt says", "whole"} <= set(ends)


async def test_what_a_renamed_judge_judged_before_the_disk_was_full_is_in_the_receipt(
    shop: Path, tmp_path: Path
) -> None:
    """The host answers as a dated model: what it judged in the turn that failed counts as judged,
    but for the requests in flight."""
    receipts: list[Answer] = []
    with DecisionServer() as decisions:
        decisions.model = "jev-1.14.0-20260917"
        settings = decision_settings(
            decisions, probe=True, pack_size=1, concurrency=CONCURRENCY
        )
        is_whole = False
        frames = 80  # less has no room for the index
        while not is_whole:
            root = tmp_path / f"copy-{frames}"
            shutil.copytree(shop, root)
            frames += 1
            try:
                with room_for(32 + frames * FRAME):
                    await ask(root, settings)
                    is_whole = True
            except StoreError as error:
                receipts += [] if error.receipt is None else [error.receipt]
    sent = [receipt.spent(Stage.JUDGE).calls for receipt in receipts]
    judged = [receipt.coverage.judged for receipt in receipts]
    assert max(sent, default=0) > CONCURRENCY
    assert all(
        number >= calls - CONCURRENCY for number, calls in zip(judged, sent, strict=True)
    )


async def test_a_disk_with_too_little_room_sends_nothing(
    shop: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be kept is not paid for: no judging call leaves, and the error says why."""
    monkeypatch.setattr(database, "ROOM_BYTES", 10**18)  # more than any disk has
    server.reset()
    with pytest.raises(StoreError, match="nothing was sent") as refused:
        await ask(shop, settings_for(server))
    assert refused.value.exit_code == 6
    assert server.counts.requests == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", os.fspath(disk)], check=True
    )
    yield disk
    subprocess.run(["umount", os.fspath(disk)], check=True)


for_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may mount a small disk"
)


@for_root
@pytest.mark.parametrize("has_users_folder", [False, True])
async def test_a_full_disk_is_read_and_nothing_is_paid_for(
    shop: Path, server: OpenAIServer, small_disk: Path, *, has_users_folder: bool
) -> None:
    """What is stored can be listed, and words rank; only what a model would be paid for is not
    asked. With some room again, the store is as it was."""
    root = small_disk / "shop"
    shutil.copytree(shop, root)
    settings = settings_for(server, pack_size=1)
    if has_users_folder:  # its disk is the same one
        users = replace(settings.store, user_data_dir=small_disk / "users")
        settings = replace(settings, store=users)
    by_words = replace(settings, judge=replace(settings.judge, model="lexical"))
    async with Pipeline.open(root, by_words) as pipeline:
        kept = (await pipeline.context(TASK)).selected
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * shutil.disk_usage(small_disk).free)
    before = store_file(root).read_bytes()
    server.reset()
    async with Pipeline.open(root, by_words) as pipeline:
        answer = await pipeline.context(TASK)
        assert answer.selected == kept and answer.exit_code == 0
        assert (await pipeline.status()).memories
    with pytest.raises(StoreError, match="nothing was sent"):
        await ask(root, settings)
    assert server.counts.requests == 0
    assert store_file(root).read_bytes() == before
    filler.unlink()
    assert (await ask(root, settings)).exit_code == 0


@pytest.mark.verify
@for_root
@pytest.mark.parametrize("free_bytes", [0, 60_000, 200_000, 900_000, 2_000_000])
async def test_a_real_disk_that_is_full_loses_no_call(
    shop: Path, server: OpenAIServer, small_disk: Path, free_bytes: int
) -> None:
    """However much room is left: a call that was sent has its judgments in the store."""
    root = small_disk / "shop"
    shutil.copytree(shop, root)
    settings = settings_for(server, pack_size=1, concurrency=CONCURRENCY)
    async with Pipeline.open(root, settings) as pipeline:
        await pipeline.index()
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * (shutil.disk_usage(small_disk).free - free_bytes))
    server.reset()
    with suppress(StoreError):
        await ask(root, settings)
    sent = sum(server.counts.judgments.values())
    filler.unlink()
    repeated = await ask(root, settings)
    assert repeated.coverage.cached >= sent
    assert sent == (repeated.coverage.candidates if free_bytes == 2_000_000 else 0)
