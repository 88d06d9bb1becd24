"""`xscore.open`: a folder without an event loop, in any thread, inside a running loop, and on
Ctrl-C."""

import asyncio
import inspect
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import xscore
from tests.conftest import store_dir
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from tests.waiting import wait_until
from xscore.platform import portal as portal_module
from xscore.platform.errors import UsageError
from xscore.platform.portal import Portal
from xscore.records.events import Observer, Progress, TurnEvent

TASK = "Where is the discount taken?"


def test_a_script_asks_without_an_event_loop(shop: Path, server: OpenAIServer) -> None:
    """One object asks, gives context, explains and estimates, as `Pipeline` does."""
    server.score = table({"shop/prices.py::discount": 90})
    with xscore.open(shop, settings_for(server)) as x:
        answer = x.ask(TASK)
        repeated = x.context(TASK, form="json")
        assert x.explain(repeated.selected[0].id).outcome == "selected"
        assert x.estimate(TASK).judge.to_judge == 0
        assert x.status().turns == 2
    assert answer.answer == server.answer
    assert repeated.coverage.cached == answer.coverage.candidates
    with pytest.raises(UsageError, match="closed"):
        x.status()


async def test_it_works_where_a_loop_runs(shop: Path) -> None:
    """In a notebook the kernel's loop is busy with the cell; the work has its own loop."""
    with xscore.open(shop, judge="lexical") as x:
        assert asyncio.get_running_loop().is_running()
        assert x.context(TASK).coverage.judged > 0


def test_options_are_settings_of_their_own(shop: Path) -> None:
    """An unknown option, a bad value, and options in addition to settings are refused before
    anything is opened."""
    with pytest.raises(UsageError, match=r"^max_usd= .*1,000,000"):
        xscore.open(shop, max_usd="-1")
    with pytest.raises(UsageError, match="no option `jugde`"):
        xscore.open(shop, jugde="lexical")  # type: ignore[call-arg]  # a misspelt option, on purpose
    with pytest.raises(UsageError, match="both"):
        xscore.open(shop, xscore.Settings(), judge="lexical")
    with pytest.raises(UsageError, match="no folder"):
        xscore.open(shop / "shpo")
    assert not (store_dir(shop)).exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.context(TASK, form="pdf"), "no form 'pdf'"),
        (lambda x: x.context(TASK, max_tokens=math.nan), "`max_tokens` is a `float`"),
        (lambda x: x.context(TASK, max_tokens=0), "`max_tokens` is 0"),
        (lambda x: x.ask(TASK, all_scores=5), "`all_scores` is a `int`"),
        (lambda x: x.ask(xscore.Turn(task=None)), r"`\$\.task`"),  # type: ignore[arg-type]  # a wrong type, on purpose
        (lambda x: x.forget([]), "`memory_id` is a `list`"),
        (lambda x: x.resume(5), "`turn_id` is a `int`"),
        (lambda x: x.explain(5), "`memory` is a `int`"),
        (lambda x: xscore.open(None), "`path` is a `NoneType`"),  # type: ignore[arg-type]  # a wrong type, on purpose
        (lambda x: xscore.open(".", {}), "`settings` is a `dict`"),  # type: ignore[arg-type]  # a wrong type, on purpose
        (lambda x: xscore.open(".", observer=5), "`observer` is a `int`"),  # type: ignore[arg-type]  # a wrong type, on purpose
        (lambda x: xscore.open(".", deadline=-1), "deadline="),
        (
            lambda x: asyncio.run(
                xscore.Pipeline.open(".", listener=5).__aenter__()  # type: ignore[arg-type]  # a wrong type, on purpose
            ),
            "`listener` is a `int`",
        ),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(
    shop: Path, call: Callable[[Any], object], message: str
) -> None:
    """It is a usage error, and the next call works."""
    with xscore.open(shop, judge="lexical") as x:
        with pytest.raises(UsageError, match=message):
            call(x)
        assert x.context(TASK).coverage.judged > 0


def test_a_folder_has_the_methods_of_a_pipeline(shop: Path) -> None:
    """Signature and docstring are the same, so help and completion are complete."""
    for name in ("ask", "context", "remember", "explain"):
        of_folder, of_pipeline = (
            getattr(xscore.OpenFolder, name),
            getattr(xscore.Pipeline, name),
        )
        assert inspect.signature(of_folder) == inspect.signature(of_pipeline)
        assert of_folder.__doc__ == of_pipeline.__doc__


def test_threads_wait_for_each_other(shop: Path, server: OpenAIServer) -> None:
    """Several threads share one object; every task is answered."""
    with xscore.open(shop, settings_for(server)) as x, ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(x.context, [f"{TASK} {number}" for number in range(4)]))
    assert all(not answer.partial for answer in answers)
    assert len({answer.turn_id for answer in answers}) == 4


class _InterruptsOnce(Observer):
    """Presses Ctrl-C when the first judgments are in."""

    pressed = False

    def on(self, event: TurnEvent) -> None:
        """Press it."""
        if isinstance(event, Progress) and event.judged and not self.pressed:
            self.pressed = True
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_in_a_receipt(shop: Path, server: OpenAIServer) -> None:
    """What was judged so far is kept and in the receipt; the next call pays only for the rest."""
    with xscore.open(
        shop, settings_for(server, pack_size=1, concurrency=1), observer=_InterruptsOnce()
    ) as x:
        with pytest.raises(xscore.Interrupted) as stopped:
            x.ask(TASK)
        receipt = stopped.value.receipt
        assert receipt.exit_code == 130
        assert 0 < receipt.coverage.judged < receipt.coverage.candidates
        rest = x.resume()
    assert rest.coverage.judged == receipt.coverage.unjudged
    assert not rest.partial


