"""Extraction that is killed anywhere, or done by two processes at once."""

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.extensions.extraction.conftest import NOW, put_session
from tests.extensions.extraction.test_by_model import extracting, facts_of
from tests.servers import OpenAIServer
from xscore.extensions.extraction.session_end import extract_sessions
from xscore.platform.paths import find_root
from xscore.store.store import Store

SAID = (
    ("We decided to use Redis for the job queue.", "Done."),
    ("The gateway of korvexine becomes the only way in, that is settled for us.", "I see."),
)
BY_MODEL = (
    '{"facts": [{"kind": "decision", "text": "korvexine becomes the only way in.",'
    f' "quote": "{SAID[1][0]}"}}]}}'
)
MOST_STEPS = 60


def opened(folder: Path) -> Store:
    """Open the store of a folder."""
    return Store.open(find_root(folder), user_data_dir=folder.parent / "user")


def extract(folder: Path, server: OpenAIServer, *, dies_at: int = 0) -> None:
    """Extract; die at this statement that begins or ends a transaction, if it is reached."""
    steps = 0

    def step(statement: str) -> None:
        nonlocal steps
        if statement.startswith(("BEGIN", "COMMIT")):
            steps += 1
            if steps == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

    with opened(folder) as store:
        store.connection.set_trace_callback(step)
        asyncio.run(extract_sessions(store, extracting(server), now=NOW))


def in_a_process(work: Callable[[], None]) -> int:
    """Begin the work in a process of its own; return its id."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return process


def test_a_kill_at_any_transaction_loses_no_rule_and_pays_at_most_once(
    tmp_path: Path, server: OpenAIServer
) -> None:
    """What fixed forms state is kept once; a model is asked once at most, or not at all."""
    server.answer = BY_MODEL
    for dies_at in range(1, MOST_STEPS):
        folder = tmp_path / f"{dies_at}" / "project"
        folder.mkdir(parents=True)
        with opened(folder) as store:
            put_session(store, "s_1", SAID)
        before = server.counts.requests
        process = in_a_process(partial(extract, folder, server, dies_at=dies_at))
        _, status = os.waitpid(process, 0)
        extract(folder, server)
        with opened(folder) as store:
            words = facts_of(store)
            assert store.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert sum("Redis" in text for text in words) == 1
        assert sum("korvexine" in text for text in words) <= 1
        assert server.counts.requests - before <= 1
        if not os.WIFSIGNALED(status):
            assert dies_at > 6
            return
    raise AssertionError("it was killed at every step: raise MOST_STEPS")


def test_two_processes_at_once_keep_a_fact_once_and_ask_once(
    tmp_path: Path, server: OpenAIServer
) -> None:
    """Whoever marks the exchanges as read asks the model; the other does not."""
    server.answer = BY_MODEL
    folder = tmp_path / "project"
    folder.mkdir()
    with opened(folder) as store:
        put_session(store, "s_1", SAID)
    processes = [in_a_process(lambda: extract(folder, server)) for _ in range(2)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    assert codes == [0, 0]
    with opened(folder) as store:
        words = facts_of(store)
    assert sum("Redis" in text for text in words) == 1
    assert sum("korvexine" in text for text in words) == 1
    assert server.counts.requests == 1
