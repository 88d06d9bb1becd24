"""What the members of a storm paid their judge for, and why a pair was paid for twice.

A pair is a question and a content. Each call names its turn by its key, so that a payment can
be compared with what the turn says of itself.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from aiohttp import web
from msgspec import Struct

from tests.extensions.shared.team.storm_members import TASKS
from tests.servers.openai_server import OpenAIServer
from xscore.platform.hashing import content_hash
from xscore.providers.scripted import shown_memories

KILLED = "the one who paid first was killed in that turn"
KILLED_AGAIN = "the one who paid again was killed in that turn, so nothing is known of it"
ALONE = "the server was away in the turn that paid again"
MISSED = "the turn that paid again had no server, although it was well"
NOT_SENT = "the one who paid first had no server, and judged nothing with one since"
FORGOTTEN = "the server was replaced by an empty one in between"
UNEXPLAINED = "no known cause"

LOCAL_ONLY = ("only in the local store", "with the local store alone")
"""What the warnings say of a turn that went on without the server of judgments."""


class Payment(Struct, frozen=True):
    """A pair that a turn paid for."""

    turn: str
    pair: tuple[str, str]
    """Question and content hash."""
    at: float
    """Unix seconds."""


class StormJudge(OpenAIServer):
    """A judge that notes who pays for what."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.payments: list[Payment] = []

    async def _reply(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        turn = request.headers.get("Authorization", "").removeprefix("Bearer ")
        prompt = self.prompt(body)
        (task,) = [task for task in TASKS if task in prompt]
        for memory in shown_memories(prompt):
            content = content_hash(memory.path, memory.entity, memory.text)
            self.payments.append(Payment(turn, (task, content), time.time()))
        return await super()._reply(request, body)


class StormFaults(Struct, frozen=True, kw_only=True):
    """When the server of judgments was not to be had."""

    away: tuple[tuple[float, float], ...]
    """Start and end of each outage, in Unix seconds."""
    emptied_at: tuple[float, ...]
    """When it was replaced by an empty one."""

    def strike(self, line: Mapping[str, Any]) -> bool:
        """Whether it was away at some time of a turn."""
        ended = line["at"] + line["took_s"]
        return any(began <= ended and line["at"] <= until for began, until in self.away)


def paid_twice(
    payments: Iterable[Payment], lines: Iterable[Mapping[str, Any]], faults: StormFaults
) -> Counter[str]:
    """Count every payment for a pair that was paid for before, by its cause.

    lines: what turns say of themselves.
    """
    turns = [line for line in lines if "took_s" in line]
    lines_by_turn = {line["turn"]: line for line in turns}
    by_pair: defaultdict[tuple[str, str], list[Payment]] = defaultdict(list)
    for payment in payments:
        by_pair[payment.pair].append(payment)
    causes: Counter[str] = Counter()
    for paid in by_pair.values():
        for earlier, repeated in pairwise(paid):
            causes[_cause(earlier, repeated, lines_by_turn, faults)] += 1
    return causes


def paid_twice_with_server(
    payments: Iterable[Payment], lines: Iterable[Mapping[str, Any]], *, until: float
) -> int:
    """Count the payments until then for a pair that was paid for before, where both turns had the
    server all the time: there is no cause for one.

    On a busy machine a server may answer later than a turn waits for it; these are not counted.
    """
    with_server: set[str] = set()
    for line in lines:
        if "took_s" in line and not is_alone(line):
            with_server.add(line["turn"])
    counts: Counter[tuple[str, str]] = Counter()
    for payment in payments:
        if payment.at < until and payment.turn in with_server:
            counts[payment.pair] += 1
    return counts.total() - len(counts)


def _cause(
    earlier: Payment,
    repeated: Payment,
    lines_by_turn: Mapping[str, Mapping[str, Any]],
    faults: StormFaults,
) -> str:
    first_line, line = lines_by_turn.get(earlier.turn), lines_by_turn.get(repeated.turn)
    if line is None:
        return KILLED_AGAIN
    if is_alone(line):
        return ALONE if faults.strike(line) else MISSED
    if first_line is None:
        return KILLED
    if is_alone(first_line) and not _was_sent(first_line, line, lines_by_turn.values()):
        return NOT_SENT
    if any(earlier.at <= at <= repeated.at for at in faults.emptied_at):
        return FORGOTTEN
    return UNEXPLAINED


def _was_sent(
    first_line: Mapping[str, Any], line: Mapping[str, Any], lines: Iterable[Mapping[str, Any]]
) -> bool:
    """Whether the store of a turn without a server judged something with one before another turn
    began, and should have sent what it owed by then."""
    for later in lines:
        is_of_store = later["store"] == first_line["store"]
        is_between = (
            later["at"] > first_line["at"] and later["at"] + later["took_s"] < line["at"]
        )
        if is_of_store and is_between and later.get("judged") and not is_alone(later):
            return True
    return False


def is_alone(line: Mapping[str, Any]) -> bool:
    """Whether a turn went on without the server for a while."""
    warnings = " ".join(line.get("warnings", ()))
    return any(phrase in warnings for phrase in LOCAL_ONLY)
