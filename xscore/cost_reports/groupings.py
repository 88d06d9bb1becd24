"""The groupings of a report: each entry of `GROUPINGS` is one `report --by NAME`.

An entry says which group a call belongs to, and which one a turn and its candidates count for; the
table of calls, the sums, the command line and all forms of a report go through the entries. It adds
nothing up. Trade-off: every grouping is a column of the table of calls, whichever is asked for.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto

from msgspec import Struct

from xscore.cost_reports.records import Group, LedgerTurn
from xscore.platform.clock import day_of
from xscore.providers.decision_hosts import DECISION_HOSTS
from xscore.records.calls import Stage
from xscore.records.receipt import NOTHING_JUDGED

_WIRES = {name: host.wire.value for name, host in DECISION_HOSTS.items()}
_CHAT = "chat"
"""The wire of every provider that is not in `_WIRES`."""


class Candidates(Enum):
    """Which groups of a grouping have candidates."""

    ALL = auto()
    IF_JUDGED = auto()
    """Only groups for which something was judged: a model that only answers judges nothing."""
    NONE = auto()
    """No group: each is a part of a turn, which has its candidates as a whole."""


class Order(Enum):
    """Which groups come first."""

    COST = auto()
    """The most expensive group first."""
    LAST_NAME = auto()
    """The group that is last in the order of names first: the newest day."""
    TIME = auto()
    """The group of the newest turn first."""


class Grouping(Struct, frozen=True, kw_only=True):
    """One way to group calls and turns."""

    name: str
    """The name that `--by` takes; also the column in CSV and Parquet."""
    of_turn: Callable[[LedgerTurn], str | None]
    """Returns the group that a turn and its candidates count for, or None."""
    of_call: str = ""
    """The group of a call, in SQL over the columns `turn, stage, provider, model, at, judge`
    (`call_table`); `at` is the beginning of its turn, or the first call where no turn made it.
    Empty: the group of its turn."""
    of_other: str = "''"
    """The group of a call that no turn made, in SQL, where `of_call` is empty."""
    candidates: Candidates = Candidates.ALL
    order: Order = Order.COST

    def counts_candidates(self, group: Group) -> bool:
        """Whether the candidates of this group are a figure to show."""
        if self.candidates is Candidates.IF_JUDGED:
            return group.coverage != NOTHING_JUDGED
        return self.candidates is Candidates.ALL


def _wire_of_call(stage: str, provider: str) -> str:
    """Return the protocol of a call."""
    if stage == Stage.EMBED:
        return Stage.EMBED.operation
    return _WIRES.get(provider, _CHAT)


SQL_FUNCTIONS: Mapping[str, Callable[..., str]] = {"day_of": day_of, "wire_of": _wire_of_call}
"""Functions that `of_call` may call in addition to SQLite's own, by name."""


def _provider_of_judge(turn: LedgerTurn) -> str | None:
    return turn.judge.partition(":")[0] or None


def _wire_of_judge(turn: LedgerTurn) -> str | None:
    provider = _provider_of_judge(turn)
    if provider is None:
        return None
    by_model = turn.figures is not None and turn.figures.by_model
    if not by_model:
        return "none"
    return _WIRES.get(provider, _CHAT)


_ALL = (
    Grouping(
        name="model",
        of_call="provider || ':' || model",
        of_turn=lambda turn: turn.judge or None,
        candidates=Candidates.IF_JUDGED,
    ),
    Grouping(
        name="day",
        of_call="day_of(at)",
        of_turn=lambda turn: day_of(turn.at),
        order=Order.LAST_NAME,
    ),
    Grouping(name="repo", of_call=":repo", of_turn=lambda turn: turn.key.repo),
    Grouping(
        name="stage",
        of_call="stage",
        of_turn=lambda _: None,
        candidates=Candidates.NONE,
    ),
    Grouping(
        name="provider",
        of_call="provider",
        of_turn=_provider_of_judge,
        candidates=Candidates.IF_JUDGED,
    ),
    Grouping(
        name="wire",
        of_call="wire_of(stage, provider)",
        of_turn=_wire_of_judge,
        candidates=Candidates.IF_JUDGED,
    ),
    Grouping(
        name="command",
        of_turn=lambda turn: turn.command,
        of_other="command_of(turn)",
    ),
    Grouping(name="branch", of_turn=lambda turn: turn.branch),
    Grouping(name="turn", of_call="turn", of_turn=lambda turn: turn.key.turn, order=Order.TIME),
)
GROUPINGS = {grouping.name: grouping for grouping in _ALL}
"""All groupings by name, in the order of the help page."""
