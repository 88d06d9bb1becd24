"""How the process of a command begins and ends, and how what it raises is reported. It loads no
click.

`STARTED_AT` (where `--deadline` starts) is backdated by the CPU time used so far. Trade-off: time
waiting for the disk is not counted. The start of the process would be no better: it survives
`exec`, so it may be that of a shell script.
"""

import atexit
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from xscore.platform.errors import ExitCode

STARTED_AT = time.monotonic() - time.process_time()
"""When the process started, on the clock of `time.monotonic`."""
COLLECT_AFTER = 200_000
"""Objects made before the garbage collector looks: a turn holds tens of thousands of records and
then ends (a fifth of its CPU went into walking them over and over)."""


def run_process(
    work: Callable[[], int], *, ends_at_sigterm: bool = False, is_hook: bool = False
) -> NoReturn:
    """Do the work of a command and end the process with the exit code that it returns.

    ends_at_sigterm: the system ends it at SIGTERM, which is otherwise like Ctrl-C.
    is_hook: the code is 0, whatever happens.
    """
    gc.set_threshold(COLLECT_AFTER)
    # `__main__` loads the modules without it. A hook ends within seconds, and frees all at once.
    if not is_hook:
        gc.enable()
    signal.signal(
        signal.SIGTERM, signal.SIG_DFL if ends_at_sigterm else signal.default_int_handler
    )
    code: int = ExitCode.INTERNAL
    atexit.register(lambda: _leave_at_once(code))  # registered first, so it runs last
    code = work()
    if is_hook:
        # An agent would take another as a veto, even for an option that an older version does not
        # know.
        code = 0
    if any(thread.daemon for thread in threading.enumerate()):
        _leave_at_once(code)
    sys.exit(code)


def run_and_report(work: Callable[[], object], arguments: Sequence[str]) -> int:
    """Run the command, print its error if it raises one, and return the exit code."""
    _prepare_streams()
    try:
        code = work()
        sys.stdout.flush()
    except BrokenPipeError:
        from xscore.cli.terminal import discard_stream  # few runs fail

        discard_stream(sys.stdout)
        return 0
    except (Exception, KeyboardInterrupt) as error:  # the edge of the program
        from xscore.cli.failures import report_failure  # few runs fail

        return report_failure(error, arguments)
    if isinstance(code, int):
        return code
    return 0


def _prepare_streams() -> None:
    """Escape what an output cannot encode, and open /dev/null for each stream the process started
    without (`>&-`).

    Without it, Python has None there, and the next file to be opened takes the number of the
    stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  for as long as we run
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _leave_at_once(code: int) -> NoReturn:
    """Exit without freeing each object, which takes a seventh of a cached turn.

    A thread that still imports the HTTP client past the deadline is not waited for. Python would
    kill it wherever it is, which makes compiled modules abort.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)
