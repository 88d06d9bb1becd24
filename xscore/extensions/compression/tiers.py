"""Push the turns of a session down three tiers until they fit a budget.

Current has 50 % of it, Topics 30 %, Bulks 20 %. Each step audits the tiers, takes the oldest turn
of the one that is most over its share, and writes it shorter: from Current to Topics, from Topics
to Bulks, in Bulks to what is kept word for word. The names and commands that the shorter text no
longer holds go into an index, so none is lost. Steps are bounded, since a turn has four levels and
never comes back up. Nothing here calls a model. Trade-off: turns leave in the order of their age,
however important an old one is.
"""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.compression.session_turns import AgentSession, SessionTurn, Speaker
from xscore.extensions.compression.turn_text import Level, Repeats, find_repeats, write_turn
from xscore.platform import tokens
from xscore.platform.text_names import names_in, names_of_all

GATE = Fraction(7, 10)
"""Share of a model's context from which on a session is to be compressed."""


class Tier(StrEnum):
    """Where a turn is."""

    CURRENT = "current"
    TOPICS = "topics"
    BULKS = "bulks"


SHARES = {
    Tier.CURRENT: Fraction(5, 10),
    Tier.TOPICS: Fraction(3, 10),
    Tier.BULKS: Fraction(2, 10),
}
"""Share of the budget for each tier."""


class TierPlan(Struct, frozen=True):
    """How many of the oldest turns were pushed how far."""

    kept_only: int = 0
    """How many of the oldest turns have lost all but what is kept word for word."""
    bulks: int = 0
    """How many are in Bulks, the ones before included."""
    topics: int = 0
    """How many are in Topics or Bulks."""

    def place(self, turn: int) -> tuple[Tier, Level]:
        """Return the tier and the level of a turn, by its place from 0."""
        if turn < self.kept_only:
            return Tier.BULKS, Level.KEPT_ONLY
        if turn < self.bulks:
            return Tier.BULKS, Level.FIRST_SENTENCE
        if turn < self.topics:
            return Tier.TOPICS, Level.TELLING
        return Tier.CURRENT, Level.WHOLE


class TieredSession(Struct, frozen=True, kw_only=True):
    """A session whose turns were written to fit."""

    texts: dict[Tier, tuple[str, ...]]
    """The turns of each tier, the oldest first."""
    commands: tuple[str, ...]
    """Commands that are in no text."""
    names: tuple[str, ...]
    """Paths and identifiers that are in no text."""
    plan: TierPlan
    tokens: int
    """Most tokens that the texts and the index take."""
    steps: int


def is_due(session_tokens: int, context_tokens: int) -> bool:
    """Whether a session has come to 70 % of its model's context."""
    return session_tokens >= GATE * context_tokens


def order_of_excess(by_tier: dict[Tier, int], budget: int) -> list[Tier]:
    """Return the tiers, beginning with the one most over its share."""
    return sorted(Tier, key=lambda tier: SHARES[tier] * budget - by_tier[tier])


NOTHING_PUSHED = TierPlan()


def push_down(
    session: AgentSession, budget: int, *, start: TierPlan = NOTHING_PUSHED, besides: int = 0
) -> TieredSession:
    """Shorten the oldest turns until the session fits, or nothing more can be shortened.

    budget: in tokens.
    start: how far an earlier compression came, for this session and budget.
    besides: tokens of what comes besides the turns.
    """
    tiers = _Tiers(session, start)
    steps = 0
    # Each step takes one turn one level down.
    most_steps = (len(Level) - 1) * len(session.turns)
    while tiers.total + besides > budget and steps < most_steps:
        by_tier = dict(tiers.tokens)
        by_tier[Tier.CURRENT] += besides
        if not any(tiers.push(tier) for tier in order_of_excess(by_tier, budget)):
            break
        steps += 1
    return tiers.result(steps)


