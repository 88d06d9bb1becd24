"""What a bundle leaves out: memories that it only names, and the parts of a memory that it cuts.

Named are memories chosen without room, passed without a place, or just below the threshold. One
line each, by file, within a share of the budget; what does not fit even so is counted. Class
outlines are cut to names, long functions to the lines that matter; every cut says what was left
out, and line numbers are those of the file. Trade-offs: names come before reasons, so a long list
has no reasons; the lines that matter are found by the words of the task and of the judge's reason.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct

from xscore.platform import tokens
from xscore.platform.patterns import compiled_late
from xscore.prompts.bundle_headings import HEADINGS, LeftOutCause
from xscore.prompts.fences import collapse_blanks, escape_tags
from xscore.records.candidates import Candidate
from xscore.records.judgment import score_text

REASON_CHARS = 120


class LeftOut(Struct, frozen=True):
    """A memory that is named."""

    candidate: Candidate
    cause: LeftOutCause
    score: float
    threshold: float = 0.0
    """The threshold that the memory did not reach, if that is why it was left out."""
    reason: str = ""
    title: str = ""
    """Title of a memory that belongs to no file."""
    others: tuple[str, ...] = ()
    """Ids of the memories that this one represents."""
    tokens: int = 0


def name_within(
    left_out: Sequence[LeftOut], budget: int, *, size: Callable[[LeftOut], int]
) -> list[LeftOut]:
    """Return the first of these whose entries fit into the budget of tokens together."""
    for count, left_memory in enumerate(left_out):
        budget -= size(left_memory)
        if budget < 0:
            return list(left_out[:count])
    return list(left_out)


def in_order(left_out: Iterable[LeftOut]) -> list[LeftOut]:
    """Order by cause, then by file, the file with the best score first."""
    best_first = sorted(
        left_out, key=lambda memory: (memory.cause, -memory.score, memory.candidate.id)
    )
    files: dict[tuple[LeftOutCause, str], int] = {}
    for memory in best_first:
        files.setdefault((memory.cause, memory.candidate.path), len(files))
    return sorted(
        best_first,
        key=lambda memory: (memory.cause, files[memory.cause, memory.candidate.path]),
    )


def left_out_lines(left_out: Iterable[LeftOut], budget: int) -> list[str]:
    """Return headings and a line for each memory (path:lines, entity, score, reason), within a
    budget of tokens."""
    ordered = in_order(left_out)
    opens = {}
    for cause, group in groupby(ordered, lambda memory: memory.cause):
        opens[next(group).candidate.id] = HEADINGS[cause]

    def size(memory: LeftOut) -> int:
        return _tokens(opens.get(memory.candidate.id, ""), _line(memory))

    named = name_within(ordered, budget, size=size)
    spare = budget - sum(map(size, named))
    lines: list[str] = []
    for memory in named:
        with_reason = _line(memory, reason=True)
        spare -= _tokens(with_reason) - _tokens(_line(memory))
        heading = opens.get(memory.candidate.id)
        if heading:
            lines.append(heading)
        lines.append(with_reason if spare >= 0 else _line(memory))
    rest = len(ordered) - len(named)
    if rest:
        lines.append(
            f"{rest} {'more ' * bool(named)}passed or came near; `xscore explain` tells of each"
        )
    return lines


def _line(memory: LeftOut, *, reason: bool = False) -> str:
    candidate = memory.candidate
    lines = ""
    if candidate.start_line:
        lines = f":{candidate.start_line}-{candidate.end_line}"
    if candidate.path:
        place = f"{candidate.path}{lines} {candidate.entity}"
    else:
        place = memory.title or candidate.entity
    ids = ""
    if not candidate.path or memory.others:
        ids = " ".join(f"[{id_}]" for id_ in (candidate.id, *memory.others))
    size = ""
    if memory.tokens and memory.cause is LeftOutCause.NO_ROOM:
        size = f"about {memory.tokens:,} tokens"
    why = ""
    if reason:
        why = memory.reason[:REASON_CHARS]
    fields = [ids, place, score_text(memory.score, threshold=memory.threshold), size, why]
    return collapse_blanks(escape_tags(" ".join(filter(None, fields))))


def _tokens(*texts: str) -> int:
    return tokens.estimate(sum(tokens.size(text) + 1 for text in texts))


MOST_SIGNATURES = 10
"""Most methods of a class outline whose signatures are shown; with more, only their names are."""
AROUND = 2
"""Lines shown before and after a line that matters."""
SHORTEST_WORD = 4
_COMMON = frozenset(
    """
    about after also because before change code does each from have into line lines make
    more only should take than that their them then there these they this those what
    when where which while will with would
    """.split()
)
_REDACTED = compiled_late(r"<(?:SECRET|PII):\w+>")
_NAME_AT_END = compiled_late(r"(?<![\w$])[\w$]+\Z")


def without_stubs(text: str, signatures: Sequence[str]) -> str:
    """Remove the stubs of these members from a class as the indexer renders it, each once.

    A stub is the lines of the signature, the last followed only by a placeholder.
    """
    lines = text.split("\n")
    for signature in signatures:
        stub_lines = [line.strip() for line in signature.split("\n") if line.strip()]
        place = _place_of_stub(lines, stub_lines)
        if place is not None:
            del lines[place : place + len(stub_lines)]
    return "\n".join(lines)


def _place_of_stub(lines: Sequence[str], stub_lines: Sequence[str]) -> int | None:
    """Return where these lines first follow one another, below the head of the class."""
    if not stub_lines:
        return None
    *upper, last = stub_lines
    for place in range(1, len(lines) - len(upper)):
        *window, ending = map(str.strip, lines[place : place + len(stub_lines)])
        # After the signature comes only a placeholder: a word would be a body.
        has_body = any(map(str.isalnum, ending.removeprefix(last)))
        if window == upper and ending.startswith(last) and not has_body:
            return place
    return None


class _Stub(NamedTuple):
    """A method of an outline, decorators included: its first and last line, and its name."""

    start: int
    end: int
    name: str


def name_methods(outline: str) -> str:
    """Replace the signatures of an outline by one line of method names, if there are more than
    `MOST_SIGNATURES`."""
    lines = outline.split("\n")
    stubs: list[_Stub] = []
    for end, line in enumerate(lines):
        stub = _stub_ending_at(lines, end, line)
        if stub is not None:
            stubs.append(stub)
    if len(stubs) <= MOST_SIGNATURES:
        return outline
    gone = set[int]()
    for stub in stubs:
        gone.update(range(stub.start, stub.end + 1))
    first = stubs[0].start
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    mark = "#"
    if lines[stubs[0].end].rstrip().endswith("}"):
        mark = "//"
    names = ", ".join([stub.name for stub in stubs])
    named = f"{indent}{mark} {len(stubs)} methods, only named: {names}"
    kept = []
    for at, line in enumerate(lines):
        # In the place of the first stub, one line names them all.
        if at == first:
            kept.append(named)
        elif at not in gone:
            kept.append(line)
    return re.sub(r"\n[ \t]*\n(?:[ \t]*\n)+", "\n\n", "\n".join(kept))


def _stub_ending_at(lines: Sequence[str], end: int, line: str) -> _Stub | None:
    """Return the method stub that ends here."""
    if not line.rstrip().endswith((": ...", "{ ... }")):
        return None
    start = end
    # a signature over several lines: go up until its parentheses are balanced
    unopened = line.count(")") - line.count("(")
    while start > 0 and unopened > 0:
        start -= 1
        unopened += lines[start].count(")") - lines[start].count("(")
    name = _name_before_bracket("\n".join(lines[start : end + 1]))
    if not name:
        return None
    while start > 1 and lines[start - 1].lstrip().startswith("@"):
        start -= 1
    return _Stub(start, end, name)


def _name_before_bracket(signature: str) -> str:
    """Return the first name that a parenthesis follows, with or without type parameters between;
    empty if none."""
    for before in signature.split("(")[:-1]:
        head = before.rpartition(")")[2].rstrip()
        if head.endswith(">") and "<" in head:
            head = head.partition("<")[0].rstrip()
        name = _NAME_AT_END.search(head)
        if name is not None:
            return name[0]
    return ""


def telling_words(text: str) -> frozenset[str]:
    """Return the words of a task or a reason by which the lines that matter are found, in lower
    case."""
    words = set(map(str.lower, re.findall(r"[^\W\d_]+", text)))
    return frozenset(word for word in words - _COMMON if len(word) >= SHORTEST_WORD)


def show_in_part(text: str, words: Collection[str], *, first_line: int, limit: int) -> str:
    """Return the head and the lines with these words, at most about `limit` characters; empty if
    none has one.

    first_line: the number of the first line in its file, for the notes about gaps.
    """
    lines = text.split("\n")
    shown = _telling_lines(lines, words, limit)
    if len(shown) == 1:
        return ""
    parts: list[str] = []
    gap_from = 0
    # One place past the end, where the last gap is named.
    for place in sorted([*shown, len(lines)]):
        if place > gap_from:
            numbers = f"{first_line + gap_from}-{first_line + place - 1}"
            parts.append(f"[… lines {numbers} left out …]")
        parts += lines[place : place + 1]
        gap_from = place + 1
    return "\n".join(parts)


def _telling_lines(lines: Sequence[str], words: Collection[str], limit: int) -> set[int]:
    """Return the head and the places of the lines with the most of these words, and around them.

    limit: about how many characters they may have together.
    """
    worth: list[int] = []
    for line in lines:
        lowered = line.lower()
        worth.append(sum(word in lowered for word in words))
    shown = {0}
    size = len(lines[0])
    for place in sorted(range(1, len(lines)), key=lambda at: (-worth[at], at)):
        around = range(max(0, place - AROUND), min(len(lines), place + AROUND + 1))
        new = [at for at in around if at not in shown]
        new_chars = sum(len(lines[at]) + 1 for at in new)
        if not worth[place] or size + new_chars > limit:
            break
        shown.update(new)
        size += new_chars
    return shown


def redacted_lines(text: str, *, first_line: int) -> tuple[int, ...]:
    """Return the numbers of the lines in which something was redacted."""
    numbered = enumerate(text.split("\n"), first_line)
    return tuple(number for number, line in numbered if _REDACTED.search(line))
