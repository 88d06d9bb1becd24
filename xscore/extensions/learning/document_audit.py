"""What AGENTS.md, CLAUDE.md and decision records name that no longer exists, with line numbers.

Agents follow these files, so a command that is gone costs them a failed attempt each time.
Commands, paths, symbols and versions are looked up as those of a memory are (`store.drift`); the
files are read as they are on the disk. Nothing is run or changed. Trade-off: a name that a file
explains as gone is listed, too.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from xscore.platform.files import FileRefused, opened_folder, read_file_under
from xscore.platform.paths import native_name
from xscore.store.drift import DriftCheck, describe_gone
from xscore.store.named_things import NamedKind, named_things
from xscore.store.store import Store

MOST_DOCUMENTS = 200
MOST_BYTES = 500_000
LOOKUPS = 40
"""Most questions to git's history."""
LOOKUP_S = 0.5
"""Most seconds for each question."""
_INSTRUCTIONS = re.compile(
    r"(?:.*/)?(?:AGENTS|CLAUDE|GEMINI|CONVENTIONS)(?:\.local)?\.md\Z"
    r"|\.github/copilot-instructions\.md\Z|(?:.*/)?\.(?:cursorrules|windsurfrules)\Z"
    r"|(?:.*/)?\.cursor/rules/[^/]+\.mdc?\Z"
)
_DECISION_RECORD = re.compile(
    r"(?:.*/)?(?:adrs?|decisions|decision-records|architecture-decisions|rfcs?)/[^/]+\.(?:md|rst|adoc)\Z",
    re.IGNORECASE,
)


class OutdatedLine(Struct, frozen=True):
    """A line of a document that names what no longer exists."""

    path: str
    line: int
    because: str
    """The reason, such as `names make lint, which no longer exists`."""


def outdated_lines(store: Store) -> Iterator[OutdatedLine]:
    """Yield the lines of instructions and decision records that name what no longer exists."""
    rows = store.connection.execute("SELECT path FROM file ORDER BY path").fetchall()
    paths = [path for (path,) in rows if is_instruction(path) or is_decision_record(path)]
    check = DriftCheck(store.connection, store.root, lookups=LOOKUPS, lookup_s=LOOKUP_S)
    with opened_folder(store.root.path) as top:
        for path in paths[:MOST_DOCUMENTS]:
            try:
                data = read_file_under(top, native_name(path), max_bytes=MOST_BYTES)
            except (OSError, FileRefused):
                continue
            yield from _outdated_lines_of(check, path, data.decode("utf-8", "replace"))


def is_instruction(path: str) -> bool:
    """Whether agents are meant to follow this file."""
    return _INSTRUCTIONS.match(path) is not None


def is_decision_record(path: str) -> bool:
    """Whether a file records a decision."""
    return _DECISION_RECORD.match(path) is not None


def _outdated_lines_of(check: DriftCheck, path: str, text: str) -> Iterator[OutdatedLine]:
    things = named_things(text)
    if is_decision_record(path):
        # A record says what was decided then: which version it was is not a claim about today.
        things = [thing for thing in things if thing.kind is not NamedKind.VERSION]
    for gone_thing in check.gone(things):
        yield OutdatedLine(path, gone_thing.thing.line, describe_gone([gone_thing]))
