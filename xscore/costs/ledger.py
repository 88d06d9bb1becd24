"""The ledger: one row for each attempt, and what the rows of a turn add up to.

Rows go through the same writer thread as judgments and ahead of them, so a committed judgment never
lacks the record of the call that paid for it. Money is kept in picodollars, so SQL adds it up
exactly. It enforces no cap (`reservation` does). `UsageTotals` keeps a turn's sums in memory, so
that showing progress needs no query. Trade-off: a row also stores what the call would have cost in
other ways, at that day's prices.
"""

import sqlite3
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from xscore.platform import money
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import StoreError
from xscore.records.calls import CallRecord, Stage
from xscore.records.receipt import StageUsage
from xscore.store.call_rows import (
    TOKEN_COLUMNS,
    dollars_from_row,
    parse_count,
    parse_seconds,
    parse_timestamp,
    usage_from_row,
)

if TYPE_CHECKING:
    from xscore.cache.group_commit import GroupCommit

_OK = "ok"
_FADE = 0.98
"""Decay of a learned ratio at each call: about the last fifty calls count."""
MIN_CHARS_PER_TOKEN = 1.5
MAX_CHARS_PER_TOKEN = 8.0
"""Believable characters per token of a whole judging prompt (typically 3.7); outside, the host
misreports."""
_COLUMNS = (
    *(
        "id",
        "turn_id",
        "stage",
        "provider",
        "host",
        "model",
        "started_at",
        "duration_s",
        "outcome",
        "candidates",
    ),
    *TOKEN_COLUMNS,
    *(
        "cost",
        "cost_without_prefix_cache",
        "cost_without_packs",
        "cost_by_batch",
        "estimated",
        "batch",
        "cost_live",
    ),
)
_INSERT = f"INSERT INTO call ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_LEARN = """
    INSERT INTO chars_per_token (provider, host, model, chars, tokens) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (provider, host, model) DO UPDATE
    SET chars = chars * ? + excluded.chars, tokens = tokens * ? + excluded.tokens
"""
"""SQL that adds to learned ratios. The last two parameters say what is left of the past after
as many calls as are added."""
_RATIO = (
    "SELECT chars / tokens FROM chars_per_token WHERE provider = ? AND host = ? AND model = ?"
)
_SPENT = """
    SELECT count(*) - count(cost),
      max(iif(cost < 0 OR typeof(cost) NOT IN ('integer', 'null'), cost, NULL)),
        coalesce(sum(cost / 1000000), 0), coalesce(sum(cost % 1000000), 0)
    FROM call
"""
"""SQL of what was spent, in two sums, so that no number of rows overflows one."""
_CALLS = f"""
    SELECT id, turn_id, stage, provider, host, model, started_at, duration_s, outcome, candidates,
        cost, estimated, {", ".join(TOKEN_COLUMNS)}
    FROM call WHERE turn_id = ? ORDER BY started_at, id
"""
_VALUES = attrgetter(
    *(
        "id",
        "turn_id",
        "stage.value",
        "provider",
        "host",
        "model",
        "started_at",
        "duration_s",
        "outcome",
        "candidates",
    ),
    *(f"usage.{name}" for name in TOKEN_COLUMNS),
)
"""The columns of a row before its costs, as one call in C: every call becomes a row."""


class Ledger:
    """Writes call records in the background, in order."""

    def __init__(self, commits: "GroupCommit") -> None:
        self._commits = commits

    def record(self, call: CallRecord) -> None:
        """Queue one attempt. Raises StoreError after a failed commit, since unrecorded money must
        not be spent.

        An answered call does not raise: its reply is worth keeping, and the next write or
        reservation raises.
        """
        try:
            self._commits.post_item(_insert, call)
        except (StoreError, sqlite3.Error):
            # An answer is paid for whether or not it is written down: it goes on to be used.
            if call.outcome != _OK:
                raise


def insert_batch_calls(
    connection: sqlite3.Connection,
    mark: str,
    calls: Iterable[tuple[CallRecord, Decimal | None]],
) -> None:
    """Record calls answered by a batch, each with its live price, within an open transaction.

    An existing row is kept: its id is its custom_id.
    """
    rows: list[tuple[object, ...]] = []
    for call, live_usd in calls:
        live = None if live_usd is None else money.picodollars(live_usd)
        rows.append(_row_of_call(call, mark, live))
    connection.executemany(f"{_INSERT} ON CONFLICT (id) DO NOTHING", rows)


def total_spent(connection: sqlite3.Connection) -> Decimal | None:
    """Add up every call in the store; None if any is unpriced.

    Raises StoreDamaged for an invalid amount.
    """
    unpriced, damaged, millions, rest = connection.execute(_SPENT).fetchone()
    with damage_if_invalid("a cost"):
        picodollars = millions * 10**6 + rest if damaged is None else damaged
        amount = money.dollars_of_picodollars(picodollars)
    return None if unpriced else amount


def is_estimated(connection: sqlite3.Connection) -> bool:
    """Return whether the usage of any call in the store is our estimate."""
    estimated = connection.execute("SELECT EXISTS (SELECT 1 FROM call WHERE estimated <> 0)")
    return bool(estimated.fetchone()[0])


def learned_chars_per_token(
    connection: sqlite3.Connection, *, provider: str, host: str, model: str
) -> float | None:
    """Return the characters per token seen from this model at this host; None if no believable data
    yet.

    Ratios are per host, since hosts that serve a model of the same name may count differently.
    """
    row = connection.execute(_RATIO, (provider, host, model)).fetchone()
    if row and _is_believable(row[0]):
        return float(row[0])
    return None


def _insert(calls: Sequence[CallRecord], connection: sqlite3.Connection) -> None:
    connection.executemany(_INSERT, map(_row_of_call, calls))
    connection.executemany(_LEARN, _ratio_updates(calls))


def _is_believable(ratio: float | None) -> bool:
    return ratio is not None and MIN_CHARS_PER_TOKEN <= ratio <= MAX_CHARS_PER_TOKEN


def _ratio_updates(calls: Sequence[CallRecord]) -> list[tuple[object, ...]]:
    """Combine the updates of these calls in order, so that each model's row is written once."""
    learned: dict[tuple[str, str, str], tuple[float, float, float]] = {}
    for call in calls:
        used = call.usage.input_tokens
        # Our own estimate would only confirm itself.
        if call.estimated or used <= 0 or not _is_believable(call.chars / used):
            continue
        key = call.provider, call.host, call.model
        chars, tokens, weight = learned.get(key, (0.0, 0.0, 1.0))
        # Earlier calls fade: the latest say most.
        learned[key] = (chars * _FADE + call.chars, tokens * _FADE + used, weight * _FADE)
    updates: list[tuple[object, ...]] = []
    for key, (chars, tokens, weight) in learned.items():
        updates.append((*key, chars, tokens, weight, weight))
    return updates


