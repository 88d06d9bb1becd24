"""The command `xscore`, also as `python -m xscore`."""

import gc
import os
import sys


def run() -> None:
    """Run the command line. Garbage collection starts after its modules are loaded: that saves 7 % of loading them."""
    gc.disable()
    # Nothing here needs the threads of numpy's linear algebra: starting them is a third of its import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments = sys.argv[1:]
    if arguments[:1] == ["hook"]:
        from xscore.extensions.agents.hook_run import end_if_installed  # few runs are a hook's

        end_if_installed(arguments)
    from xscore.cli.main import run_command_line  # not before: it loads most of those modules

    run_command_line()


if __name__ == "__main__":
    run()
