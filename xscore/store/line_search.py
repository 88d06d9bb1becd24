"""Search for lines of erased text: in strings, and in the raw bytes of files.

A subprocess that runs this file searches the files, because closing a file that SQLite has open in
the same process drops its locks; so this file imports nothing of xscore. A line matches as it is or
JSON-encoded. Trade-off: lines under 12 characters are not searched for, and a line that spans two
database pages is missed.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

SHORTEST = 12
"""Fewest characters of a line that is searched for."""
LONGEST = 1_000
"""Most characters of a line that are searched for."""
_HALVED = 48
_CHUNK = 8_000_000
_OVERLAP = 8 * LONGEST
_WORD = re.compile(r"\w{5,}")
_INNER = re.compile(r"(?<=\W)\w{5,}(?=\W)")
"""Matches a word with a boundary on both sides inside the line, so that the text around the
line cannot change it."""


def searchable_lines(texts: Iterable[str]) -> frozenset[str]:
    """Return the lines of these texts that are long enough to search for."""
    lines: set[str] = set()
    for text in texts:
        stripped = (line.strip()[:LONGEST] for line in text.splitlines())
        lines.update(line for line in stripped if len(line) >= SHORTEST)
    return frozenset(lines)


def with_halves(lines: Iterable[str]) -> frozenset[str]:
    """Add the two halves of each long line, since a remnant in a file may be cut anywhere."""
    parts = set(lines)
    for line in tuple(parts):
        if len(line) >= _HALVED:
            middle = len(line) // 2
            parts |= {line[:middle].strip(), line[middle:].strip()}
    return frozenset(parts)


class LineMatcher:
    """Finds lines by one word each, so that a thousand cost little more than one."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.all: frozenset[str] = frozenset(lines)
        self._by_word: dict[str, list[tuple[str, str]]] = {}
        self._wordless: list[tuple[str, str]] = []
        for line in self.all:
            for form in _forms(line):
                word = max(_INNER.findall(form), key=len, default="")
                if word:
                    pairs = self._by_word.setdefault(word, [])
                else:
                    pairs = self._wordless
                pairs.append((form, line))

    def found_in(self, text: str) -> set[str]:
        """Return the lines that are in this text."""
        likely = list(self._wordless)
        if self._by_word:
            for word in self._by_word.keys() & set(_WORD.findall(text)):
                likely += self._by_word[word]
        return {line for form, line in likely if form in text}

    def __bool__(self) -> bool:
        return bool(self.all)


def find_lines_in_files(files: Iterable[Path], lines: Iterable[str]) -> dict[Path, set[str]]:
    """Return which lines are in which files; missing files hold none. Raises OSError."""
    request = {"files": [str(file) for file in files], "lines": sorted(lines)}
    if not request["files"] or not request["lines"]:
        return {}
    done = subprocess.run(
        [sys.executable, "-I", "-S", __file__],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise OSError(
            done.stderr.strip().splitlines()[-1]
            if done.stderr.strip()
            else "the search was stopped"
        )
    lines_by_file: Mapping[str, list[str]] = json.loads(done.stdout)
    return {Path(file): set(held) for file, held in lines_by_file.items() if held}


def _forms(line: str) -> set[str]:
    """Return the line as it is and JSON-encoded."""
    encoded = json.dumps(line), json.dumps(line, ensure_ascii=False)
    return {line, *(text[1:-1] for text in encoded)}


def _chunks(path: str) -> Iterator[str]:
    with Path(path).open("rb") as file:
        tail = b""
        while data := file.read(_CHUNK):
            yield (tail + data).decode("utf-8", "replace")
            tail = data[-_OVERLAP:]


def _search(files: Iterable[str], lines: LineMatcher) -> dict[str, list[str]]:
    lines_by_path: dict[str, list[str]] = {}
    for path in files:
        held: set[str] = set()
        try:
            for chunk in _chunks(path):
                held |= lines.found_in(chunk)
        except FileNotFoundError:
            continue
        lines_by_path[path] = sorted(held)
    return lines_by_path


if __name__ == "__main__":
    _question = json.load(sys.stdin)
    json.dump(_search(_question["files"], LineMatcher(_question["lines"])), sys.stdout)
