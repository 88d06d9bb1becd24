"""What the prompt hook's text saves an agent: characters until the right place is named, and until
its body is whole.

    python benchmarks/hook_economy.py --bench DIR --repositories DIR [--every 4]

DIR/commits.jsonl has commit messages (without the names of what changed) and what changed;
DIR/OWNER+NAME is a clone. Each message is asked of the parent's tree without a key. An agent reads
the hook's text, then opens the places that it names, in order, until the body of a function that
the commit changed has been shown whole. Compared are the hook's text, its lines alone, bodies alone
(whole ones, best first, within the hook's limit), and the files that hold most words of the
message, as a search with ripgrep lists them, read whole. BCY@8k is the share of changed functions
whose body is whole within 8,000 tokens of 4 characters. Questions about things that a repository
does not have say how often the hook is silent rightly. Ends with 1 where a target is missed.
"""

import argparse
import asyncio
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from commit_cases import (
    CaseResult,
    CommitCase,
    ask_all,
    asked,
    read_absent,
    read_cases,
    tree_of_case,
)
from msgspec import Struct

from xscore.extensions.agents.agent_bundle import place_of, render_agent_bundle
from xscore.records.receipt import Answer
from xscore.settings import AgentSettings

FILE_NAMED, FUNCTION_NAMED, MOST_SILENT, MOST_MEAN, MOST_ABSENT = 0.75, 0.55, 0.08, 2_500, 0.08
BUDGET_CHARS = 8_000 * 4
"""Characters of 8,000 tokens."""
LIMIT = AgentSettings().hook_max_chars
NEVER = float("inf")
_BODY = re.compile(
    r"^<xscore_source at=\"([^\"]*)\"([^>]*)>\n.*?^</xscore_source>\n", re.DOTALL | re.MULTILINE
)
_PLACE = re.compile(r"^([^\s<>][^\n]*?):(\d+)-(\d+)  ~?[01]\.\d\d", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w{3,}")
RIPGREP_FILES = 10
_SOURCE = re.compile(r"\.(py|pyi|pyx|js|mjs|cjs|jsx|ts|tsx|rs|c|h|cc|cpp|go|java|rb)\Z")


class ReadPassage(Struct, frozen=True):
    """Something that is read: where it begins in the reading, and what of which file it shows."""

    at: int
    chars: int
    path: str
    start: int
    end: int
    is_whole: bool
    """Whether the lines are there, not only named."""


class Figures(Struct, frozen=True):
    """What one form gave for one case."""

    chars: int
    file_at: float
    """Characters until a changed file is named."""
    function_named: bool
    body_at: float
    """Characters until the body of a changed function is whole."""
    within: float
    """Share of the changed functions whose bodies are whole within the budget."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(".cache/lexical"))
    parser.add_argument("--every", type=int, default=4)
    options = parser.parse_args()
    cases = read_cases(options.bench, every=options.every)
    figures: dict[str, list[Figures]] = {}
    for result in ask_all(cases, options.repositories, options.cache):
        for name, reading, chars in readings(result):
            figures.setdefault(name, []).append(measure(result.case, reading, chars))
    for name, rows in figures.items():
        show(name, rows)
    silent_rightly, absent = silence(cases, options.repositories, options.cache)
    print(f"questions about what is not there: {absent}, silent on {silent_rightly}")
    return verdict(figures["hook"], 1 - silent_rightly / max(1, absent))


def readings(result: CaseResult) -> Iterator[tuple[str, list[ReadPassage], int]]:
    """Yield each form by name: what is read in which order, and how long its text is."""
    text = render_agent_bundle(result.answer, result.texts, max_chars=LIMIT)
    yield "hook", read(text, result.tree), len(text)
    lines = _BODY.sub("", text)
    yield "lines alone", read(lines, result.tree), len(lines)
    bodies = bodies_alone(result.answer, result.texts)
    yield "bodies alone", read(bodies, result.tree), len(bodies)
    files = ripgrep(result.tree, result.case.task)
    listed = "".join(f"{path}\n" for path in files)
    yield (
        "ripgrep's files",
        list(files_read(files, result.tree, begins=len(listed))),
        len(listed),
    )


def bodies_alone(answer: Answer, texts: Mapping[str, str]) -> str:
    """Return the whole bodies of what was chosen, best first, within the hook's limit."""
    text = ""
    for memory in answer.selected:
        text_of_it = texts.get(memory.id, "")
        body = f'<xscore_source at="{place_of(memory)}">\n{text_of_it}\n</xscore_source>\n'
        if len(text) + len(body) <= LIMIT:
            text += body
    return text


def read(text: str, tree: Path) -> list[ReadPassage]:
    """Return what a text shows, and what is read when the places that it names are opened in
    order."""
    shown: list[ReadPassage] = []
    for place in _PLACE.finditer(text):
        shown.append(
            ReadPassage(place.end(), 0, place[1], int(place[2]), int(place[3]), is_whole=False)
        )
    for body in _BODY.finditer(text):
        path, _, lines = body[1].rpartition(":")
        start, _, end = lines.partition("-")
        if start.isdigit():
            is_whole = "shows=" not in body[2] and "not shown]" not in body[0]
            shown.append(
                ReadPassage(
                    body.end(), 0, path, int(start), int(end or start), is_whole=is_whole
                )
            )
    at = len(text)
    for place in _PLACE.finditer(text):
        path, start, end = place[1], int(place[2]), int(place[3])
        at += sum(map(len, lines_of(tree, path)[start - 1 : end]))
        shown.append(ReadPassage(at, 0, path, start, end, is_whole=True))
    return sorted(shown, key=lambda passage: passage.at)


def lines_of(tree: Path, path: str) -> list[str]:
    """Return the lines of a file; none if it cannot be read."""
    try:
        return (tree / path).read_text("utf-8", "replace").splitlines(keepends=True)
    except OSError:
        return []


def ripgrep(tree: Path, task: str) -> list[str]:
    """Return the source files that hold most different words of the task, then most of them."""
    words = {word.lower() for word in _WORD.findall(task)}
    hits: list[tuple[int, int, str]] = []
    for file in sorted(tree.rglob("*")):
        path = file.relative_to(tree).as_posix()
        if not path.startswith(".git/") and _SOURCE.search(path) and file.is_file():
            text = file.read_text("utf-8", "replace").lower()
            counts = [text.count(word) for word in words]
            hits.append((-sum(count > 0 for count in counts), -sum(counts), path))
    return [path for _, _, path in sorted(hits)[:RIPGREP_FILES]]


def files_read(files: Sequence[str], tree: Path, *, begins: int) -> Iterator[ReadPassage]:
    """Yield the files as they are named, and then as each is read whole."""
    at = 0
    for path in files:
        at += len(path) + 1
        yield ReadPassage(at, 0, path, 0, 0, is_whole=False)
    at = begins
    for path in files:
        lines = lines_of(tree, path)
        at += sum(map(len, lines))
        yield ReadPassage(at, 0, path, 1, len(lines), is_whole=True)


def measure(case: CommitCase, reading: Sequence[ReadPassage], chars: int) -> Figures:
    """Return when the reading names a changed file, and shows a changed body whole."""
    named = [passage.at for passage in reading if passage.path in case.gold_files]
    places = [passage for passage in reading if not passage.is_whole]
    bodies = [
        min(
            (passage.at for passage in reading if passage.is_whole and covers(passage, gold)),
            default=NEVER,
        )
        for gold in case.gold
    ]
    return Figures(
        chars=chars,
        file_at=min(named, default=NEVER),
        function_named=any(
            case.is_gold(passage.path, passage.start, passage.end) for passage in places
        ),
        body_at=min(bodies, default=NEVER),
        within=sum(at <= BUDGET_CHARS for at in bodies) / max(1, len(bodies)),
    )


def covers(passage: ReadPassage, gold: Mapping[str, object]) -> bool:
    """Whether what is shown has all lines of a changed function."""
    start, end = int(str(gold["start"])), int(str(gold["end"]))
    return passage.path == gold["path"] and passage.start <= start and passage.end >= end


def silence(cases: Sequence[CommitCase], clones: Path, cache: Path) -> tuple[int, int]:
    """Return how often the hook is silent about what a repository does not have, and how many were
    asked."""
    latest = {case.repository: case for case in cases}
    silent, total = 0, 0
    for repository, questions in read_absent().items():
        if repository not in latest:
            continue
        tree = tree_of_case(latest[repository], clones, cache)
        for question in questions:
            _, answer, texts = asyncio.run(asked(tree, question))
            total += 1
            silent += not render_agent_bundle(answer, texts, max_chars=LIMIT)
    return silent, total


def show(name: str, rows: Sequence[Figures]) -> None:
    """Print the figures of one form."""
    file_at = statistics.median(row.file_at for row in rows)
    body_at = statistics.median(row.body_at for row in rows)
    print(
        f"{name:16} n {len(rows):3}  chars {statistics.fmean(row.chars for row in rows):5.0f}  file"
        f" named {statistics.fmean(row.file_at < NEVER for row in rows):.2f}, half after"
        f" {file_at:5.0f}  function named"
        f" {statistics.fmean(row.function_named for row in rows):.2f}  body whole, half after"
        f" {body_at:6.0f}  BCY@8k {statistics.fmean(row.within for row in rows):.2f}  silent"
        f" {statistics.fmean(row.chars == 0 for row in rows):.2f}"
    )


def verdict(rows: Sequence[Figures], absent: float) -> int:
    """Return 1 where a target is missed."""
    named = statistics.fmean(row.file_at < NEVER for row in rows)
    functions = statistics.fmean(row.function_named for row in rows)
    silent = statistics.fmean(row.chars == 0 for row in rows)
    mean = statistics.fmean(row.chars for row in rows)
    print(
        f"targets: file named at least {FILE_NAMED}, function {FUNCTION_NAMED}, silent at most"
        f" {MOST_SILENT}, {MOST_MEAN:,} characters, spoken about what is not there at most"
        f" {MOST_ABSENT} ({absent:.3f})"
    )
    met = named >= FILE_NAMED and functions >= FUNCTION_NAMED and silent <= MOST_SILENT
    return int(not (met and mean <= MOST_MEAN and absent <= MOST_ABSENT))


if __name__ == "__main__":
    raise SystemExit(main())