def test_a_folder_closes_while_its_stream_is_half_read(shop: Path) -> None:
    """Leaving the `with` closes the stream; reading on raises an error."""
    with xscore.open(shop, judge="lexical") as x:
        events = x.stream(TASK)
        next(events)
    with pytest.raises(UsageError, match="closed"):
        list(events)


def test_a_program_ends_while_its_stream_is_half_read(shop: Path) -> None:
    """The interpreter does not wait for a thread that waits for the next event to be requested."""
    code = (
        "import sys, xscore; events = xscore.open(sys.argv[1], judge='lexical').stream('x');"
        " next(events); print('end')"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(xscore.__file__).parents[1])}
    ended = subprocess.run(
        [sys.executable, "-c", code, str(shop)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (ended.stdout, ended.stderr) == ("end\n", "")


@pytest.mark.parametrize(
    "code",
    [
        "x = xscore.open(sys.argv[1], judge='lexical'); x.context('x')",
        "xscore.open(sys.argv[1], judge='lexical').context('x'); import gc; gc.collect()",
        "x = xscore.open(sys.argv[1], judge='lexical'); x.me = x; x = None",
    ],
    ids=["at the end", "at once", "in a cycle"],
)
def test_a_program_need_not_close_a_folder(shop: Path, code: str) -> None:
    """Python prints no warning of its own about what was left open, of any version."""
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys, xscore; {code}; print('end')", str(shop)],
        env=os.environ | {"PYTHONPATH": str(Path(xscore.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (ended.stdout, ended.stderr) == ("end\n", "")


async def _after(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


def test_a_portal_refuses_what_would_wait_for_ever() -> None:
    """A call from its own thread, and one after a fork, raise an error with a remedy."""
    portal = Portal()

    async def inside() -> None:
        portal.call(_after, 60)

    with pytest.raises(UsageError, match="this thread"):
        portal.call(inside)
    messages = multiprocessing.get_context("fork").SimpleQueue()

    def in_child() -> None:
        try:
            portal.call(_after, 60)
        except UsageError as error:
            messages.put(error.message)
        finally:
            portal.close()

    child = multiprocessing.get_context("fork").Process(target=in_child)
    child.start()
    assert "fork" in messages.get()
    child.join(10)
    portal.close()


def _main_thread_is_in(code: CodeType) -> bool:
    """Whether the main thread is running this function."""
    frame: FrameType | None = sys._current_frames()[threading.main_thread().ident or 0]
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def test_a_portal_stops_work_that_has_not_begun() -> None:
    """Ctrl-C in a call that waits for another thread's ends only the waiting one."""
    portal, has_begun, may_end = Portal(), threading.Event(), threading.Event()

    async def first_work() -> str:
        has_begun.set()
        await asyncio.to_thread(may_end.wait, 60)
        return "done"

    def interrupt() -> None:
        wait_until(lambda: _main_thread_is_in(portal_module._wait.__code__))
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(lambda: _main_thread_is_in(portal_module._result_of_cancelled.__code__))
        may_end.set()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: portal.call(first_work))
        assert has_begun.wait(60)
        pool.submit(interrupt)
        with pytest.raises(xscore.Interrupted, match="before anything"):
            portal.call(_after, 60)
        assert first.result() == "done"
    portal.close()


def test_a_stream_that_is_left_ends_in_its_own_time() -> None:
    """It does even where its next event comes just then: what it does last is not cut short,
    and it is no longer running afterwards."""
    is_leaving, has_ended = threading.Event(), threading.Event()

    async def events() -> AsyncGenerator[int, None]:
        try:
            yield 1
            # Its loop does nothing else until the other thread has asked to leave.
            assert is_leaving.wait(60)
            threading.Event().wait(0.3)
            yield 2
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(0.1)
            has_ended.set()

    stream = events()
    with closing(Portal()) as portal:
        for _ in portal.iterate(stream):
            is_leaving.set()
            break
    assert has_ended.is_set()
    with closing(Portal()) as portal:
        assert list(portal.iterate(stream)) == []


def test_an_answer_shows_itself(shop: Path, server: OpenAIServer) -> None:
    """A print and a notebook show answer, choice and receipt; foreign text is escaped; Ctrl-C shows
    them too."""
    server.score = table({"shop/prices.py::discount": 90})
    server.answer = "Take it <script>once</script>."
    with xscore.open(shop, settings_for(server)) as x:
        answer = x.ask(TASK)
    receipt = "1 of 12 memories kept (12 judged) by openai:judge-2, $0"
    assert "<script>" in str(answer)
    assert "0.90  shop/prices.py::discount" in str(answer)
    assert receipt in str(answer)
    page = answer._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;once" in page and receipt in page
    assert receipt in "\n".join(xscore.Interrupted(answer)._render_traceback_())


@pytest.mark.parametrize("path", ["", "a\0b", "a\ud800"])
def test_a_path_that_cannot_be_is_a_usage_error(server: OpenAIServer, path: str) -> None:
    """An empty path, a NUL and a lone surrogate are refused by name, with settings and without."""
    with pytest.raises(UsageError, match="`path`"):
        xscore.open(path)
    with pytest.raises(UsageError, match="`path`"):
        xscore.open(path, settings_for(server))
