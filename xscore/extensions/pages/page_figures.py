"""The figures of a turn's page in words and rows: what it came to, the receipt, folders, calls."""

from collections.abc import Sequence

from msgspec import Struct

from xscore.extensions.pages.records import MapMemory, TurnPage
from xscore.platform.figures import (
    format_dollars,
    format_fraction,
    format_seconds,
    format_share,
)
from xscore.platform.text import counted
from xscore.records.calls import Stage
from xscore.records.receipt import Coverage, StageUsage

FOLDERS_SHOWN = 60
KINDS_NAMED = 3
"""How many kinds with one cut are named; more are counted."""
OUTSIDE_FILES = "(in no file)"


class ReceiptPart(Struct, frozen=True):
    """A part of the candidates, as the bar of the receipt shows it."""

    name: str
    count: int
    share: float
    """Share of all candidates, 0..1."""
    start: float
    """Where it begins in the bar, 0..1."""


class FolderRow(Struct, frozen=True):
    """A folder of the map, as its table shows it."""

    name: str
    memories: int
    tokens: int
    kept: int
    best: float | None
    unjudged: int


class KindsCut(Struct, frozen=True):
    """Kinds of memories with a cut of their own."""

    kinds: tuple[str, ...]
    words: str


class UsageRow(Struct, frozen=True):
    """What one stage took."""

    stage: str
    spent: StageUsage
    retries: int
    cached_share: str
    """Share of the input tokens that the host's prefix cache served."""


def describe_turn(page: TurnPage) -> str:
    """Say in a sentence who judged how much, what was chosen, and what it took."""
    receipt = page.receipt
    if receipt is None:
        judged = _coverage(page).judged
        return (
            f"{judged:,} of {counted(len(page.memories), 'memory', 'memories')} judged by"
            f" {judge_of(page) or 'its judge'}, then the turn ended: it is {page.turn.state}."
        )
    how = " by words alone, without a model"
    if not receipt.ranked_by_words:
        how = f", judged by {receipt.judge.provider}:{receipt.judge.model}"
    answered = ""
    if receipt.primary and receipt.answer:
        answered = f" answered by {receipt.primary.provider}:{receipt.primary.model},"
    spent = receipt.spent()
    cost = format_dollars(spent.cost_usd, estimated=spent.estimated)
    candidates = counted(receipt.coverage.candidates, "memory", "memories")
    return (
        f"{len(receipt.selected):,} of {candidates} chosen{how},{answered}"
        f" in {format_seconds(receipt.latency.total)} for {cost}."
    )


def judge_of(page: TurnPage) -> str:
    """Return the judge; for a killed turn, the judge that was asked. Empty if there is none
    yet."""
    if page.turn.judge:
        return page.turn.judge
    for call in page.calls:
        if call.stage is Stage.JUDGE:
            return f"{call.provider}:{call.model}"
    return ""


def cuts_by_kind(page: TurnPage) -> tuple[KindsCut, ...]:
    """Return the cuts that only some kinds have, the kinds with the same cut together."""
    kinds_of: dict[float, list[str]] = {}
    if page.receipt is not None:
        for kind, least in page.receipt.thresholds.items():
            kinds_of.setdefault(least, []).append(kind)
    cuts: list[KindsCut] = []
    for least, kinds in kinds_of.items():
        names = ", ".join(kinds).replace("_", " ")
        if len(kinds) > KINDS_NAMED:
            names = f"{len(kinds)} other kinds"
        cuts.append(KindsCut(tuple(kinds), f"{names} from {format_fraction(least)}"))
    return tuple(cuts)


def describe_scope(page: TurnPage) -> str:
    """Say what the turn was narrowed to; empty if it looked at everything."""
    if page.receipt is None:
        return ""
    scope = page.receipt.scope
    groups = (scope.within, scope.paths, scope.kinds, scope.layers)
    return "; ".join(", ".join(names) for names in groups if names)


def receipt_parts(page: TurnPage) -> tuple[ReceiptPart, ...]:
    """Return the parts that add up to all candidates, those without any too."""
    coverage = _coverage(page)
    parts: list[ReceiptPart] = []
    start = 0.0
    for name in ("judged", "cached", "carried", "unjudged"):
        count = getattr(coverage, name)
        share = count / max(1, coverage.candidates)
        parts.append(ReceiptPart(name, count, share, start))
        start += share
    return tuple(parts)


def _coverage(page: TurnPage) -> Coverage:
    """Return the receipt's coverage; without a receipt, what the map shows as judged."""
    if page.receipt is not None:
        return page.receipt.coverage
    judged = sum(memory.score is not None for memory in page.memories)
    return Coverage(len(page.memories), judged, 0, 0, len(page.memories) - judged)


def folder_rows(page: TurnPage) -> tuple[FolderRow, ...]:
    """Return the folders of the map, two levels deep at most, the best first."""
    members: dict[str, list[MapMemory]] = {}
    for memory in page.memories:
        members.setdefault(_folder(memory.path), []).append(memory)
    kept = {page.memories[entry.place].id for entry in page.kept if entry.place >= 0}
    rows = [_folder_row(name, of_folder, kept) for name, of_folder in members.items()]
    rows.sort(key=lambda row: (-row.kept, -(row.best or 0.0), row.name))
    return tuple(rows[:FOLDERS_SHOWN])


def _folder(path: str) -> str:
    """Return the first two folders of a path."""
    if not path:
        return OUTSIDE_FILES
    return "/".join(path.split("/")[:-1][:2]) or "."


def _folder_row(name: str, memories: Sequence[MapMemory], kept: set[str]) -> FolderRow:
    scores = [memory.score for memory in memories if memory.score is not None]
    return FolderRow(
        name=name,
        memories=len(memories),
        tokens=sum(memory.tokens for memory in memories),
        kept=sum(memory.id in kept for memory in memories),
        best=max(scores, default=None),
        unjudged=len(memories) - len(scores),
    )


def usage_rows(page: TurnPage) -> tuple[UsageRow, ...]:
    """Return what each stage with a call took."""
    by_stage: dict[Stage, StageUsage] = {}
    if page.receipt is not None:
        by_stage.update(page.receipt.usage)
    else:
        for call in page.calls:
            attempt = StageUsage(
                calls=int(call.outcome == "ok"),
                attempts=1,
                usage=call.usage,
                cost_usd=call.cost_usd,
                estimated=call.estimated,
            )
            by_stage[call.stage] = by_stage.get(call.stage, StageUsage()) + attempt
    rows: list[UsageRow] = []
    for stage, spent in by_stage.items():
        if spent.attempts:
            share = format_share(spent.usage.cached_input_tokens, spent.usage.input_tokens)
            rows.append(UsageRow(stage.words, spent, spent.attempts - spent.calls, share))
    return tuple(rows)