def _row_of_call(
    call: CallRecord, batch: str = "", cost_live: int | None = None
) -> tuple[object, ...]:
    otherwise = call.otherwise
    costs = (
        call.cost_usd,
        otherwise.without_prefix_cache,
        otherwise.without_packs,
        otherwise.by_batch,
    )
    amounts = [None if usd is None else money.picodollars(usd) for usd in costs]
    return (*_VALUES(call), *amounts, int(call.estimated), batch, cost_live)


def calls_of_turn(connection: sqlite3.Connection, turn_id: str) -> list[CallRecord]:
    """Return the calls of a turn. Raises StoreDamaged for an invalid row."""
    rows = connection.execute(_CALLS, (turn_id,)).fetchall()
    with damage_if_invalid("a call"):
        return [_call_from_row(row) for row in rows]


def _call_from_row(row: tuple[object, ...]) -> CallRecord:
    identifier, turn_id, stage, provider, host, model, *timing = row[:10]
    started_at, duration_s, outcome, candidates = timing
    cost, estimated, *tokens = row[10:]
    return CallRecord(
        id=str(identifier),
        turn_id=str(turn_id),
        stage=Stage(str(stage)),
        provider=str(provider),
        host=str(host),
        model=str(model),
        started_at=parse_timestamp(started_at),
        duration_s=parse_seconds(duration_s),
        outcome=str(outcome),
        candidates=parse_count(candidates),
        usage=usage_from_row(tokens),
        cost_usd=dollars_from_row(cost),
        estimated=bool(estimated),
    )


LATEST_CALLS = 64
SLOW_CALL_SHARE = 0.9


class UsageTotals(Struct):
    """Adds up call records and passes each on to the ledger."""

    record: Callable[[CallRecord], None]
    stages: dict[Stage, StageUsage] = field(default_factory=dict)
    failures: set[str] = field(default_factory=set)
    """Kinds of the errors that attempts ended with."""
    usual_judging_s: float = 0.0
    """The recent duration of a judging call; 0 if unknown."""
    _took_s: defaultdict[Stage, deque[float]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=LATEST_CALLS))
    )
    """Seconds of the latest answered calls, by stage."""

    def add(self, call: CallRecord) -> None:
        """Record one attempt; a call is an attempt that was answered.

        Raises what the ledger raises.
        """
        self.record(call)
        is_answered = call.outcome == _OK
        if is_answered:
            self._took_s[call.stage].append(call.duration_s)
        else:
            self.failures.add(call.outcome)
        attempt = StageUsage(
            calls=int(is_answered),
            attempts=1,
            usage=call.usage,
            cost_usd=call.cost_usd,
            estimated=call.estimated,
        )
        self.stages[call.stage] = self.spent(call.stage) + attempt

    @property
    def has_sent(self) -> bool:
        """Whether any call was tried."""
        return any(spent.attempts for spent in self.stages.values())

    def spent(self, stage: Stage) -> StageUsage:
        """Return the sum of one stage."""
        return self.stages.get(stage, StageUsage())

    def whole(self) -> StageUsage:
        """Return the sum of all stages."""
        return sum(self.stages.values(), StageUsage())

    def call_s(self, stage: Stage) -> float:
        """Return the 90th percentile of the latest calls' seconds, or the usual value before any; 0
        if unknown."""
        latest = sorted(self._took_s.get(stage, ()))
        usual_s = self.usual_judging_s if stage is Stage.JUDGE else 0.0
        if latest:
            return latest[int(SLOW_CALL_SHARE * (len(latest) - 1))]
        return usual_s
