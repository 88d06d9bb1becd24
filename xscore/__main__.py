"""The command `xscore`, also as `python -m xscore`."""

import gc
import os
import signal
import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C; `errors.ExitCode` is not loaded yet."""


def run() -> None:
    """Run the command line.

    Garbage collection starts after its modules are loaded: that saves 7 % of loading them.
    """
    gc.disable()
    # Nothing here needs the threads of numpy's linear algebra: starting them is a third of its
    # import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        if sys.argv[1:2] == ["hook"]:
            with _EndsAtInterrupt():
                # Few runs are a hook's.
                from xscore.extensions.agents.hook_run import end_if_installed
            end_if_installed(sys.argv[1:])
        with _EndsAtInterrupt():
            from xscore.cli.main import run_command_line  # not before: it loads most of the modules
        run_command_line()
    except KeyboardInterrupt:  # before a command could report it, or once more while it did
        os._exit(INTERRUPTED)


class _EndsAtInterrupt:
    """During an import Ctrl-C can become another error, or get lost: here it ends the process at
    once."""

    def __enter__(self) -> None:
        # Where it is ignored (`nohup`) it stays so.
        self.is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self.is_heard:
            signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(INTERRUPTED))

    def __exit__(self, *_: object) -> None:
        if self.is_heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    run()
