"""Memories with their facts, details and views, and the edges between them."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Literal

from msgspec import Struct, field

from xscore.platform.patterns import compiled_late


class Layer(StrEnum):
    """Where a memory belongs: one of six layers."""

    SESSION = "session"
    PROJECT = "project"
    USER = "user"
    VECTOR = "vector"
    GRAPH = "graph"
    GOVERNANCE = "governance"

    @property
    def is_indexed(self) -> bool:
        """Whether it holds code and documents, which the index reads from files, and what was
        fetched; the others hold what was said."""
        return self in (Layer.GRAPH, Layer.VECTOR)


class Kind(StrEnum):
    """What sort of thing a memory describes."""

    FUNCTION = "function"
    METHOD = "method"
    CLASS = "class"
    TEST = "test"
    BLOCK = "block"
    """Module-level code outside every function and class."""
    DOC = "doc"
    CONFIG = "config"
    TEXT = "text"
    EXCHANGE = "exchange"
    DECISION = "decision"
    FAILURE = "failure"
    ARCHITECTURE = "architecture"
    PATTERN = "pattern"
    CONTEXT = "context"
    TODO = "todo"
    CONVENTION = "convention"
    TECH_STACK = "tech_stack"
    PREFERENCE = "preference"
    SUMMARY = "summary"
    """Summary of several memories, which belong to it and are shown when there is room."""
    COMMIT = "commit"
    """A commit of the repository whose message says something."""
    ENTITY = "entity"
    """Something with a name: a service, project, team or person, and where to find it."""
    ARTIFACT = "artifact"
    """A file that was made once and can be used again: an image, a snippet, generated code."""
    DOCUMENT = "document"
    """A passage of a document that `xscore fetch` read: a web page, a PDF."""


PROSE_KINDS = frozenset({Kind.DOC, Kind.DOCUMENT})
"""Passages of documents, of those in files here and of those that were fetched."""
TITLE_CITES = frozenset({Kind.COMMIT, Kind.DOCUMENT})
"""Kinds without a file whose title begins with how they are cited, before the first `: `."""
CODE_KINDS = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS, Kind.TEST, Kind.BLOCK})
PRODUCT_CODE_KINDS = CODE_KINDS - {Kind.TEST}
FACT_KINDS = frozenset(
    {
        Kind.DECISION,
        Kind.PREFERENCE,
        Kind.CONVENTION,
        Kind.TECH_STACK,
        Kind.ARCHITECTURE,
        Kind.CONTEXT,
        Kind.TODO,
        Kind.ENTITY,
        Kind.ARTIFACT,
    }
)
"""Kinds that are stated in a sentence or two; failures and patterns are errors and their fixes."""
MOST_FACT_TOKENS = 250
"""Longest stated fact; a longer statement is a document, and is judged as one."""


class MemoryScope(StrEnum):
    """How far a memory reaches."""

    GLOBAL = "global"
    SESSION = "session"
    WORKSPACE = "workspace"
    REPOSITORY = "repository"


class MemorySource(StrEnum):
    """Where a memory came from."""

    EXPLICIT = "explicit"
    INFERRED = "inferred"
    INDEX = "index"
    IMPORT = "import"


class MemoryStatus(StrEnum):
    """Whether a memory is still a candidate."""

    ACTIVE = "active"
    STALE = "stale"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"


class MemoryOrigin(StrEnum):
    """What a memory was made from. Only a file of the worktree has a path; the others have a
    place."""

    FILE = "file"
    """A file of this repository: `path` and lines say where."""
    COMMIT = "commit"
    EXCHANGE = "exchange"
    """A question with its answer, or a summary of several."""
    STATED = "stated"
    DOCUMENT = "document"
    """A document that was fetched: a web page, or a file that no index run reads."""
    PACKAGE = "package"


class ViewName(StrEnum):
    """A text by which a memory may be judged."""

    WHOLE = "whole"
    """The memory's full text, which every memory has."""
    CARD = "card"
    """A shorter text that says what the memory is for; tests and exchanges have one."""


TestView = Literal["cards", "full"]
"""How the judge is shown tests: as cards or in full."""
JUDGED_VIEWS: Mapping[TestView, tuple[ViewName, ...]] = {
    "cards": (ViewName.CARD, ViewName.WHOLE),
    "full": (ViewName.WHOLE,),
}
"""Which view a turn judges: the first of these that a memory has."""
DEFAULT_VIEWS = JUDGED_VIEWS["cards"]
"""Which view is judged unless a setting says otherwise."""


def judged_views(layer: Layer, tests: TestView) -> tuple[ViewName, ...]:
    """Return which view of this layer's memories a turn judges: the first that a memory has."""
    # Only tests are shown whole on demand; the card of an exchange is what it is judged by.
    return JUDGED_VIEWS[tests] if layer.is_indexed else DEFAULT_VIEWS


