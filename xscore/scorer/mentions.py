"""What a task names outright: entities, files, and the frames of a stack trace. Pure.

A name counts as code when it is written as code (`Store.write`, `parse_args`, `HTTPError`, `run()`,
or in backticks), a path when it ends in a file's name with an extension. It does not weigh words;
`scorer.bm25` does. Trade-off: a name that many memories bear says little, so its strength falls
with their number; of a plain word such as `run` nothing is made unless backticks or a bracket mark
it. A name that no memory bears points weakly at the nearest ones.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile

from msgspec import Struct, field

from xscore.platform.near_names import nearest_names
from xscore.platform.patterns import compiled_late
from xscore.records.candidates import Candidate
from xscore.records.memory import BLOCK_NAME, Kind

QUALIFIED = 0.9
"""Strength of `Store.write` for the one memory so called."""
BARE = 0.5
"""Strength of `parse_args` for the one memory so called."""
IN_FILE = 0.75
"""Strength of a named file for each of its memories."""
FRAME = 0.85
"""Strength of a stack frame for the memory it points into; frames further from the error have
less."""
NEXT_FRAME = 0.9
"""Share of its strength that each frame passes to the one before it."""
NEAR = 0.5
"""Strength of a misspelt name (`parse_arg`) for the one memory that bears the nearest
(`parse_args`)."""
NEAR_LIKENESS = 0.8
"""Share of letters in common, from 0 to 1, from which on a name counts as misspelt."""
NEAR_LETTERS = 4
"""Shortest name that counts as misspelt: many words are near a shorter one."""
MOST_MISSPELT = 5
"""Most names of a task whose nearest name is looked up: each is compared with every name of the
repository."""
MOST_BEARERS = 12
"""Most memories that bear a name which points at them."""

_PATH = r"[\w@.+-]*(?:[\\/][\w@.+-]+)*\.[A-Za-z]\w{0,9}"
_PYTHON_FRAME = compiled_late(r'File "([^"\n]+)", line (\d+)(?:, in ([\w.<>]+))?')
_SCRIPT_FRAME = compiled_late(
    rf"^[ \t]*at (?:(?:async |new )?([\w$.<>\[\] ]+?) \()?(?:file://)?({_PATH}):(\d+)(?::\d+)?\)?",
    re.M,
)
_PLAIN_FRAME = compiled_late(
    rf"(?<![\w/\\.@+-])(/?{_PATH})(?::(?:line )?|(?<=\.php|\.cpp|\.hpp|\.tsx)\((?=[\d,]+\))"
    rf"|(?<=\.cs|\.vb|\.cc|\.ts)\((?=[\d,]+\))|,? (?:on )?line )(\d+)\b"
)
"""Matches `a.go:12`, `a.cs:line 12`, `a.php(12)`, `a.ts(12,5)`, `a.php on line 12`, `main.tf
line 12`."""
_FILE = compiled_late(rf"(?<![\w/\\.@+-])(/?{_PATH})(?![\w/\\(])")
_CODE_NAME = compiled_late(
    r"`([^\W\d][\w.:]*)(?:\(\))?`"
    r"|(?<![\w.`])([^\W\d]\w*(?:(?:\.|::)[^\W\d]\w*)+)"
    r"|(?<![\w.`])([^\W\d]\w*)(?=\(\))"
    r"|(?<![\w.`])((?:[a-z0-9]+_\w+|[A-Z0-9]+_[A-Z]\w*|_+[a-z]\w*"
    r"|[a-z]+[A-Z]\w*|[A-Z]+[a-z0-9]+[A-Z]\w*)\b)"
)


_SUFFIXES = """
    py pyi pyx ipynb js mjs cjs jsx ts mts cts tsx go rs java kt kts groovy gradle scala sc sbt clj
    c h cc cxx cpp hh hpp hxx inl cu mm cs csproj rb rake gemspec podspec php phtml swift lua ex exs
    heex erl hs ml pl pm jl dart zig sh bash zsh fish ps1 sql tf tfvars hcl cmake mk
    html htm css scss sass less vue svelte ejs
    md mdx rst adoc txt toml yaml yml json xml ini cfg conf lock properties proto graphql
