"""The front door: finds the command, imports only it, and turns whatever happens into an exit code.

It knows no command's options and prints no result. Commands return their exit code; None is 0. `STARTED_AT` (where
`--deadline` starts) is backdated by the CPU time used so far. Trade-off: time waiting for the disk is not counted. The
start of the process would be no better: it survives `exec`, so it may be that of a shell script.
"""

import atexit
import gc
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import click

from xscore.cli.catalogue import SECTIONS, LazyGroup
from xscore.cli.failures import EXIT_CODES, run_and_report
from xscore.cli.terminal import OUTPUT
from xscore.platform.errors import ExitCode, UsageError

STARTED_AT = time.monotonic() - time.process_time()
"""On the clock of `time.monotonic`."""


COMPLETE_VARIABLE = "_XSCORE_COMPLETE"
COLLECT_AFTER = 200_000
"""Objects made before the garbage collector looks: a turn holds tens of thousands of records and then ends (a fifth of
its CPU went into walking them over and over)."""
HELP_OPTIONS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def show_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """Print the installed version and stop."""
    if wanted:
        from importlib.metadata import version

        click.echo(f"xscore {version('xscore')}")
        ctx.exit(0)


@click.command(
    cls=LazyGroup,
    sections=SECTIONS,
    params=[*OUTPUT],
    context_settings=HELP_OPTIONS,
    epilog="Exit codes: " + " · ".join(f"{code} {words.split(';')[0]}" for code, words in EXIT_CODES.items()) + ".",
)
@click.option(
    "-C", "--directory", type=click.Path(exists=True, file_okay=False), help="Run as if started in DIRECTORY."
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="Show version.")
def xscore_command(directory: str | None, **_output: object) -> None:
    """Judge every memory of a repository against a task; keep exactly what matters.

    \b
    An agent needs three: `context "TASK" [PATH]...` finds what matters,
    `explain MEMORY` says why or why not, `memory add TEXT` keeps a decision.
    """
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as error:
            raise UsageError(
                f"--directory: {directory} cannot be entered: {error.strerror}", hint="Name a folder you can open."
            ) from error
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError("the current folder is gone", hint="Go to one that is there.") from error


def run_command_line() -> NoReturn:
    """Run the command line and end the process with the exit code."""
    gc.set_threshold(COLLECT_AFTER)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM ends the process like Ctrl-C from the start
    arguments = sys.argv[1:]
    code: int = ExitCode.INTERNAL
    atexit.register(lambda: _leave_at_once(code))  # registered first, so it runs last
    code = run_and_report(lambda: _invoke(arguments), arguments)
    if _is_hook(arguments):
        code = 0  # an agent would take another as a veto, even for an option that an older version does not know
    if any(thread.daemon for thread in threading.enumerate()):
        _leave_at_once(code)
    sys.exit(code)


def _is_hook(arguments: list[str]) -> bool:
    """Whether the command is `hook`, also after options such as `-C FOLDER`."""
    words = iter(arguments)
    for word in words:
        if word in ("-C", "--directory", "--color"):
            next(words, None)
        elif not word.startswith("-"):
            return word == "hook"
    return False


def _leave_at_once(code: int) -> NoReturn:
    """Exit without freeing each object, which takes a seventh of a cached turn.

    A thread that still imports an SDK past the deadline is not waited for. Python would kill it wherever it is, which
    makes compiled modules abort.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _invoke(arguments: list[str]) -> object:
    request = os.environ.get(COMPLETE_VARIABLE)
    if request:
        from click.shell_completion import shell_complete

        return shell_complete(xscore_command, {}, "xscore", COMPLETE_VARIABLE, request)
    with xscore_command.make_context("xscore", list(arguments)) as context:
        return xscore_command.invoke(context)
