"""Keep a hook from ever blocking a prompt: protect its output, and end it in time.

The agent's streams are set aside, so only the answer reaches standard output, whatever a library prints. A thread ends
the process when its time is up, even while the main thread waits for a disk, a lock or the agent. Trade-off: this ends
it like `kill -9`. The store survives that, but a model call that is still running is paid for and lost.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread

from xscore.platform.git import kill_git
from xscore.platform.text import escape_controls, one_line

GRACE_S = 0.7
"""Seconds from the deadline to the forced end: a turn that reaches its deadline still has to rank and render."""
RECORDING_S = 0.2
"""How long to wait for a failure to be stored, in seconds."""
_LINE_CHARS = 200


class AgentStreams:
    """The agent's standard output and error; once this is created, nothing else in the process can write to them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._answered = False
        self._out, self._err = os.dup(1), os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(nowhere, number)

    def answer(self, data: bytes) -> None:
        """Write the answer; ignore any later one."""
        with self._lock:
            if not self._answered:
                self._answered = True
                _write(self._out, data)

    def complain(self, message: str) -> None:
        """Write one short line for the user to standard error."""
        from xscore.store.redaction import redact  # only where something went wrong

        line = one_line(escape_controls(redact(message).text))[:_LINE_CHARS]
        _write(self._err, f"xscore: {line}\n".encode("utf-8", "replace"))


def _write(descriptor: int, data: bytes) -> None:
    with suppress(OSError):  # the agent has gone, or a disk is full
        while data:
            data = data[os.write(descriptor, data) :]


class Watchdog:
    """Ends the process with exit code 0 when its time is up."""

    def __init__(self, until: float, *, last_words: Callable[[], None], record: Callable[[], None]) -> None:
        """until: `time.monotonic` seconds. last_words: writes the answer. record: runs after it and stores why.

        Either may hang, on an agent that does not read or on a disk; it is then abandoned.
        """
        self.until = until
        """May change while the thread waits."""
        self._last_words, self._record = last_words, record
        self._over = Event()
        Thread(target=self._wait, daemon=True).start()

    def stop(self) -> None:
        """Stop watching; the process may go on."""
        self._over.set()

    def _wait(self) -> None:
        while (left := self.until - time.monotonic()) > 0:
            if self._over.wait(min(left, 0.5)):
                return
        ending = Thread(target=self._say_and_record, daemon=True)
        ending.start()
        ending.join(RECORDING_S)
        kill_git()
        os._exit(0)

    def _say_and_record(self) -> None:
        self._last_words()
        self._record()