"""
_EXTENSIONS = frozenset(_SUFFIXES.split())


_TASK_NAMES = "task names"


class StackFrame(Struct, frozen=True):
    """A place that a stack trace passes through."""

    path: str
    line: int
    function: str
    strength: float


class Mentions(Struct, frozen=True):
    """Everything that a turn names outright."""

    names: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    frames: tuple[StackFrame, ...] = ()


class NamedInTask(Struct):
    """How strongly one memory is named, and in which words."""

    strength: float = 0.0
    words: list[str] = field(default_factory=list)

    @property
    def in_task(self) -> bool:
        """Whether the task itself names it, not only a stack trace."""
        return any(mention.startswith(_TASK_NAMES) for mention in self.words)

    def add(self, strength: float, words: str) -> None:
        """Count one more mention; the strongest decides."""
        self.strength = max(self.strength, strength)
        if words not in self.words:
            self.words.append(words)


def find_mentions(task: str, errors: str = "") -> Mentions:
    """Read what the task names, and where the error text (or a trace pasted into the task) passes
    through."""
    frames = tuple(_frames(f"{task}\n{errors}"))
    rest = without_frames(task)
    # Each once, in the order of the task.
    files: dict[str, None] = {}
    for path in _FILE.findall(rest):
        if _is_file(path):
            files[_slashes(path)] = None
    names: dict[str, None] = {}
    for groups in _CODE_NAME.findall(rest):
        name = next(filter(None, groups))
        names[name.replace("::", ".")] = None
    return Mentions(tuple(names), tuple(files), frames)


_ASKS = r"(?:where|how|which|what|why|who|when)"
_QUESTION = compiled_late(
    rf"\A\s*(?:{_ASKS}|is|are|does|do(?!\s+not)|did|can|has)\b"
    r"|\A[^\n]*\?(?=\s|$)"
    r"|\A[^\n]*\b(?:find|see|show|tell|know|learn|explain|understand)"
    r"(?:\s+(?:me|us|out|to|please)){0,2}"
    rf"\s+(?:{_ASKS}|the\s+(?:place|code|function)s?)\b",
    re.I,
)
"""Matches a first line that begins as a question, has a question mark, or asks in passing: `…,
so find where it is written`."""
SEARCH_WORDS = 5
"""Most words of a task of one line that is a search, as one types it: `shell history
search`."""


def is_question(task: str) -> bool:
    """Return whether a task asks or searches: it may be about something that does not exist.

    An instruction names what its author has seen.
    """
    lines = task.strip().splitlines()
    is_search = len(lines) == 1 and len(task.split()) <= SEARCH_WORDS
    return is_search or _QUESTION.search(task) is not None


def without_frames(text: str) -> str:
    """Return the text without its stack frames, whose paths and names would drown the words of the
    error."""
    if not _may_have_frames(text):
        return text
    for frame in (_PYTHON_FRAME, _SCRIPT_FRAME, _PLAIN_FRAME):
        text = frame.sub(" ", text)
    return text


def find_named(
    mentions: Mentions,
    candidates: Sequence[Candidate],
    *,
    defining: Mapping[str, Sequence[Candidate]] = {},
) -> Mapping[str, NamedInTask]:
    """Return the candidates that are named, by id.

    defining: the blocks that define a value of each name.
    """
    # Most tasks name nothing: then the pool is not walked.
    matches: list[Iterable[tuple[Candidate, float, str]]] = []
    if mentions.names:
        matches.append(_by_name(mentions.names, candidates, defining))
    if mentions.files or mentions.frames:
        matches.append(_by_place(mentions, candidates))
    named: dict[str, NamedInTask] = {}
    for candidate, strength, words in chain.from_iterable(matches):
        named.setdefault(candidate.id, NamedInTask()).add(strength, words)
    return named


def _by_name(
    names: Iterable[str],
    candidates: Sequence[Candidate],
    defining: Mapping[str, Sequence[Candidate]],
) -> Iterator[tuple[Candidate, float, str]]:
    bearers_of: dict[str, list[Candidate]] = {}
    for name in names:
        last = name.rpartition(".")[2]
        bearers_of[last] = list(defining.get(last, ()))
    for candidate in candidates:
        last = _last_name(candidate)
        if last in bearers_of:
            bearers_of[last].append(candidate)
    unknown = [last for last, bearers in bearers_of.items() if not bearers]
    if unknown:
        yield from _by_near_name(unknown, candidates)
    for name in names:
        bearers = bearers_of[name.rpartition(".")[2]]
        strength = BARE
        if "." in name:
            # A qualified name points at nothing where only its last part is known.
            bearers = [bearer for bearer in bearers if _is_called(bearer, name)]
            strength = QUALIFIED
        if len(bearers) <= MOST_BEARERS:
            for bearer in bearers:
                yield bearer, strength / len(bearers) ** 0.25, f"{_TASK_NAMES} `{name}`"


def _by_near_name(
    unknown: Sequence[str], candidates: Sequence[Candidate]
) -> Iterator[tuple[Candidate, float, str]]:
    bearers: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        # The name of a window of text is just how it begins.
        if candidate.kind is not Kind.TEXT:
            bearers.setdefault(_last_name(candidate), []).append(candidate)
    bearers.pop("", None)
    long_enough = [name for name in unknown if len(name) >= NEAR_LETTERS]
    if not long_enough:
        return
    for name in long_enough[:MOST_MISSPELT]:
        for near in nearest_names(name, bearers, limit=1, likeness=NEAR_LIKENESS):
            if len(bearers[near]) > MOST_BEARERS:
                continue
            strength = NEAR / len(bearers[near]) ** 0.25
            words = f"{_TASK_NAMES} `{name}`, near `{near}`"
            for bearer in bearers[near]:
                yield bearer, strength, words


def _by_place(
    mentions: Mentions, candidates: Sequence[Candidate]
) -> Iterator[tuple[Candidate, float, str]]:
    by_path: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_path.setdefault(candidate.path, []).append(candidate)
    for path, inside in by_path.items():
        for file in mentions.files:
            if f"/{path}".endswith("/" + file.removeprefix("./")):
                for candidate in inside:
                    yield candidate, IN_FILE, f"{_TASK_NAMES} {file}"
    for frame in mentions.frames:
        yield from _in_frame(frame, by_path)


def _in_frame(
    frame: StackFrame, by_path: Mapping[str, Sequence[Candidate]]
) -> Iterator[tuple[Candidate, float, str]]:
    path = max(by_path, key=lambda path: _shared(path, frame.path), default="")
    if not path or _shared(path, frame.path) < min(2, path.count("/") + 1):
        return
    for inside in by_path[path]:
        spans = inside.start_line <= frame.line <= inside.end_line
        if spans or (frame.function and _last_name(inside) == frame.function):
            yield inside, frame.strength, f"error passes {path}:{frame.line}"


def traced_line(mentions: Mentions, path: str, first: int, last: int) -> int | None:
    """Return the line of the innermost frame that points between these lines of a file; None if
    none does."""
    enough = min(2, path.count("/") + 1)
    for frame in mentions.frames:
        if first <= frame.line <= last and _shared(path, frame.path) >= enough:
            return frame.line
    return None


def _may_have_frames(text: str) -> bool:
    """Whether a stack trace may be in a text: each of its frames has the number of a line."""
    return any(map(str.isdigit, text))


def _frames(text: str) -> Iterator[StackFrame]:
    if not _may_have_frames(text):
        return
    places: list[tuple[str, str, str | None]] = []
    for match in _PYTHON_FRAME.finditer(text):
        path, line, function = match.groups()
        places.append((path, line, function))
    # Python's innermost frame comes last, the others' first.
    places.reverse()
    for match in _SCRIPT_FRAME.finditer(text):
        function, path, line = match.groups()
        places.append((path, line, function))
    plain = _SCRIPT_FRAME.sub(" ", _PYTHON_FRAME.sub(" ", text))
    for match in _PLAIN_FRAME.finditer(plain):
        path, line = match.groups()
        places.append((path, line, None))
    for depth, (path, line, function) in enumerate(places):
        last_name = (function or "").strip().rpartition(".")[2]
        if last_name.startswith("<"):
            # `<module>` and `<lambda>` are not names.
            last_name = ""
        yield StackFrame(_slashes(path), int(line), last_name, FRAME * NEXT_FRAME**depth)


def _shared(path: str, other_path: str) -> int:
    """Return how many trailing parts two paths have in common."""
    pairs = zip(reversed(path.split("/")), reversed(other_path.split("/")), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _last_name(candidate: Candidate) -> str:
    """Return the last part of its name; empty for a block of module-level code, whose name is made
    up."""
    if candidate.entity.startswith(BLOCK_NAME):
        return ""
    return candidate.entity.rpartition(".")[2]


def _is_called(candidate: Candidate, name: str) -> bool:
    """Whether this dotted name is the ending of its full one.

    Its full name begins with its module, so that both `cache.writer.flush` and `Writer.flush` are
    its ending.
    """
    entity = candidate.entity
    if not _last_name(candidate):
        # A block is called by the value that it defines, as the task writes it.
        entity = name.rpartition(".")[2]
    module = candidate.path.rpartition(".")[0].replace("/", ".")
    return f".{module}.{entity}".endswith(f".{name}")


def _slashes(path: str) -> str:
    return path.replace("\\", "/")


def _is_file(path: str) -> bool:
    """Whether this is meant as a file: `cache/writer.py` and `writer.py`, not `Store.write`."""
    extension = path.rpartition(".")[2].lower()
    return "/" in path or "\\" in path or extension in _EXTENSIONS
