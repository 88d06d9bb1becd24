"""The command `xscore`, also as `python -m xscore`."""

import gc
import os

INTERRUPTED = 130
"""Exit code after Ctrl-C; `errors.ExitCode` is not loaded yet."""


def run() -> None:
    """Run the command line. Garbage collection starts after its modules are loaded: that saves 7 % of loading them."""
    gc.disable()
    # Nothing here needs the threads of numpy's linear algebra: starting them is a third of its import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        _load_and_run()
    except KeyboardInterrupt:  # before a command could report it, or once more while it did
        os._exit(INTERRUPTED)


def _load_and_run() -> None:
    import signal  # under the guard of `run`, as all that takes time

    # During an import Ctrl-C can become another error, or get lost. Where it is ignored (`nohup`) it stays so.
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(INTERRUPTED))
    from xscore.cli.main import run_command_line  # not before: it loads most of the modules

    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_command_line()


if __name__ == "__main__":
    run()
