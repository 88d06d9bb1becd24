"""Lists interrupted by a deadline, signal, fork or failing host: rows add up, nothing is paid
twice."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import count, islice
from pathlib import Path

import polars
import pytest

import xscore
import xscore.frames
from tests.extensions.lists.conftest import QUESTION
from tests.servers.decision_server import DecisionServer
from tests.servers.scoring import table
from tests.waiting import PATIENCE_S, Attempt, count_rows, slower_attempts, wait_until
from xscore.extensions.lists import judging
from xscore.platform.errors import SourceFailed, StoreUntrusted, UsageError
from xscore.providers.scripted import ShownMemory

MANY = 6_000
CHECKOUT = Path(__file__).parents[3]


def tickets(number: int) -> list[str]:
    """Return `number` different texts."""
    return [f"ticket {at} is lost" for at in range(number)]


def question_of(attempt: Attempt) -> str:
    """Return a question of its own, so that nothing which an earlier attempt judged is cached."""
    return f"{QUESTION} ({attempt.number})"


@pytest.fixture
def asked_texts(host: DecisionServer) -> Counter[str]:
    """Return how often the host was asked about each text."""
    texts: Counter[str] = Counter()

    def score(memory: ShownMemory, turn: str) -> int:
        texts[memory.text] += 1
        return 90

    host.score = score
    return texts


def run_python(code: str) -> subprocess.Popen[str]:
    """Start a Python program with this environment."""
    preamble = (
        f"QUESTION = {QUESTION!r}\ntickets = lambda number: [f'ticket {{at}} is lost' for at in"
        " range(number)]\n"
    )
    program = f"import os, sys\nimport xscore\n{preamble}{code}"
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    return subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    )


def slow_after_the_first(host: DecisionServer, latency_s: float = 2.0) -> None:
    """Answer one request at once and the others later."""

    def score(memory: ShownMemory, turn: str) -> int:
        host.latency_s = latency_s
        return 90

    host.score = score


def stored(home: Path) -> int:
    """Count the judgments in the user's cache."""
    return count_rows(home / ".cache" / "xscore" / "lists" / "memory.db", "judgment")


def test_sigkill_in_the_middle_and_again(host: DecisionServer, own_home: Path) -> None:
    """What was committed before the kill is cached; only the rest is asked."""
    slow_after_the_first(host, 3_600.0)
    process = run_python(f"xscore.judge(QUESTION, tickets({MANY}))")
    wait_until(lambda: stored(own_home) > 0)
    process.kill()
    process.communicate()
    kept, host.latency_s, host.score = stored(own_home), 0.0, table({}, default=4)
    judged = xscore.judge(QUESTION, tickets(MANY))
    assert 0 < kept < MANY
    assert judged.receipt.coverage.cached == kept
    assert judged.receipt.coverage.judged == MANY - kept


@pytest.mark.verify
def test_ctrl_c_returns_what_was_judged(host: DecisionServer, own_home: Path) -> None:
    """`Interrupted` holds the table, even after polars, whose SIGINT handler restarts waits: every
    item has a row."""
    slow_after_the_first(host)
    code = f"import polars\npolars.DataFrame()\ntry:\n    xscore.judge(QUESTION, tickets({MANY}))\n"
    code += "except xscore.Interrupted as stopped:\n    of = stopped.receipt.receipt\n"
    code += (
        "    print(of.ended, len(stopped.receipt), of.coverage.judged, of.unjudged_by_cause)\n"
    )
    process = run_python(code)
    wait_until(lambda: stored(own_home) > 0)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    ended, rows, judged, causes = out.split(maxsplit=3)
    assert (ended, rows) == ("interrupted", str(MANY)), out
    assert causes.strip() == str({"interrupted": MANY - int(judged)}) and int(judged) == stored(
        own_home
    )


