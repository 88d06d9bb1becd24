"""What keeps a hook from ever stopping a prompt: its streams are its own, and its time ends.

The agent's streams are set aside, so nothing but the answer reaches standard output, whatever a library prints. A
thread ends the process when its time is up, also where the main thread waits for a disk, a lock or the agent.
Trade-off: that end is as hard as `kill -9`, which the store survives; what was being paid for then is lost.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread

from xscore.platform.text import escape_controls, one_line

GRACE_S = 0.7
"""From the deadline to the hard end: a turn that met its deadline needs some of it to rank and render."""
RECORDING_S = 0.2
_LINE_CHARS = 200


class AgentStreams:
    """Standard output and error as the agent reads them; from now on, nobody else writes there."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._answered = False
        self._out, self._err = os.dup(1), os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(nowhere, number)

    def answer(self, data: bytes) -> None:
        """Write the answer; the first one counts."""
        with self._lock:
            if not self._answered:
                self._answered = True
                _write(self._out, data)

    def complain(self, message: str) -> None:
        """Write one short line for a person."""
        line = one_line(escape_controls(message))[:_LINE_CHARS]
        _write(self._err, f"xscore: {line}\n".encode("utf-8", "replace"))


def _write(descriptor: int, data: bytes) -> None:
    with suppress(OSError):  # the agent has gone, or a disk is full
        while data:
            data = data[os.write(descriptor, data) :]


class Watchdog:
    """Ends the process with 0 when its time is up."""

    def __init__(self, until: float, *, last_words: Callable[[], None], record: Callable[[], None]) -> None:
        """until: `time.monotonic`. last_words: writes the answer, then comes record.

        Either may hang, on an agent that does not read or on a disk, and is then not waited for.
        """
        self.until = until
        """May be moved while it waits."""
        self._last_words, self._record = last_words, record
        self._over = Event()
        Thread(target=self._wait, daemon=True).start()

    def stop(self) -> None:
        """Wait no longer."""
        self._over.set()

    def _wait(self) -> None:
        while (left := self.until - time.monotonic()) > 0:
            if self._over.wait(min(left, 0.5)):
                return
        ending = Thread(target=self._say_and_record, daemon=True)
        ending.start()
        ending.join(RECORDING_S)
        os._exit(0)

    def _say_and_record(self) -> None:
        self._last_words()
        self._record()
