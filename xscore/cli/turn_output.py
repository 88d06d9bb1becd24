"""Print a turn as text: the result on stdout, what it rests on and cost on stderr.

JSON needs none of it. Trade-off: it reads the answer alone, so a text of a memory that is gone is
not shown.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from xscore.cli import answer_account, answer_text
from xscore.cli.flags import Flags
from xscore.cli.terminal import Terminal, stdout_columns, write_stdout
from xscore.pipeline.factories import NO_KEY
from xscore.platform.clock import DAY_S
from xscore.platform.errors import ExitCode
from xscore.platform.files import is_there, write_atomically
from xscore.platform.paths import user_cache_dir
from xscore.platform.text import escape_controls, escape_in_json
from xscore.records.receipt import Answer
from xscore.settings.values import SET_A_JUDGE, SET_AN_ANSWERER

NO_JUDGE = (
    f"To have a model judge and answer, set {SET_A_JUDGE} (--judge and --model name others)."
)
NO_ANSWERER = f"To have a model answer, set {SET_AN_ANSWERER} (--model names others)."
HINT_MARK = "hinted"
"""File of the user's cache folder whose date is that of the latest hint."""


def print_as_text(
    answer: Answer,
    terminal: Terminal,
    *,
    streamed: str = "",
    may_hint: bool = False,
    output: Path | None = None,
    is_context: bool = False,
    bundle_is_json: bool = False,
    texts: Mapping[str, str] | None = None,
) -> None:
    """Print a turn as text; see `ask.print_turn`."""
    if streamed:
        terminal.stream("" if streamed.endswith("\n") else "\n")
    result = answer.answer
    columns = stdout_columns()
    if (
        result is None
        and answer.exit_code != ExitCode.INTERRUPTED
        and (is_context or output or not columns)
    ):
        result = answer.bundle or None
    selection = answer_text.render_selection(answer, texts, width=columns)
    if result is not None:
        if streamed != result:  # a call that broke while streaming was made again
            _write_result(result, terminal, output, is_json=bundle_is_json)
        terminal.lines(selection if is_context else f"\n{selection}")
    elif answer.selected or columns:
        write_stdout(selection)
    else:
        terminal.lines(selection)
    _print_remarks(answer, terminal, may_hint=may_hint)


def print_list(answer: Answer, flags: Flags) -> int:
    """Print what was chosen as lines or paths.

    Return the exit code: 1 if there is none, as grep does.
    """
    if flags.given["files_with_matches"]:
        render = answer_text.render_paths
    else:
        render = answer_text.render_lines
    listed = render(answer)
    if listed or flags.given["output"]:
        _write_result(listed, flags.terminal, flags.given["output"])
    if not answer.selected:
        flags.terminal.lines(answer_text.render_selection(answer))
    _print_remarks(answer, flags.terminal, in_lines=True)
    return answer.exit_code or int(not listed)


def _print_remarks(
    answer: Answer, terminal: Terminal, *, may_hint: bool = False, in_lines: bool = False
) -> None:
    """Say what was not chosen, what went wrong and what it cost.

    may_hint: say how to get an answer when no model gave one.
    in_lines: name all that passed without a place, a line each.
    """
    hint = ""
    if may_hint and answer.primary is None and _is_hint_due():
        hint = NO_ANSWERER if answer.judge.by_model else NO_JUDGE
    # the last line says in any case that no model judged
    is_told = may_hint and not hint
    terminal.notes(
        [warning for warning in answer.warnings if not (is_told and warning == NO_KEY)]
    )
    for text in answer_account.render_account(
        answer, verbose=terminal.verbose, in_lines=in_lines
    ):
        terminal.lines(text)
    if hint:
        terminal.note(hint)
    terminal.lines(answer_account.render_cost_line(answer))


def _is_hint_due() -> bool:
    """Whether the daily hint on how to get a model is due; records that it is shown now."""
    mark = user_cache_dir() / HINT_MARK
    try:
        if is_there(mark) and 0 <= time.time() - mark.stat().st_mtime < DAY_S:
            return False
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError:  # said once too often rather than never
        pass
    return True


def _write_result(
    text: str, terminal: Terminal, output: Path | None, *, is_json: bool = False
) -> None:
    if output is None:
        terminal.data(text, is_json=is_json)
        return
    safe = escape_in_json(text) if is_json else escape_controls(text)
    write_atomically(
        output, (safe if not safe or safe.endswith("\n") else safe + "\n").encode()
    )
    terminal.note(f"written to {output}")
