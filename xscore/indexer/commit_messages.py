"""What a commit says: its message without what machines add, and whether that is worth a memory.

Merges, version bumps, formatting, messages of bots and messages of two words say nothing that a
later task could rest on. They are left out by reason, and counted. A merge or a squash that carries
the text of its pull request is read like any other commit. Trade-off: the rules are words, so a
bump that explains itself in its subject alone is left out.
"""

import re

from msgspec import Struct

from xscore.platform.git_log import LoggedCommit
from xscore.platform.text import without_invisible
from xscore.store.term_vectors import STOPWORDS

FEWEST_WORDS = 3
"""Fewest distinct words of a message, not counting those of `_SAYS_LITTLE` and stop words."""
FULL_BODY_WORDS = 12
"""Number of distinct words from which on a body says something, whatever the subject is
about."""
MOST_SUBJECT_CHARS = 300
"""How many characters of a subject are searched for what it is about."""
MOST_LINES = 400
"""Most lines of a message; further ones are left out."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_MERGE = re.compile(
    r"(?i)^(?:merge (?:pull request|branch|branches|remote-tracking|remote|tag|commit|pr)\b"
    r"|merged? (?:in )?[\w./#-]+(?: \([^)]*\))?(?: into [\w./-]+)?$|merge$|merged in \S+)"
)
_TRAILER = re.compile(
    r"(?i)^(?:signed-off-by|co-authored-by|reviewed-by|acked-by|tested-by|reported-by|cc|change-id"
    r"|git-svn-id|reviewed-on|approved-by|committed-by|pull-request|differential revision)\s*:"
)
_BOT = re.compile(r"(?i)\[bot\]|\b(?:dependabot|renovate|greenkeeper|pre-commit-ci|weblate)\b")
_VERSION = re.compile(
    r"(?ix)^[^\w(]*+(?:chore|build|deps|ci)?(?:\([\w./@\ -]*\))?!?:?\s*+"
    r"(?:(?:bump|upgrade|update|pin)s?\s.{0,80}"
    r"\b(?:from\ .{1,80}\ to\ |to\ v?\d|dependenc|deps\b|lock)"
    r"|(?:bump(?:ed|ing)?|releas(?:e|ed|ing)|prepare|prep|cut|publish|tag|start|begin|set|new|mark)?"
    r"\ ?(?:the\ |for\ |new\ |next\ |a\ )*"
    r"(?:(?:releas(?:e|ed|ing)|versions?|dev(?:elopment)?)\b[\ :/]?)*"
    r"(?:v?\d+(?:\.\d+)+[\w.+-]*+|version|releas(?:e|ing))"
    r"(?:\ (?:release|changelog|version))*\W*+$)"
)
_FORMAT = re.compile(
    r"(?ix)\b(?:re-?format(?:s|ted|ting)?|formatting|whitespace|white\ space|prettier|isort|black"
    r"|ruff(?:\ format)?|gofmt|rustfmt|clang-format|lint(?:s|ed|er|ing)?|eslint|flake8|pep-?8"
    r"|typos?|spelling|indentation|trailing\ spaces?|code\ style|style\ fix(?:es)?)\b"
    r"|^style(?:\(.*\))?:"
)
_GENERATED = re.compile(
    r"(?i)\b(?:auto-?generated|regenerate[ds]?|\[pre-commit\.ci\]|pre-commit autoupdate"
    r"|update(?:d)? (?:contributors|translations?|snapshots?|lock ?files?|sponsors|badges?)"
    r"|sync(?:hroni[sz]e)? translations?|build dist|dist files)\b"
)
_SAYS_LITTLE = frozenset(
    """
    fix fixes fixed fixup add adds added update updates updated remove removes removed change
    changes changed small minor more some misc various cleanup clean improve improved tweak tweaks
    work wip test tests testing code file files docs doc documentation readme changelog comment
    comments
    initial commit first bug issue issues feature review feedback ci build chore refactor feat use
    make better new stuff thing things closes close refs ref see pr pull request revert reverts
    squash again typo
    """.split()
)
_REFERENCE = re.compile(r" ?\(#\d+\)")
"""Matches the number of a pull request at the end of a subject."""
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W\d_][\w'-]+")
_GENERIC_SUBJECT_WORDS = 8
"""Most words of a subject that is about formatting only."""


class CommitMessage(Struct, frozen=True):
    """What a commit says."""

    subject: str
    body: str

    @property
    def text(self) -> str:
        """Subject and body."""
        return f"{self.subject}\n\n{self.body}".strip()


def read_message(message: str, *, is_merge: bool) -> CommitMessage:
    """Return a message without trailers, control and invisible characters.

    is_merge: the line that git or a forge writes for a merge is left out too.
    """
    clean = _CONTROLS.sub("", without_invisible(message.replace("\r\n", "\n")))
    lines: list[str] = []
    for line in clean.split("\n")[:MOST_LINES]:
        if not _TRAILER.match(line) and line.strip("- \t"):
            lines.append(line.rstrip())
        elif lines and lines[-1]:
            lines.append("")
    while lines and (not lines[0].strip() or (is_merge and _MERGE.match(lines[0]))):
        del lines[0]
    if not lines:
        return CommitMessage("", "")
    return CommitMessage(lines[0].strip(), "\n".join(lines[1:]).strip())


def commit_subject(message: str) -> str:
    """Return the first line of a message without the number of a pull request, to compare it."""
    first_line = message.lstrip().partition("\n")[0]
    return _REFERENCE.sub("", first_line).strip().casefold()


def why_left_out(commit: LoggedCommit, message: CommitMessage) -> str:
    """Return why a commit is not a memory: `merge`, `generated`, `version`, `format`, `short`;
    empty if it says something."""
    if _BOT.search(commit.author) or _BOT.search(commit.email):
        return "generated"
    # A hostile one has no end.
    subject = message.subject[:MOST_SUBJECT_CHARS]
    about = _about_little(subject)
    # A body that says enough counts, whatever the subject is about.
    if about and len(telling_words(message.body)) < FULL_BODY_WORDS:
        return about
    if len(telling_words(message.text)) >= FEWEST_WORDS:
        return ""
    is_merge = commit.parents > 1 or bool(_MERGE.match(commit.message))
    return "merge" if is_merge else "short"


def _about_little(subject: str) -> str:
    """Return the reason why a subject alone says nothing; empty if it may."""
    if _GENERATED.search(subject):
        return "generated"
    if _VERSION.match(_REFERENCE.sub("", subject)):
        return "version"
    is_format = bool(_FORMAT.search(subject))
    if is_format and len(telling_words(subject)) <= _GENERIC_SUBJECT_WORDS:
        return "format"
    return ""


def telling_words(text: str) -> set[str]:
    """Return the distinct words of a text that say something of their own, in lower case."""
    words = {word.lower() for word in _WORD.findall(text)}
    words -= _SAYS_LITTLE | STOPWORDS
    # Scripts without spaces between words: each character says about as much as half a word.
    return words | set(_UNSPACED.findall(text))
