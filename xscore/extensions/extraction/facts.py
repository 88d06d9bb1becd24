"""The six kinds of facts that a session may leave behind, each with the quote that it rests on.

The schemas are strict: another field, a longer text or another type makes a fact unreadable, and it
is dropped. Trade-off: a fact is one sentence; what needs a page belongs in a file.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from xscore.records.memory import Kind

MOST_FACTS = 10
"""Most facts of one session end, for the model and for the rules each."""
TEXT_CHARS = 400
Line = Annotated[str, Meta(min_length=8, max_length=TEXT_CHARS)]
Quote = Annotated[str, Meta(min_length=8, max_length=600)]
Reason = Annotated[str, Meta(max_length=TEXT_CHARS)]
Topic = Annotated[str, Meta(max_length=60, pattern=r"^[a-z0-9_.-]*\Z")]
File = Annotated[str, Meta(min_length=1, max_length=300)]
Files = Annotated[tuple[File, ...], Meta(max_length=10)]


class _Fact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What every fact has."""

    text: Line
    """One sentence that can be understood alone."""
    quote: Quote
    """The words that the fact rests on, exactly as they were said."""
    files: Files = ()
    """Paths, with or without lines (`src/a.py:10-20`)."""
    topic: Topic = ""
    """What the fact is about, in a word: a later fact of the same topic supersedes it."""


class Decision(_Fact, frozen=True, kw_only=True, tag="decision"):
    """What was decided, and why."""

    because: Reason = ""


class Failure(_Fact, frozen=True, kw_only=True, tag="failure"):
    """What failed, its cause and what fixed it."""

    because: Reason = ""
    fix: Reason = ""


class Preference(_Fact, frozen=True, kw_only=True, tag="preference"):
    """How the user likes things done."""


class Convention(_Fact, frozen=True, kw_only=True, tag="convention"):
    """How things are done in this repository."""

    because: Reason = ""


class TechFact(_Fact, frozen=True, kw_only=True, tag="tech_fact"):
    """What holds here and code does not say: a host, a version, a command that works."""


class Todo(_Fact, frozen=True, kw_only=True, tag="todo"):
    """What is left to do."""


Fact = Decision | Failure | Preference | Convention | TechFact | Todo
KIND_OF_FACT: dict[type[Fact], Kind] = {
    Decision: Kind.DECISION,
    Failure: Kind.FAILURE,
    Preference: Kind.PREFERENCE,
    Convention: Kind.CONVENTION,
    TechFact: Kind.TECH_STACK,
    Todo: Kind.TODO,
}
Speaker = Literal["user", "agent"]


class SaidFact(Struct, frozen=True, kw_only=True):
    """A fact and where it was said."""

    fact: Fact
    by: Speaker
    exchange: str
    """Id of the exchange."""
    at: float
    """Unix seconds of the exchange."""
    extractor: str = ""
    """The model that found the fact; empty: a rule."""

    @property
    def kind(self) -> Kind:
        """The kind of memory that it becomes."""
        return KIND_OF_FACT[type(self.fact)]
