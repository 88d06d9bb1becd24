"""After the command: what it took, for the summary, for the page and for other steps; and each
failed gate, annotated.

Only this run's part of the ledger is reported. It holds no figure to anything itself: `xscore
report --check` does, and `conclude` says what becomes of it. Text by others mentions no one and
links nowhere, and each part is cut before it is put together, so that none is left open. Trade-off:
the report is made twice, as JSON and as Markdown.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from ci.conclude import GATE, lets_pass
from ci.runner import (
    annotate,
    environment,
    fenced,
    given,
    is_check,
    is_one_turn,
    is_true,
    own_file,
    set_output,
    xscore,
)

SUMMARY_BYTES = 1_000_000
"""A step summary may have 1 MiB; more of it and the runner drops it all."""
COMMENT_BYTES = 60_000
"""GitHub takes a comment of 65,536 characters."""
PRINTED_BYTES = 20_000
"""Bytes of what the command printed that a comment shows, so that it has room for the rest."""
LEVEL_OF: dict[str, Literal["error", "warning"]] = {
    "gate failed: ": "error",
    "gate alert: ": "warning",
}
"""What `xscore report --check` says of a gate on stderr, a line each."""
CUT = "\n\n… cut here: the page has the rest."
ACTIVE = re.compile(
    r"""
    (?<![A-Za-z0-9])@(?=\w)        # a mention
    | \#(?=\d) | \bGH-(?=\d)      # a reference to an issue
    | :(?=\\?/) | \bwww(?=\\?\.)  # an address
    | \](?=[(\[:]) | !(?=\[)      # a link, an image
    | <(?=[\w/!?]) | &(?=[\w\#])  # HTML
    """,
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
"""What GitHub makes a mention, a reference, a link, an image or HTML of. It looks after backslashes
are taken out."""
CODE = " " * 4
"""Before each line, since a fence could be left open where a text is cut, or be as long as the
text."""
NOTHING = "\u200b"
"""A space of no width."""


class Written(Struct, frozen=True):
    """What `xscore report` said, and the files it went to."""

    code: int
    """What the check ended with; 0 without a baseline."""
    found: dict[str, Any]
    """The report; empty where there is none."""
    markdown: str
    told: str
    """On stderr."""


def main() -> int:
    """Write summary, pages and report; give `report`, `page`, `turn`, `markdown`, `cost-usd`,
    `calls` and `gate`."""
    page, report, markdown = (
        own_file("xscore", ".html"),
        own_file("report", ".json"),
        own_file("report", ".md"),
    )
    written = _write(page)
    # Without a turn in this run the latest one would be an earlier run's, restored with the store.
    has_turn = is_one_turn() and bool(written.found.get("turns"))
    turn = _write_turn(own_file("turn", ".html")) if has_turn else ""
    stdout = Path(given("STDOUT"))
    report.write_text(json.dumps(written.found), "utf-8")
    if is_check():
        comment = shown = listed(stdout)
    else:
        printed = as_it_was(stdout)
        report_text = written.markdown
        if turn:
            report_text = f"{_turn_as_markdown(own_file('turn', '.md'))}\n{report_text}"
        comment = together(report_text, printed, COMMENT_BYTES)
        shown = together(report_text, printed, SUMMARY_BYTES)
    markdown.write_text(comment, "utf-8")
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as summary:
        summary.write(shown)
    annotate_gates(
        written.told,
        held=not lets_pass(int(given("EXIT_CODE")), lacks_key=is_true("LACKS_KEY")),
    )
    spent = written.found.get("spent", {})
    set_output("report", str(report))
    set_output("markdown", str(markdown))
    # A check that sent nothing has nothing to account for.
    has_page = page.exists() and (not is_check() or bool(spent.get("attempts")))
    set_output("page", str(page) if has_page else "")
    set_output("turn", turn)
    set_output("cost-usd", str(spent.get("cost_usd", "")))
    set_output("calls", str(spent.get("attempts", "")))
    set_output("gate", str(written.code))
    return 0


def together(report: str, printed: str, most: int) -> str:
    """Return the report, with nothing active in it, and everything printed, within the size limit
    in bytes."""
    return f"{bounded(passive(report).rstrip(), most - len(printed.encode()) - 2)}\n\n{printed}"


def listed(printed: Path) -> str:
    """Return what `xscore check` found, as its Markdown; empty: nothing, or it was asked for
    another form."""
    with printed.open(encoding="utf-8", errors="replace") as file:
        text = file.read(COMMENT_BYTES + 1).strip()
    if not text.startswith("**"):
        return ""
    return bounded(passive(text), COMMENT_BYTES)


def passive(markdown: str) -> str:
    """Return it so that no name in it calls anyone, and nothing of others is a link, an image or
    HTML."""
    return ACTIVE.sub(lambda found: f"{found[0]}{NOTHING}", markdown)


def bounded(text: str, most: int) -> str:
    """Return text within a limit of UTF-8 bytes, cut at the end of a line."""
    if len(text.encode()) <= most:
        return text
    kept = text.encode()[: most - len(CUT.encode())].decode("utf-8", "ignore")
    return (kept.rpartition("\n")[0] or kept) + CUT


def as_it_was(printed: Path) -> str:
    """Return what the command printed, folded away and set as code: nothing in it is Markdown;
    empty: nothing."""
    # Which makes a line end of each `\r`.
    with printed.open(encoding="utf-8", errors="replace") as file:
        text = file.read(PRINTED_BYTES + 1).strip()
    if not text:
        return ""
    code = bounded(re.sub("^", CODE, text, flags=re.MULTILINE), PRINTED_BYTES)
    return f"<details><summary>What the command printed</summary>\n\n{code}\n\n</details>\n"


def annotate_gates(told: str, *, held: bool) -> None:
    """One annotation for each line of stderr that tells of a gate; held: a failure is an error,
    otherwise a warning."""
    for line in told.splitlines():
        for start, level in LEVEL_OF.items():
            if line.startswith(start):
                annotate(
                    level if held else "warning",
                    f"xscore: {start.rstrip(': ')}",
                    line.removeprefix(start),
                )


def _write(page: Path) -> Written:
    since = [f"--since={given('SINCE')}"]
    check = ["--check", f"--baseline={given('BASELINE')}"] if given("BASELINE") else []
    with fenced():
        first = told = _xscore(*since, *check, f"--output={page}", "--json")
        # For example without a readable baseline: the figures are shown all the same.
        if told.returncode not in (0, GATE):
            print(_message(told.stdout), file=sys.stderr)
            check = []
            told = _xscore(*since, f"--output={page}", "--json")
        shown = _xscore(*since, *check, "--format=markdown", "--quiet")
        sys.stderr.write(first.stderr)
    markdown = shown.stdout if shown.returncode in (0, GATE) else ""
    return Written(first.returncode, _report(told), markdown, first.stderr)


def _write_turn(file: Path) -> str:
    """Write the latest turn to a file; return its path, empty: it cannot be shown."""
    words = xscore("show", "--quiet", f"--output={file}")
    with fenced():
        shown = subprocess.run(
            words, stderr=subprocess.PIPE, text=True, env=environment(), check=False
        )
        sys.stderr.write(shown.stderr)
    return str(file) if shown.returncode == 0 and file.exists() else ""


def _turn_as_markdown(file: Path) -> str:
    """Return question, choices and folders of the latest turn; empty if it cannot be shown."""
    return file.read_text("utf-8") if _write_turn(file) else ""


def _report(told: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    if told.returncode not in (0, GATE):
        return {}
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):  # no error of ours: unchanged
        return text


def _xscore(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = xscore("report", *arguments)
    return subprocess.run(words, capture_output=True, text=True, env=environment(), check=False)


if __name__ == "__main__":
    sys.exit(main())