@pytest.mark.verify
def test_after_a_fork_both_processes_judge(
    host: DecisionServer, asked_texts: Counter[str]
) -> None:
    """The child opens its own thread and store, and finds what its parent paid for."""
    code = "xscore.judge(QUESTION, tickets(3))\nchild = os.fork()\n"
    code += "found = xscore.judge(QUESTION, tickets(4 if child else 3))\n"
    code += "ok = found.receipt.coverage.cached == 3\n"
    code += (
        "os._exit(0 if ok else 1) if not child else "
        "sys.exit(os.waitpid(child, 0)[1] or not ok)\n"
    )
    process = run_python(code)
    process.communicate(timeout=60)
    assert process.returncode == 0 and asked_texts == Counter(tickets(4))


async def test_judge_works_where_a_loop_runs(host: DecisionServer) -> None:
    """A notebook's running loop is no obstacle."""
    assert xscore.judge(QUESTION, tickets(3)).receipt.coverage.judged == 3


def test_a_store_of_another_user_is_refused(host: DecisionServer, tmp_path: Path) -> None:
    """A store made elsewhere may hold planted scores: it is refused, and nothing is sent."""
    xscore.judge(QUESTION, tickets(3), store=tmp_path / "mine")
    shutil.copytree(tmp_path / "mine", tmp_path / "copied")
    with pytest.raises(StoreUntrusted):
        xscore.judge(QUESTION, tickets(9), store=tmp_path / "copied")
    assert host.questions == 3


def test_a_deadline_ends_a_list_and_a_source_without_end(host: DecisionServer) -> None:
    """A list keeps a row for each item; an iterator is read no further, and judgments stay."""
    host.latency_s = 30
    judged = xscore.judge(QUESTION, tickets(4_100), deadline=0.6)
    assert judged.receipt.unjudged_by_cause == {"deadline": 4_100}
    assert judged.receipt.ended == "deadline"
    assert judged.receipt.seconds < 20
    for attempt in slower_attempts():
        with attempt:
            texts = (f"ticket {at}" for at in count())
            endless = xscore.judge(
                question_of(attempt), texts, deadline=0.6 * attempt.slowness
            ).receipt
            assert endless.ended == "deadline" and endless.seconds < 20
            assert endless.unjudged_by_cause.keys() <= {"deadline"}
            assert endless.coverage.unjudged == endless.coverage.candidates
            attempt.needs(endless.coverage.candidates, "no item was read")


@pytest.mark.parametrize(("number", "deadline_s"), [(1, 1.5), (2_000, 4.0)])
async def test_a_deadline_does_not_wait_for_a_silent_source(
    host: DecisionServer, number: int, deadline_s: float
) -> None:
    """Items before the silence are judged, and the source is closed."""

    async def silent(closed: list[int]) -> AsyncIterator[str]:
        for ticket in tickets(number):
            yield ticket
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(number)

    for attempt in slower_attempts():
        with attempt:
            closed: list[int] = []
            limit_s = deadline_s * attempt.slowness
            judged = await xscore.judge_async(
                question_of(attempt), silent(closed), deadline=limit_s
            )
            receipt = judged.receipt
            assert receipt.seconds < limit_s + 20
            attempt.needs(
                receipt.coverage.candidates == number and receipt.coverage.unjudged == 0,
                f"{receipt.coverage.judged} items were judged",
            )
            assert receipt.coverage.judged == number and closed == [number]


async def test_a_source_may_wait_for_the_row_of_its_last_item(host: DecisionServer) -> None:
    """An item is judged without waiting for the next one."""
    queue = asyncio.Queue[str | None]()

    async def source() -> AsyncIterator[str]:
        while (ticket := await queue.get()) is not None:
            yield ticket

    queue.put_nowait("ticket 0 is lost")
    following, scores = ["ticket 1 is lost", "ticket 2 is lost", None], []
    async with asyncio.timeout(20):
        async for row in xscore.judge_stream(QUESTION, source()):
            scores.append(row.score)
            queue.put_nowait(following.pop(0))
    assert scores == [0.9] * 3


