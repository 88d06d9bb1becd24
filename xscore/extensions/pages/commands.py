"""`xscore show` and `ask --open`: a turn as a page, in a file, in the browser, or on stdout.

A page that is only looked at lies in a folder of its own under the system's temporary folder, which
nobody else can read: it holds text of the repository. Trade-off: nothing removes it before the
system does; `-o` names a file instead.
"""

import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import FILE
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.terminal import Terminal, write_bytes, write_stdout
from xscore.extensions.pages.reading import read_turn_page
from xscore.extensions.pages.turn_markdown import render_turn_markdown
from xscore.extensions.pages.turn_page import render_turn_page
from xscore.platform.errors import UsageError, XscoreError
from xscore.platform.files import write_atomically
from xscore.platform.paths import decode_path_argument
from xscore.store.turn_history import LATEST_TURN

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline

PAGE_ENDINGS = {".html", ".htm"}
SUMMARY_ENDING = ".md"


@command()
@click.argument("turn", metavar="[TURN]", default=LATEST_TURN)
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=FILE,
    help="Write FILE.html (the page) or FILE.md (a summary).",
)
def show(*, turn: str, opens: bool, output: Path | None, flags: Flags) -> None:
    """Show a turn as a page: the map of all scores, what was chosen and why, the answer, the cost.

    TURN is an ID, the beginning of one, or `latest` (the default). The page is one HTML file that
    loads and sends nothing; FILE.md has its choices and folders as Markdown. Without -o a terminal
    shows the path of a private temporary file, and a pipe gets the page itself. Nothing is sent to
    any model.
    """
    is_summary = output is not None and output.suffix.lower() == SUMMARY_ENDING
    if output is not None and not is_summary and output.suffix.lower() not in PAGE_ENDINGS:
        raise UsageError(
            f"{output} is neither an HTML nor a Markdown file", hint="Give it the ending .html."
        )

    async def render(pipeline: "Pipeline") -> tuple[str, str]:
        page = read_turn_page(pipeline.parts, decode_path_argument(turn))
        return page.turn.id, render_turn_markdown(page) if is_summary else render_turn_page(
            page
        )

    turn_id, text = run_with_pipeline(flags, render, make=False)
    terminal = flags.terminal
    is_piped = not (terminal.as_json or sys.stdout.isatty())
    if is_piped and output is None and not opens:
        # Written as it is: the page escapes what a terminal would obey, and its policy hashes
        # its bytes.
        write_bytes(text.encode())
        return
    path = write_page(turn_id, text, output)
    if terminal.as_json:
        terminal.print_result({"turn_id": turn_id, "file": str(path)}, "")
    elif output is None:
        write_stdout(str(path))
    else:
        terminal.note(f"page written to {path}")
    if opens:
        open_in_browser(path, terminal)


def write_page(turn_id: str, text: str, output: Path | None) -> Path:
    """Write the page to the named file, or to a private temporary one; return its path."""
    path = output
    if path is None:
        # An id of a store that somebody else wrote may be a path.
        name = turn_id if turn_id.isidentifier() else "turn"
        path = Path(tempfile.mkdtemp(prefix="xscore-")) / f"{name}.html"
    write_atomically(path, text.encode())
    return path.absolute()


def open_in_browser(path: Path, terminal: Terminal) -> None:
    """Open a page in the user's browser, or say where it is."""
    if not webbrowser.open(path.as_uri()):
        terminal.note(f"no browser could be opened; the page is {path}")


async def open_turn_page(pipeline: "Pipeline", turn_id: str, terminal: Terminal) -> None:
    """Open the page of the turn that has just ended (`ask --open`)."""
    try:
        text = render_turn_page(read_turn_page(pipeline.parts, turn_id))
        path = write_page(turn_id, text, None)
    except XscoreError as error:  # the turn was paid for, and is still to be printed
        terminal.note(f"its page could not be made: {error.message}")
        return
    open_in_browser(path, terminal)
