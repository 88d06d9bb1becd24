"""A shared server: its address, what it is asked, and what it keeps of a judgment.

Each request is one script that the server runs whole; the drivers (Redis, PostgreSQL) run scripts
of the same names with the same terms. A URL may hold a password, so messages and `config show` have
only scheme, host, port and database. Each judgment has a checksum, checked whenever it comes back:
it reveals damage and a row of another turn, not forgery. Trade-off: anyone who may write to the
server can plant scores.
"""

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import chain
from math import isfinite
from typing import Any, Protocol, TypeVar
from urllib.parse import SplitResult, urlsplit
from zlib import crc32

from xscore.cache.keys import JudgmentKey
from xscore.extensions.shared.failure_reasons import (
    failure_hint,
    failure_reason,
    has_answered,
)
from xscore.platform.errors import SharedUnavailable, StoreDamaged, UsageError
from xscore.platform.hashing import digest, judgment_checksums, turn_checksum
from xscore.providers.rate_limits import BURST_S
from xscore.records.judgment import ClaimResult, ClaimState, Judgment
from xscore.records.reports import ErasureRequest

REDIS = frozenset({"redis", "rediss"})
"""Schemes of Redis; `rediss` uses TLS."""
POSTGRES = frozenset({"postgresql", "postgres"})
REDIS_PORT, POSTGRES_PORT = 6379, 5432
"""Ports where the servers listen unless a URL says otherwise."""
SIGN_OF_LIFE_SHARE = 8
"""Divisor of `shared.timeout_s` for the part in which a server must show that it is there: a
quarter of a second of two."""
CHECK_IT = (
    "Check that it is running and that its URL, user and password in your settings are right:"
    " `xscore doctor` asks it."
)
_FORMS = (
    "Write redis://HOST, rediss://HOST (TLS) or postgresql://HOST/DATABASE into {setting}, and"
    " characters of a password that mean something in a URL as %…: @ is %40, / is %2F."
)
BAD_ANSWER = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""Exceptions that a driver, or the reading of its answer, raises for an invalid answer: such a
server counts as away."""
MOST_AT_ONCE = 2_000
"""Most judgments of one script: some milliseconds in which Redis does nothing else."""
READER = "reader"
"""Runner of a request that claims nothing."""
NANO = Decimal(10**9)
"""Nanodollars in a dollar: whole ones are exact in the doubles of Redis scripts."""
_STATES = {"o": ClaimState.OURS, "t": ClaimState.THEIRS, "f": ClaimState.FREE}
T = TypeVar("T")


def too_slow(name: str, timeout_s: float) -> SharedUnavailable:
    """Return the error for a server that did not answer within its deadline."""
    return SharedUnavailable(
        f"{name} did not answer within {timeout_s:.3g} s",
        hint="Check why it is slow, or raise shared.timeout_s.",
    )


def displayed_url(url: str) -> str:
    """Return the URL without user, password and options; what cannot be read is not shown at
    all."""
    try:
        parts = parse_server_url(url)
        port = f":{parts.port}" if parts.port else ""
    except (UsageError, ValueError):
        return "(unreadable)"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def server_host(url: str) -> str:
    """Return `name:port` of a valid URL."""
    parts = parse_server_url(url)
    usual = REDIS_PORT if parts.scheme in REDIS else POSTGRES_PORT
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or usual}"


def parse_server_url(url: str, *, setting: str = "shared.url") -> SplitResult:
    """Return the parts of a URL that names a server.

    setting: where it is from, for the error.
    Raises UsageError; its message holds nothing of the URL.
    """
    try:
        parts = urlsplit(url)
        is_whole = (
            bool(parts.hostname)
            and parts.port != 0
            and "@" not in parts.path + parts.query + parts.fragment
        )
    # The port or the address is invalid; a password with an unescaped character may be there.
    except ValueError:
        is_whole = False
    if not is_whole or parts.scheme not in REDIS | POSTGRES:
        raise UsageError(
            f"{setting} does not name a server", hint=_FORMS.format(setting=setting)
        )
    return parts


def unavailable(name: str, error: BaseException, hint: str = CHECK_IT) -> SharedUnavailable:
    """Return the error for a server that cannot be asked, or that answers nonsense."""
    why = failure_reason(error)
    if "definition of service" in why or "service file" in why:
        # No option of a connection keeps libpq from reading it, and it fails before it connects.
        why += " (PGSERVICE names it: unset it for xscore)"
    if hint == CHECK_IT:
        hint = failure_hint(error, hint)
    problem = "refused the request" if has_answered(error) else "cannot be reached"
    return SharedUnavailable(f"the shared server {name} {problem}: {why}", hint=hint)


def too_new(name: str, version: int | None, readable: int) -> SharedUnavailable:
    """Return the error for a server whose form is that of a newer xscore; nothing there is
    touched."""
    return SharedUnavailable(
        f"the shared server {name} was set up by a newer xscore (schema {version}; this one reads"
        f" {readable})",
        hint="Upgrade xscore, or name another database or tenant in the settings.",
    )


def finite(value: float | str | bytes) -> float:
    """Parse a number. Raises ValueError if it is not finite."""
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number


def encode_judgments(
    names: JudgmentKey, judgments: Sequence[Judgment]
) -> list[tuple[str, str]]:
    """Return content hash and text of each."""
    rows = [
        (j.content_hash, j.score + 0.0, j.prior + 0.0, j.pack, j.position) for j in judgments
    ]
    checksums = judgment_checksums(turn_checksum(*names), rows)
    return [
        (
            row[0],
            json.dumps(
                [*row[1:], j.reason, crc32(j.reason.encode("utf-8", "surrogatepass"), checksum)]
            ),
        )
        for j, row, checksum in zip(judgments, rows, checksums, strict=True)
    ]


def decode_judgments(
    names: JudgmentKey, entries: Iterable[tuple[str, str | bytes]]
) -> dict[str, Judgment]:
    """Turn content hashes with their texts into judgments, by content hash. Raises StoreDamaged."""
    try:
        rows = [(content, *json.loads(text)) for content, text in entries]
        checksums = judgment_checksums(turn_checksum(*names), rows)
        judgments = []
        for (content, score, prior, pack, position, reason, model), checksum in zip(
            rows, checksums, strict=True
        ):
            if crc32(reason.encode("utf-8", "surrogatepass"), checksum) != model:
                raise ValueError("a judgment does not fit its checksum")
            judgments.append(Judgment(content, score, reason, pack, position, prior))
    except (*BAD_ANSWER, struct.error) as error:
        raise StoreDamaged(
            f"what the shared server holds of a turn is damaged: {error}",
            hint=(
                "Delete the tenant's keys there, or set shared.url to empty; your own store is not"
                " touched."
            ),
        ) from error
    return {judgment.content_hash: judgment for judgment in judgments}


def _bucket_capacity(per_minute: float) -> float:
    return max(1.0, per_minute / 60 * BURST_S)


class ServerDriver(Protocol):
    """One kind of server. Every method may raise SharedUnavailable."""

    name: str
    """Name for messages: scheme, host and port, without a password."""

    async def describe(self) -> str:
        """Return the server's name in a few words (`Redis 7.0.15, writes its log`)."""
        ...

    async def run(self, script: str, *terms: object) -> Sequence[Any]:
        """Run a script of this tenant, whole or not at all; return the values of its answer."""
        ...

    async def erase(
        self, contents: Sequence[str], turns: Sequence[tuple[str, Sequence[str]]]
    ) -> int:
        """Erase contents in every turn, and of single turns (by digest) some contents or, if none
        is named, all."""
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...


