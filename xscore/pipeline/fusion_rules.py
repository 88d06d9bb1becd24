"""What the chosen memories say together: conflicts settled to one sentence, near duplicates shown once. Pure.

Places are never merged: two functions or two blocks of configuration that read alike may both need the edit, so only
what was said, and prose, is compared. Whoever gives way stays named beside the one that is shown, and can be cited.
Trade-off: what repeats a docstring is shown beside the code, because a statement and a place are not the same thing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xscore.learning.conflicts import resolve
from xscore.prompts.bundle_entry import BundleEntry
from xscore.prompts.bundle_piece import CODE_KINDS
from xscore.records import Kind, Layer, Memory

PLACES = CODE_KINDS | {Kind.CONFIG, Kind.TEXT}
"""Kinds of which each is a place of its own, whatever it says."""


def settled(entries: Sequence[BundleEntry], *, authority: Mapping[str, float], now: float) -> list[BundleEntry]:
    """Put one entry with one sentence in the place of those that contradict each other (L07)."""
    found = resolve([entry.memory for entry in entries], authority=authority, now=now)
    text = {conflict.winner: conflict.text for conflict in found}
    losers = {conflict.winner: [id_ for id_ in conflict.memory_ids if id_ != conflict.winner] for conflict in found}
    gone = {id_ for ids in losers.values() for id_ in ids}
    return [
        replace(entry, resolved=text[entry.memory.id], settles=tuple(losers[entry.memory.id]))
        if entry.memory.id in text
        else entry
        for entry in entries
        if entry.memory.id not in gone
    ]


def may_repeat(entries: Sequence[BundleEntry]) -> dict[str, str]:
    """Return id -> text of the entries that may say the same as another; the settled ones already stand for several."""
    return {
        entry.memory.id: entry.memory.text for entry in entries if entry.memory.kind not in PLACES and not entry.settles
    }


def shown_once(
    entries: Sequence[BundleEntry], groups: Sequence[Sequence[str]], *, authority: Mapping[str, float]
) -> list[BundleEntry]:
    """Keep of each group of near duplicates the more authoritative, then the newer, and name the others there (H18)."""
    by_id = {entry.memory.id: entry.memory for entry in entries}
    stands_for: dict[str, tuple[str, ...]] = {}
    for group in groups:
        first, *others = sorted((by_id[id_] for id_ in group), key=lambda memory: _rank(memory, authority))
        stands_for[first.id] = tuple(other.id for other in others)
    gone = {id_ for ids in stands_for.values() for id_ in ids}
    return [
        replace(entry, alike=stands_for.get(entry.memory.id, ())) for entry in entries if entry.memory.id not in gone
    ]


def _rank(memory: Memory, authority: Mapping[str, float]) -> tuple[float, float, str]:
    return -authority.get(Layer(memory.layer).value, 0.0), -memory.updated_at, memory.id
