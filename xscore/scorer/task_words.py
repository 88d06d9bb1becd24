"""The words of a task with their weights: its first line counts most, and the repository's own name
says nothing. Pure.
"""

import re
from collections.abc import Sequence, Set

from xscore.records.candidates import Candidate
from xscore.records.memory import WITHIN
from xscore.records.turn import Turn
from xscore.scorer.bm25 import FIRST_LINE, WeighedTerm
from xscore.scorer.mentions import without_frames
from xscore.store.term_vectors import STOPWORDS, WORDS, query_terms, split_word

REST = 0.7
"""Weight of a word in the rest of the task, or in the error text without its frames."""
GENERIC_FOLDERS = frozenset(
    {"src", "lib", "packages", "crates", "apps", "pkg", "source", "python"}
)
"""Folders that hold a repository's package, and do not name it."""
MOST_TERMS = 400
"""Most terms read of one task; more of a pasted log adds nothing."""

_FRAME = re.compile(
    r"(\bhow\b[^.?!\n]*?)(?<!\bthe)\s+work(?:s|ed|ing)?"
    r"(?=\s*(?:[.?!,;:]|$)|\s+(?:when|if|in|inside|on|for|with|under)\b)",
    re.I | re.M,
)
"""Matches a frame such as `how does X work?`: the verb belongs to the question, not to what it
is about."""
_FLAG = re.compile(r"(?<![\w-])--\w+(?:-\w+)+")
"""Matches an option of several words: `--no-ignore` is `no_ignore` in code."""

_LETTERS = re.compile(r"[^\W\d_]+")
_UPKEEP = frozenset(WORDS["upkeep"].split())
_AROUND_UPKEEP = _UPKEEP | STOPWORDS | frozenset(WORDS["upkeep_around"].split())


def task_terms(turn: Turn, *, own_name: Set[int]) -> list[WeighedTerm]:
    """Return the task's terms by weight. own_name: hashes of the repository's own name."""
    task = _FRAME.sub(r"\1", without_upkeep(turn.task.strip()))
    task = _FLAG.sub(lambda flag: flag[0][2:].replace("-", "_"), task)
    first_line = task.partition("\n")[0]
    in_first_line = {term.hash for term in query_terms(first_line)}
    # Folders whose names the task says otherwise count as if it had said them.
    folders = "\n".join(value for _, value in turn.about if value.endswith("/"))
    everything = without_frames(f"{task}\n{folders}\n{turn.errors}")
    terms = query_terms(everything)[:MOST_TERMS]
    # Its own name is everywhere in a repository; a task of nothing else still has to find
    # something.
    telling = [term for term in terms if term.hash not in own_name]
    weighed: list[WeighedTerm] = []
    for term in telling or terms:
        weight = FIRST_LINE if term.hash in in_first_line else REST
        weighed.append(WeighedTerm(term, weight))
    return weighed


def without_upkeep(task: str) -> str:
    """Return a task without the further lines that only ask for what every change needs: `add
    tests`, `update the changelog`, `* lint`.

    Their words are strange to the code, so that a task of one line and three of these did not seem
    to be about anything here.
    """
    first_line, *further_lines = task.split("\n")
    if not further_lines or _AROUND_UPKEEP.issuperset(_words_of(first_line)):
        return task
    telling_lines = [line for line in further_lines if not _is_upkeep(line)]
    return "\n".join([first_line, *telling_lines])


def _is_upkeep(line: str) -> bool:
    words = _words_of(line)
    return not _UPKEEP.isdisjoint(words) and _AROUND_UPKEEP.issuperset(words)


def _words_of(line: str) -> list[str]:
    return _LETTERS.findall(line.lower())


def own_name_of(candidates: Sequence[Candidate]) -> Set[int]:
    """Return the terms of the repository's own name.

    It is the README's title where that is one word, or the word of it that names a package's
    folder.
    """
    paths = {candidate.path for candidate in candidates}  # of many memories few are different
    readmes = {path for path in paths if path[:6].upper() == "README"}
    if not readmes:
        return frozenset()
    titles: set[str] = set()
    for candidate in candidates:
        if candidate.path in readmes:
            titles.add(candidate.entity.partition(WITHIN)[0])
    folders = set[str]()
    for path in paths:
        folder, _, rest = path.partition("/")
        if folder in GENERIC_FOLDERS:
            folder = rest.partition("/")[0]
        folders.add(folder.lower())
    hashes = set[int]()
    for title in titles:
        words = re.findall(r"\w+", title)
        if len(words) > 1:
            words = [word for word in words if word.lower() in folders]
        for word in words:
            hashes.update(term for _, term in split_word(word))
    return hashes
