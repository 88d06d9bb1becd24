"""The layers that people and programs speak to: the project's facts, the user's preferences, the decisions.

`store.project`, `store.user` and `store.governance` are these; each says in its own words what `remembering` does with
all of them. No rows are read or written here but through it. Trade-off: three small classes in one file, since what
they do alike is more than what sets them apart.
"""

from collections.abc import Iterable

from xscore import database
from xscore.memory.databases import Databases
from xscore.memory.lookup import Choice, chosen
from xscore.memory.preferences import weighed
from xscore.memory.remembering import remember
from xscore.records import Citation, Kind, Layer, Memory, Remembered, Source, Statement


class ProjectLayer:
    """What holds in this repository: facts, conventions, patterns, todos; and the decisions that made it so."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    def remember(
        self,
        text: str,
        *,
        kind: Kind = Kind.CONTEXT,
        title: str = "",
        key: str = "",
        because: str = "",
        alternatives: Iterable[str] = (),
        links: Iterable[str] = (),
        citations: Iterable[Citation] = (),
        importance: float | None = None,
        confidence: float | None = None,
        source: Source = Source.EXPLICIT,
        now: float | None = None,
    ) -> Remembered:
        """Keep a fact of this project; a decision goes to the governance layer, and is a fact of the project too.

        key: what it is about; it takes the place of the active fact with the same key. importance: 0..1; None: as its
        kind weighs. confidence: 0..1; None: 1 for what is said, `memory.inferred_confidence` for what is inferred.
        now: Unix seconds. Raises UsageError.
        """
        statement = Statement(
            text=text,
            kind=kind,
            layer=Layer.GOVERNANCE if kind is Kind.DECISION else Layer.PROJECT,
            title=title,
            key=key,
            because=because,
            alternatives=tuple(alternatives),
            links=tuple(links),
            importance=importance,
            confidence=starting_confidence(self._databases, source) if confidence is None else confidence,
            source=source,
        )
        return remember(self._databases, statement, citations=citations, now=now)

    def remember_decision(
        self,
        text: str,
        *,
        because: str = "",
        alternatives: Iterable[str] = (),
        title: str = "",
        key: str = "",
        links: Iterable[str] = (),
        citations: Iterable[Citation] = (),
        importance: float | None = None,
        confidence: float | None = None,
        source: Source = Source.EXPLICIT,
        now: float | None = None,
    ) -> Remembered:
        """Keep a decision with its reason and what was not taken; the views `decisions` and `project_facts` show it."""
        return self.remember(
            text,
            kind=Kind.DECISION,
            title=title,
            key=key,
            because=because,
            alternatives=alternatives,
            links=links,
            citations=citations,
            importance=importance,
            confidence=confidence,
            source=source,
            now=now,
        )

    def facts(self, *kinds: Kind) -> list[Memory]:
        """Return the live memories of the project layer of these kinds, or of all, newest first."""
        return chosen(self._databases, Choice(layers=(Layer.PROJECT,), kinds=kinds))

    def patterns(self) -> list[Memory]:
        """Return what is done, and what is not to be done, again and again."""
        return self.facts(Kind.PATTERN)

    def tech_stack(self) -> list[Memory]:
        """Return what this project is built with."""
        return self.facts(Kind.TECH_STACK)

    def conventions(self) -> list[Memory]:
        """Return how things are done here."""
        return self.facts(Kind.CONVENTION)

    def todos(self) -> list[Memory]:
        """Return what is left to be done."""
        return self.facts(Kind.TODO)


class GovernanceLayer:
    """The decisions."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    def decisions(self, *, superseded: bool = False) -> list[Memory]:
        """Return the decisions in force, newest first; superseded: with those that others took the place of."""
        statuses = () if superseded else Choice().statuses
        found = chosen(self._databases, Choice(kinds=(Kind.DECISION,), statuses=statuses))
        return sorted(found, key=lambda memory: (-memory.created_at, memory.id))


class UserLayer:
    """What is yours in every repository: preferences, by key. Kept in your own store and nowhere else."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    def update_preference(
        self,
        key: str,
        value: str,
        *,
        delta_evidence: int = 1,
        source: Source = Source.INFERRED,
        now: float | None = None,
    ) -> Remembered:
        """Keep a preference, or weigh what speaks for or against the one that is there. See `preferences.weighed`.

        delta_evidence: how many observations speak for it; negative: against it. now: Unix seconds.
        Raises UsageError where `memory.user_learning` is off, and for evidence of zero.
        """
        connection = self._databases.home_of(Layer.USER)
        with database.transaction(connection):
            return weighed(
                connection,
                key,
                value,
                delta_evidence=delta_evidence,
                source=source,
                now=self._databases.moment(now),
                settings=self._databases.settings,
            )

    def preferences(self) -> list[Memory]:
        """Return the preferences in force, by key. Raises UsageError where `memory.user_learning` is off."""
        return sorted(self._live(Kind.PREFERENCE), key=lambda memory: memory.key)

    def patterns(self) -> list[Memory]:
        """Return what you do again and again, in all your projects."""
        return self._live(Kind.PATTERN)

    def _live(self, kind: Kind) -> list[Memory]:
        if self._databases.user_data_dir is None:
            self._databases.home_of(Layer.USER)
        return chosen(self._databases, Choice(layers=(Layer.USER,), kinds=(kind,)))


def starting_confidence(databases: Databases, source: Source) -> float:
    """Return the confidence with which a memory of this source begins."""
    return databases.settings.inferred_confidence if source is Source.INFERRED else 1.0
