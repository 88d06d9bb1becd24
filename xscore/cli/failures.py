"""Turn whatever goes wrong into a message, a hint and an exit code: the one place that does so.

Errors of our own bring their code (`XscoreError.exit_code`); click's are 2. Under `--json` an error
is an object on stdout. Anything else is damage, where a store holds values of another type than its
columns, or a bug: one line, and the traceback under `--verbose`.
"""

import re
import sys
from collections.abc import Sequence
from itertools import takewhile

import click

from xscore.cli.terminal import discard_stream, print_json, write_stderr
from xscore.platform.errors import ExitCode, UsageError, find_xscore_error
from xscore.platform.text import escape_controls
from xscore.store.redaction import redact

MOST_CHARS = 1_000
"""Longest error message shown; a longer one loses its middle."""
RUN_AGAIN = "Judgments already paid for are kept; run the same command again to continue."


def report_failure(error: BaseException, arguments: Sequence[str]) -> int:
    """Print what a command raised, in the form the arguments ask for, and return the exit code.

    The arguments are read without click, since they may be the error.
    """
    flags = list(takewhile(lambda word: word != "--", arguments))
    as_json = "--json" in flags
    verbose = any(re.fullmatch("--verbose|-[a-uw-z]*v[a-z]*", flag) for flag in flags)
    xscore_error = find_xscore_error(error)
    if xscore_error is not None:
        return _tell(
            xscore_error.exit_code,
            xscore_error.kind,
            xscore_error.message,
            xscore_error.hint,
            as_json=as_json,
        )
    match error:
        # --help or --version, where a caller of ours runs the command itself.
        case click.exceptions.Exit():
            return error.exit_code
        case click.exceptions.Abort() | KeyboardInterrupt():
            return _tell(
                ExitCode.INTERRUPTED, "interrupted", "interrupted", RUN_AGAIN, as_json=as_json
            )
        case click.exceptions.NoArgsIsHelpError() if not as_json:
            write_stderr(error.format_message())
            return error.exit_code
        case click.ClickException():
            context = None
            if isinstance(error, click.UsageError):
                context = error.ctx
            hint = ""
            if context:
                hint = f"See `{context.command_path} --help`."
            return _tell(
                error.exit_code, "usage", error.format_message(), hint, as_json=as_json
            )
    return _tell_unexpected(error, verbose=verbose, as_json=as_json)


def _tell_unexpected(error: BaseException, *, verbose: bool, as_json: bool) -> int:
    """Tell damage that nobody expected, or a bug."""
    from xscore.platform.odd_values import damage_by_odd_values  # only after one of them

    if verbose:
        import traceback  # only with --verbose

        write_stderr(escape_controls("".join(traceback.format_exception(error))))
    damage = damage_by_odd_values()
    if damage is not None:
        return _tell(
            damage.exit_code, damage.kind, damage.message, damage.hint, as_json=as_json
        )
    advice = "Run again with --verbose and report it."
    if verbose:
        advice = "Please report it with the lines above."
    text = f"internal error: {type(error).__name__}: {error}"
    return _tell(
        ExitCode.INTERNAL,
        "internal",
        text,
        f"This is a bug of xscore. {advice}",
        as_json=as_json,
    )


def _tell(code: int, kind: str, message: str, hint: str, *, as_json: bool) -> int:
    """Write the error to stdout as JSON or to stderr as text, with secrets redacted; return the
    code."""
    message = redact(message).text  # it may repeat what was typed
    if len(message) > MOST_CHARS:
        message = f"{message[: MOST_CHARS // 2]} … {message[-MOST_CHARS // 2 :]}"
    if as_json:
        from xscore.pipeline.json_form import SCHEMA  # only --json

        body = {"code": code, "kind": kind, "message": message, "hint": hint}
        try:
            print_json({"schema": SCHEMA, "error": body})
        # Stdout cannot be written: a full disk, or a closed pipe.
        except (UsageError, BrokenPipeError):
            discard_stream(sys.stdout)
        else:
            return code
    write_stderr(
        f"xscore: {escape_controls(message)}" + (f"\n  {escape_controls(hint)}" if hint else "")
    )
    return code