async def test_a_cancelled_task_ends_with_the_table_in_its_error(
    host: DecisionServer, own_home: Path
) -> None:
    """Paid judgments are kept, and the cancelling task sees the cancellation."""

    async def silent() -> AsyncIterator[str]:
        yield "ticket 0 is lost"
        while not stored(own_home):  # noqa: ASYNC110  a thread writes the row; there is no event
            await asyncio.sleep(0.01)
        limit.reschedule(asyncio.get_running_loop().time() + 0.5)
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError) as late:
        async with asyncio.timeout(None) as limit:
            await xscore.judge_async(QUESTION, silent())
    cancelled = late.value.__cause__
    assert isinstance(cancelled, asyncio.CancelledError)
    assert cancelled.args[0].receipt.ended == "interrupted"
    assert cancelled.args[0].receipt.coverage.judged == stored(own_home) == 1
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            async for _ in xscore.judge_stream(QUESTION, silent()):
                pass


def test_a_deadline_does_not_wait_for_an_iterator_that_blocks(host: DecisionServer) -> None:
    """It is read in a separate thread; earlier items are judged, and later errors of it are
    ignored."""
    go_on, has_gone_on = threading.Event(), threading.Event()

    def blocks() -> Iterator[str]:
        yield from tickets(3)
        go_on.wait()
        has_gone_on.set()

    try:
        for attempt in slower_attempts():
            with attempt:
                judged = xscore.judge(
                    question_of(attempt), blocks(), deadline=1.5 * attempt.slowness
                )
                assert not has_gone_on.is_set()
                coverage = judged.receipt.coverage
                attempt.needs(coverage.judged == 3, f"{coverage.judged} items were judged")
    finally:
        go_on.set()
    assert has_gone_on.wait(PATIENCE_S), "nobody reads the iterator"


async def test_a_sized_source_that_blocks_does_not_hold_up_the_loop(
    host: DecisionServer,
) -> None:
    """A query set knows its length, and queries its database when iterated."""
    loop, turned = asyncio.get_running_loop(), threading.Event()

    class Queries:
        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Iterator[str]:
            loop.call_soon_threadsafe(turned.set)
            yield "lost" if turned.wait(10) else ""

    assert (await xscore.judge_async(QUESTION, Queries())).receipt.coverage.judged == 1


def test_ctrl_c_does_not_wait_for_an_iterator_that_blocks(host: DecisionServer) -> None:
    """The first exception ends the call, with a table of what was read."""
    go_on, has_gone_on = threading.Event(), threading.Event()

    def blocks() -> Iterator[str]:
        yield from tickets(3)
        wait_until(lambda: host.questions == 3)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        go_on.wait()
        has_gone_on.set()

    try:
        with pytest.raises(xscore.Interrupted) as stopped:
            xscore.judge(QUESTION, blocks())
        assert not has_gone_on.is_set() and len(stopped.value.receipt) == 3
    finally:
        go_on.set()


class UnreadableError(Exception):
    """An error whose message cannot be read."""

    def __str__(self) -> str:
        raise SystemExit(4)


@pytest.mark.parametrize(
    "raised",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        GeneratorExit(),
        BaseExceptionGroup("several", [KeyboardInterrupt()]),
        UnreadableError(),
        UsageError("of another call"),
        SourceFailed("of another list"),
    ],
)
async def test_an_iterator_may_raise_whatever_it_likes(
    host: DecisionServer, raised: BaseException
) -> None:
    """The error carries what was judged, also from an async iterator; the program continues."""

    async def awaited() -> AsyncIterator[str]:
        for ticket in plain(False):
            yield ticket
        raise raised

    def plain(fails: bool = True) -> Iterator[str]:
        yield from tickets(3)
        if fails:
            raise raised

    for source in (plain(), awaited()):
        with pytest.raises(SourceFailed, match=type(raised).__name__) as failed:
            await xscore.judge_async(QUESTION, source)
        assert failed.value.__cause__ is raised and len(failed.value.judged) == 3


async def test_the_words_of_a_failed_iterator_are_redacted(host: DecisionServer) -> None:
    """A driver's message often holds its password, so it is redacted."""
    secret = "s3cr3tPw9xQ"

    def broken() -> Iterator[str]:
        yield "lost"
        raise ConnectionError(f"cannot reach postgresql://app:{secret}@db.example.com/tickets")

    with pytest.raises(SourceFailed, match="ConnectionError: cannot reach") as failed:
        await xscore.judge_async(QUESTION, broken())
    assert secret not in str(failed.value)