class Relation(StrEnum):
    """What one end of an edge does to the other."""

    CALLS = "calls"
    IMPORTS = "imports"
    TESTS = "tests"
    BELONGS_TO = "belongs_to"
    REFERENCES = "references"


WITHIN = " > "
"""Separator in an entity between a heading, or a suite of tests, and what is in it."""
BLOCK_NAME = "module:"
"""First part of the entity of a block of module-level code, whose name is made up:
`module:imports`, `module:after run`."""


class CodeFacts(Struct, frozen=True, kw_only=True):
    """What the parser extracted besides the text."""

    signature: str = ""
    docstring: str = ""
    imports: tuple[str, ...] = ()
    """Modules or names that the file imports and this memory uses."""
    dependencies: tuple[str, ...] = ()
    complexity: int = 0
    """1 + branches (cyclomatic); 0 if not applicable."""
    defines: tuple[str, ...] = ()
    """Values and one-line types that a block of module-level code defines."""


ReviewState = Literal["", "waiting", "unreviewed", "rejected"]
"""State of an extracted fact. `waiting`: no candidate until a person accepts it. `unreviewed`:
a candidate that no person has looked at. `rejected`: kept so that it does not come back."""


class MemoryDetails(Struct, frozen=True, kw_only=True):
    """What was stated about a memory besides its text; empty for indexed memories."""

    rationale: str = ""
    alternatives: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other names of its subject; each counts as its name does."""
    links: tuple[str, ...] = ()
    resolution: str = ""
    occurrences: int = 0
    polarity: str = ""
    """`pattern` or `antipattern`."""
    exception_of: str = ""
    """Id of the memory from which it is a deliberate exception in this repository."""
    imported_from: str = field(default="", name="origin")
    """Where it came from, e.g. `claude-code`, or `STATED_ELSEWHERE`; empty: stated here. In
    stores, files and `--json` its name is `origin`."""
    session: str = ""
    paths: tuple[str, ...] = ()
    author: str = ""
    """Who decided or said it, as git or `--by` names them; empty: unknown."""
    quote: str = ""
    """The words of a session that an extracted fact rests on."""
    quoted_in: str = ""
    """Id of the exchange that contains these words; the fact goes with it."""
    review: ReviewState = ""
    """How the user reviewed an extracted fact; empty: stated, or accepted."""
    extracted: int = 0
    """Version of the extraction that has read an exchange; 0 if none has."""


STATED_ELSEWHERE = "statement"
"""Origin of a memory that a person stated where it was exported."""
STACK_ORIGIN, OBSERVED_ORIGIN = "stack", "observed"
"""Origins of memories that files here show: manifests and imports; settings, scripts and
code."""
TEAM_ORIGIN = "team"
"""Origin of a memory that another member of the team shares."""
MEMBER_CHARS = 8
"""Number of digits by which a member of a team is named."""
_MEMBER_MARK = compiled_late(rf"@[0-9a-f]{{{MEMBER_CHARS}}}\Z")
NOTHING_STATED = MemoryDetails()
"""The details of a memory about which nothing is stated."""


def member_key(key: str, member: str) -> str:
    """Return the key under which a store keeps what a member of the team says about `key`: a key
    has one active memory, and each member may have another opinion."""
    if key:
        return f"{key}@{member[:MEMBER_CHARS]}"
    return ""


def key_of_all_members(key: str) -> str:
    """Return a key without the member that it may name."""
    return _MEMBER_MARK.sub("", key)


SHORT_HASH = 7
"""Number of digits by which a commit is named."""


def commit_name(place: str) -> str:
    """Return how the commit of a memory is cited: `commit 1a2b3c4`."""
    is_hash = len(place) in (40, 64) and set(place) <= set("0123456789abcdef")
    return f"commit {place[:SHORT_HASH] if is_hash else place}"


def tested_name(path: str) -> str:
    """Return the name of the file that a test of this path would test: `app` of
    `tests/test_app.py`."""
    stem = path.rpartition("/")[2].partition(".")[0]
    return stem.removeprefix("test_").removesuffix("_test").removesuffix("-test")


def labelled_details(details: MemoryDetails) -> dict[str, str]:
    """Return the details that a reader is shown after a memory's text, by their labels.

    A stated memory's text ends with them, and content hashes cover that text: another label makes
    another content, whose judgments must be paid again.
    """
    labelled = {
        "Also called": "; ".join(details.aliases),
        "Because": details.rationale,
        "Instead of": "; ".join(details.alternatives),
        "Fixed by": details.resolution,
    }
    return {label: words for label, words in labelled.items() if words}


class Citation(Struct, frozen=True):
    """A span of code that a memory rests on."""

    path: str
    start_line: int
    end_line: int
    span_hash: str
    is_changed: bool = False

    @property
    def place(self) -> str:
        """`path:3-9`; only the path where it cites the whole file."""
        if self.start_line:
            return f"{self.path}:{self.start_line}-{self.end_line}"
        return self.path


def view_texts(text: str, card: str) -> dict[ViewName, str]:
    """Return the text of each view of a memory, the full text first."""
    texts = {ViewName.WHOLE: text}
    if card and card != text:
        texts[ViewName.CARD] = card
    return texts


class View(Struct, frozen=True):
    """What identifies a memory as a judge sees it by one of its texts."""

    name: ViewName
    hash: str
    """`hashing.content_hash` of the text with its place, marked if the memory is stale."""
    tokens: int
    """Estimated tokens of the text."""


class Memory(Struct, frozen=True, kw_only=True):
    """A memory with all its fields, as the store keeps it."""

    id: str
    """Id that is stable over edits of the text (`hashing.memory_id`)."""
    layer: Layer
    kind: Kind
    title: str
    text: str
    """What the answering model is shown; secrets are already redacted."""
    card: str = ""
    """What the judge is shown instead of `text`, when that is shorter (tests); empty: the text
    itself."""
    views: tuple[View, ...] = ()
    """A view of each of its texts (`texts`); empty until it is named and hashed."""
    origin: MemoryOrigin = MemoryOrigin.FILE
    place: str = ""
    """Place in its origin: id of a commit, address or file of a document, name of a package.
    Empty for an indexed file, whose path says it, and for what has no place."""
    path: str = ""
    """Path of a file of this worktree: relative to the root, `/` between parts, percent-escaped
    where not UTF-8; empty: the memory comes from something other than a file."""
    entity: str = ""
    """Qualified name inside the file, e.g. `Store.write`, `Installation > Linux`, `[tool.ruff]`."""
    start_line: int = 0
    end_line: int = 0
    language: str = ""
    facts: CodeFacts = field(default_factory=CodeFacts)
    details: MemoryDetails = field(default_factory=MemoryDetails, name="particulars")
    """Further details. In stores, files and `--json` their name is `particulars`."""
    key: str = ""
    """Key of its subject; at most one memory is active for each (layer, scope, key) that is not
    empty."""
    scope: MemoryScope = MemoryScope.REPOSITORY
    importance: float = 0.5
    confidence: float = 1.0
    evidence_count: int = 1
    source: MemorySource = MemorySource.INDEX
    status: MemoryStatus = MemoryStatus.ACTIVE
    superseded_by: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    """Unix seconds; for an indexed memory, when its file was last modified."""
    accessed_at: float = 0.0
    access_count: int = 0

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a memory needs an id")
        if self.origin is MemoryOrigin.FILE:
            is_misplaced = bool(self.place)
        else:
            # The index reads commits as well, though they are not files.
            is_indexed = self.source is MemorySource.INDEX
            is_misplaced = bool(self.path) or (is_indexed and not self.is_commit)
        if is_misplaced:
            raise ValueError(
                f"{self.id}: only what is made from a file has a path, and only it has no place"
            )
        if not (0.0 <= self.importance <= 1.0 and 0.0 <= self.confidence <= 1.0):
            raise ValueError(f"importance and confidence of {self.id} lie in 0..1")

    @property
    def texts(self) -> dict[ViewName, str]:
        """The text of each view that it has."""
        return view_texts(self.text, self.card)

    def view(self, names: Iterable[ViewName] = DEFAULT_VIEWS) -> View:
        """Return the first of these views that it has. Raises ValueError."""
        views = {view.name: view for view in self.views}
        for name in names:
            if name in views:
                return views[name]
        raise ValueError(f"{self.id} has none of these views: {', '.join(names)}")

    @property
    def content_hash(self) -> str:
        """The hash of what the judge is shown by default."""
        return self.view().hash

    @property
    def text_hash(self) -> str:
        """The hash of the full text."""
        return self.view((ViewName.WHOLE,)).hash

    @property
    def is_commit(self) -> bool:
        """Whether it was made from a commit."""
        return self.origin is MemoryOrigin.COMMIT

    @property
    def is_shown_by_files(self) -> bool:
        """Whether files of the repository show it, and are looked at again when they change."""
        return self.details.imported_from in (STACK_ORIGIN, OBSERVED_ORIGIN)

    @property
    def is_from_team(self) -> bool:
        """Whether another member of the team shares it."""
        return self.details.imported_from == TEAM_ORIGIN

    @property
    def is_stated(self) -> bool:
        """Whether a person stated it, here or where it was exported."""
        if self.source is MemorySource.IMPORT:
            return self.details.imported_from in (STATED_ELSEWHERE, TEAM_ORIGIN)
        return self.source is MemorySource.EXPLICIT


class SpokenMemory(Struct, frozen=True):
    """What was said, as far as it tells whether it amends what was said before."""

    id: str
    kind: Kind
    place: str
    at: float
    """Unix seconds."""
    session: str
    """The chat whose exchange it is; empty if there is none."""
    text: str


class Edge(Struct, frozen=True):
    """A directed link between two memories or files (`m_…`, `f_…`)."""

    source: str
    target: str
    relation: Relation
    weight: float = 1.0
