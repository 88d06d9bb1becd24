"""Which questions share which packs: a pack and the questions that lack all of it, cut to what a prompt may hold. Pure.

A forecast and the judge both plan through here. Trade-off: packs that differ in one member are shared by nobody.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xscore.scorer.draft import Drafts
from xscore.scorer.packs import Pack
from xscore.scorer.shared_drafts import chunks, most_questions, question_size, room_for_questions


@dataclass(frozen=True, slots=True)
class Unit:
    """A pack and the questions, by number, that are to share it."""

    pack: Pack
    questions: tuple[int, ...]


def planned(
    drafts: Drafts,
    packs: Sequence[Sequence[Pack]],
    turn_texts: Sequence[str],
    *,
    most: int,
    context_tokens: int,
    alone: bool = False,
) -> list[Unit]:
    """Say which questions share which packs. packs: what each question lacks. alone: give also what one has alone."""
    sizes = [question_size(drafts, text) for text in turn_texts]
    units: list[Unit] = []
    for pack, askers in _by_pack(packs):
        memories = len(pack.members)
        fits = most_questions(drafts, memories, wanted=most)
        size = min(sum(member.tokens for member in pack.members), 2 * drafts.profile.tokens)
        room = room_for_questions(drafts, size, memories, most=fits, context_tokens=context_tokens)
        runs = chunks(askers, sizes, most=fits, room=room)
        units.extend(Unit(pack, tuple(run)) for run in runs if alone or len(run) > 1)
    return units


def _by_pack(packs: Sequence[Sequence[Pack]]) -> list[tuple[Pack, list[int]]]:
    """Give each pack, members and all, with the numbers of the questions that lack it."""
    found: dict[tuple[str, tuple[str, ...]], tuple[Pack, list[int]]] = {}
    for number, lacking in enumerate(packs):
        for pack in lacking:
            key = pack.id, tuple(member.content_hash for member in pack.members)
            found.setdefault(key, (pack, []))[1].append(number)
    return list(found.values())