class _Tiers:
    """The tiers while turns are pushed down."""

    def __init__(self, session: AgentSession, start: TierPlan) -> None:
        self._turns = session.turns
        self._repeats: Repeats = find_repeats(session)
        self._plan = start
        self._texts: list[str] = []
        self._held: list[frozenset[str]] = []
        """Names and commands in each turn's text."""
        self._commands = dict.fromkeys(_commands_of(session.turns))
        self._holders = Counter[str]()
        """Name or command -> how many texts hold it."""
        self._index: set[str] = set()
        self.tokens: dict[Tier, int] = dict.fromkeys(Tier, 0)
        self._items = [_items_of(turn) for turn in session.turns]
        for place, turn in enumerate(session.turns):
            tier, level = start.place(place)
            text = write_turn(turn, level, self._repeats)
            held = _held_in(text, turn, self._items[place], level)
            self._texts.append(text)
            self._held.append(held)
            self._holders.update(held)
            self.tokens[tier] += tokens.estimate(tokens.size(text))
        for items in self._items:
            for item in items:
                if not self._holders[item]:
                    self._add_to_index(item)

    @property
    def total(self) -> int:
        """Tokens of all tiers."""
        return sum(self.tokens.values())

    def push(self, tier: Tier) -> bool:
        """Push the oldest turn of a tier down; False if there is none."""
        plan = self._plan
        if tier is Tier.CURRENT and plan.topics < len(self._turns):
            self._plan = replace(plan, topics=plan.topics + 1)
            self._rewrite(plan.topics, tier)
        elif tier is Tier.TOPICS and plan.bulks < plan.topics:
            self._plan = replace(plan, bulks=plan.bulks + 1)
            self._rewrite(plan.bulks, tier)
        elif tier is Tier.BULKS and plan.kept_only < plan.bulks:
            self._plan = replace(plan, kept_only=plan.kept_only + 1)
            self._rewrite(plan.kept_only, tier)
        else:
            return False
        return True

    def _rewrite(self, place: int, before: Tier) -> None:
        """Write a turn as its new place says, and index what its text no longer holds."""
        tier, level = self._plan.place(place)
        text = write_turn(self._turns[place], level, self._repeats)
        held = _held_in(text, self._turns[place], self._items[place], level)
        self.tokens[before] -= tokens.estimate(tokens.size(self._texts[place]))
        self.tokens[tier] += tokens.estimate(tokens.size(text))
        for item in self._held[place] - held:
            self._holders[item] -= 1
            if not self._holders[item]:
                self._add_to_index(item)
        self._holders.update(held - self._held[place])
        self._texts[place] = text
        self._held[place] = held

    def _add_to_index(self, item: str) -> None:
        if item not in self._index:
            self._index.add(item)
            # With the separator of two entries.
            self.tokens[Tier.BULKS] += tokens.estimate(tokens.size(item) + 4)

    def result(self, steps: int) -> TieredSession:
        """Return the session as it is now."""
        texts: dict[Tier, list[str]] = {tier: [] for tier in Tier}
        for place, text in enumerate(self._texts):
            if text:
                texts[self._plan.place(place)[0]].append(text)
        commands = [command for command in self._commands if command in self._index]
        in_commands = names_of_all(commands)
        names: dict[str, None] = {}
        for items in self._items:
            for item in items:
                is_shown = item in in_commands or item in self._commands
                if item in self._index and not is_shown:
                    names[item] = None
        return TieredSession(
            texts={tier: tuple(written) for tier, written in texts.items()},
            commands=tuple(commands),
            names=tuple(names),
            plan=self._plan,
            tokens=self.total,
            steps=steps,
        )


def _commands_of(turns: Sequence[SessionTurn]) -> list[str]:
    commands: list[str] = []
    for turn in turns:
        commands += [call.subject for call in turn.calls if not call.tool]
    return commands


def _items_of(turn: SessionTurn) -> dict[str, None]:
    """Return the names and commands of a turn, which are kept word for word."""
    texts = [turn.words]
    items: dict[str, None] = {}
    for call in turn.calls:
        texts += [call.subject, call.path, *call.frame.errors]
        items.update(dict.fromkeys(call.names))
        if not call.tool:
            items[call.subject] = None
    items.update(names_of_all(texts))
    return items


def _held_in(
    text: str, turn: SessionTurn, items: dict[str, None], level: Level
) -> frozenset[str]:
    """Return the items that a turn's text holds."""
    if turn.speaker is Speaker.USER or level is Level.WHOLE:
        present = {item for item in items if item in text}
        return frozenset(present)
    named = names_in(text)
    held = {item for item in items if item in named}
    held |= {call.subject for call in turn.calls if f"$ {call.subject}" in text}
    return frozenset(held & items.keys())