class SharedServer:
    """What several processes and machines share. Every method may raise SharedUnavailable."""

    def __init__(self, driver: ServerDriver) -> None:
        self.driver: ServerDriver = driver
        self.name: str = driver.name

    async def check(self) -> str:
        """Return the server's name in a few words: for the doctor, and after an outage."""
        await self.heartbeat("check", lease_s=0.001)
        return await self.driver.describe()

    async def claim(
        self,
        names: JudgmentKey,
        packs: Sequence[Sequence[str]],
        *,
        at_most: int,
        runner: str,
        lease_s: float,
    ) -> list[ClaimResult]:
        """Claim at most `at_most` whole packs of content hashes that still need judging; return one
        result a pack.

        Known judgments are returned with their reasons. A pack with a content that another living
        runner claimed is `THEIRS`. Claims of a runner whose lease ended without a heartbeat are
        taken over; this call counts as one.
        A pack that is not `OURS` is unchanged.
        """
        contents = list(chain.from_iterable(packs))

        def read(answer: Sequence[Any]) -> list[ClaimResult]:
            letters, places, entries = answer
            judged = []
            for place, entry in zip(places or (), entries or (), strict=True):
                judged.append((contents[place - 1], entry))
            judgments = decode_judgments(names, judged)
            results: list[ClaimResult] = []
            for letter, pack in zip(letters, packs, strict=True):
                judged_here = {
                    content: judgments[content] for content in pack if content in judgments
                }
                results.append(ClaimResult(_STATES[letter], judged_here))
            return results

        terms = (_turn(names), runner, lease_s, at_most, list(map(len, packs)), contents)
        return await self._asked(read, "claim", *terms)

    async def judged(self, names: JudgmentKey, contents: Sequence[str]) -> dict[str, Judgment]:
        """Return the judgments of these contents with their reasons; nothing is claimed."""
        # A claim of nothing: older servers have no function that only reads.
        packs = [[content] for content in contents]
        results = await self.claim(names, packs, at_most=0, runner=READER, lease_s=0.001)
        judgments: dict[str, Judgment] = {}
        for result in results:
            judgments.update(result.known)
        return judgments

    async def store_judgments(self, names: JudgmentKey, judgments: Sequence[Judgment]) -> None:
        """Store judgments and remove all claims on them; the first of two for one content wins."""
        for start in range(0, len(judgments), MOST_AT_ONCE):
            pairs = encode_judgments(names, judgments[start : start + MOST_AT_ONCE])
            contents, entries = zip(*pairs, strict=True)
            await self.driver.run(
                "store_judgments", _turn(names), list(contents), list(entries)
            )

    async def erase(self, request: ErasureRequest) -> int:
        """Erase judgments with their reasons; return how many were there.

        Repeating it does no harm.
        """
        turns = []
        for turn_key, judge, draw, contents in request.turns:
            turns.append((_turn((turn_key, judge, draw)), contents))
        return await self.driver.erase(request.contents, turns)

    async def heartbeat(self, runner: str, *, lease_s: float) -> None:
        """Renew the claims of this runner for another lease."""
        await self.driver.run("heartbeat", runner, lease_s)

    async def release_runner(self, runner: str) -> None:
        """Free everything that this runner claimed."""
        await self.driver.run("release_runner", runner)

    async def take(
        self, bucket: str, amounts: Mapping[str, float], limits: Mapping[str, float]
    ) -> float:
        """Take from the buckets of one host and model; return the seconds to wait before using it
        (0: none).

        Amounts are always taken: buckets go into debt, so runners are served in the order in which
        they ask. Negative amounts are given back.

        amounts: kind (`requests`, `tokens`, `input_tokens`, `output_tokens`) -> amount taken.
        limits: the same kinds -> limit a minute.

        A bucket starts full and holds `BURST_S` of its limit; a larger amount waits until it is
        full. With `level` after refilling: wait (min(amount, capacity) - level) / rate, then level
        -= amount; the longest wait of all kinds is returned.
        """
        rates = [float(limits[kind]) for kind in amounts]
        terms = (
            list(amounts),
            list(map(float, amounts.values())),
            rates,
            list(map(_bucket_capacity, rates)),
        )
        return await self._asked(
            lambda answer: finite(answer[0]), "take", digest(bucket), *terms
        )

    async def reserve(
        self,
        name: str,
        day: str,
        held_usd: Decimal,
        spent_usd: Decimal,
        *,
        cap_usd: Decimal | None,
        lease_s: float | None = None,
    ) -> Decimal:
        """Replace what a reservation holds and has spent on a day (UTC, as 2026-11-22); return what
        the cap leaves.

        Below zero it was refused, and nothing was changed.

        held_usd: for calls in flight, until the lease is over.
        spent_usd: in total, for the whole day, so that reporting it twice counts once.
        cap_usd: without one nothing is refused, and no more is held than before.
        lease_s: from now on; None: as long as before.
        """
        held, spent = (_nano(usd, ROUND_CEILING) for usd in (held_usd, spent_usd))
        cap = None if cap_usd is None else _nano(cap_usd, ROUND_FLOOR)
        terms = (day, name, held, spent, cap, lease_s)
        return await self._asked(
            lambda answer: Decimal(int(finite(answer[0]))) / NANO, "reserve", *terms
        )

    async def aclose(self) -> None:
        """Release connections."""
        await self.driver.aclose()

    async def _asked(
        self, read: Callable[[Sequence[Any]], T], script: str, *terms: object
    ) -> T:
        """Run a script and read its answer.

        Raises SharedUnavailable for what cannot be read, StoreDamaged.
        """
        answer = await self.driver.run(script, *terms)
        try:
            return read(answer)
        except BAD_ANSWER as error:
            raise unavailable(self.name, error) from error


def _turn(names: JudgmentKey) -> str:
    return digest(*map(str, names))


def _nano(usd: Decimal, rounding: str) -> int:
    return int((usd * NANO).to_integral_value(rounding))