def test_an_iterator_without_end_ends_where_no_model_judges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Word weights need all items in memory; the first ones are judged, and the error says so."""
    monkeypatch.setattr(judging, "MOST_WITHOUT_MODEL", 50)
    with pytest.raises(UsageError, match="the first 50 items") as failed:
        xscore.judge("lost payments", (f"payment {at}" for at in count()), judge="lexical")
    assert failed.value.receipt.coverage.judged == len(failed.value.judged) == 50
    assert len(xscore.judge("lost payments", tickets(60), judge="lexical")) == 60


def test_a_host_that_fails_half_way_leaves_the_rest_unjudged(host: DecisionServer) -> None:
    """An empty account ends the list; cached items after the failure are still returned."""
    xscore.judge(QUESTION, tickets(MANY)[-5:])
    host.status = lambda _: (402, "Payment required.") if host.requests > 3 else None
    judged = xscore.judge(QUESTION, tickets(MANY))
    of = judged.receipt
    assert of.ended == "provider" and of.unjudged_by_cause == {"provider": of.coverage.unjudged}
    assert of.coverage.judged > 0 and [row.outcome for row in judged][-5:] == ["cached"] * 5


def test_a_stream_reads_no_further_than_its_rows_are_taken(
    host: DecisionServer, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory does not grow with the list; leaving the loop keeps all paid judgments, calls in
    flight included."""
    monkeypatch.setattr(judging, "RUN_ITEMS", 10)
    host.latency_s, read = 0.3, 0

    def endless() -> Iterator[str]:
        nonlocal read
        for read in count(1):
            yield f"ticket {read}"

    stream = xscore.judge_stream(QUESTION, endless())
    rows = list(islice(stream, 25))
    assert len({row.id for row in rows}) == 25 and read <= 10 * (judging.MOST_RUNS + 5)
    assert host.questions == stored(own_home) >= stream.receipt.coverage.judged >= 25
    with pytest.raises(StopIteration):
        next(iter(stream))


def test_a_program_ends_while_its_stream_is_half_read(host: DecisionServer) -> None:
    """The interpreter does not wait for a thread that is blocked until more rows are read."""
    code = (
        "from itertools import count\n"
        "rows = iter(xscore.judge_stream(QUESTION, (f'ticket {at}' for at in count())))\n"
    )
    process = run_python(code + "print(next(rows).outcome)\n")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "judged\n")


async def test_a_cancelled_stream_that_is_then_left_keeps_what_was_paid_for(
    host: DecisionServer, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream is closed once: leaving it does not cancel calls in flight."""
    monkeypatch.setattr(judging, "RUN_ITEMS", 1)
    slow_after_the_first(host)
    rows = aiter(xscore.judge_stream(QUESTION, (f"ticket {number}" for number in count())))
    assert (await anext(rows)).outcome == "judged"
    following = asyncio.ensure_future(anext(rows))
    await asyncio.sleep(0.01)
    following.cancel()
    await following
    await rows.aclose()  # type: ignore[attr-defined]  # it is an async generator
    assert host.requests == stored(own_home)


def test_frames_have_a_method(host: DecisionServer) -> None:
    """`import xscore.frames` registers it; a table shows text as text."""
    frame = polars.DataFrame({"id": ["<script>"], "text": ["lost"]})
    assert frame.xscore.judge(QUESTION)["score"].to_list() == [0.9]  # type: ignore[attr-defined]  # registered at run time
    pandas = pytest.importorskip(
        "pandas", reason="the library is not installed; xscore does not need it"
    )
    assert pandas.DataFrame({"text": ["lost"]}).xscore.judge(QUESTION)["outcome"].tolist() == [
        "cached"
    ]
    html = xscore.judge(QUESTION, [{"id": "<script>", "text": "lost"}])._repr_html_()
    assert "<script>" not in html and "1 cached" in html
