"""Packs: how they are filled, and that they stay stable."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scorer.stdlib_candidates import candidate, real_code
from xscore.providers.catalog import UNKNOWN, model_settings
from xscore.records.candidates import Candidate, Slot, Slots
from xscore.scorer.pack_assignment import OVERFULL_SHARE, assign_packs, place_all
from xscore.scorer.packs import (
    PackProfile,
    fit_profile,
    packed_tokens,
    packs_to_send,
    throwaway_packs,
)

EDITS = 1_000
Contents = dict[str, tuple[tuple[str, str], ...]]


def contents(pool: Mapping[str, Candidate], slots: Slots) -> Contents:
    """What each pack shows, in order: everything in its bytes."""
    rows: dict[str, list[tuple[int, tuple[str, str]]]] = {}
    for id_, (pack, position) in slots.items():
        rows.setdefault(pack, []).append((position, (id_, pool[id_].content_hash)))
    return {
        pack: tuple(shown for _, shown in sorted(members)) for pack, members in rows.items()
    }


def edit(pool: dict[str, Candidate], number: int, rng: random.Random) -> None:
    """Insert, delete or rewrite one memory."""
    old = pool[rng.choice(list(pool))]
    match rng.choice(("insert", "delete", "rewrite")):
        case "insert":
            tokens = rng.choice(list(pool.values())).tokens
            added = candidate(
                old.path,
                f"{old.entity}_{number}",
                str(number),
                line=old.start_line + 1,
                tokens=tokens,
            )
            pool[added.id] = added
        case "delete":
            del pool[old.id]
        case _:
            tokens = max(5, int(old.tokens * rng.uniform(0.5, 2)))
            pool[old.id] = old._replace(
                tokens=tokens, content_hash=f"{old.content_hash}{number}"
            )


@pytest.mark.parametrize(
    ("limits", "seed", "edits"),
    [
        (PackProfile(tokens=4_600, size=60), 2, 300),
        pytest.param(PackProfile(), 1, 300, marks=pytest.mark.verify),
        pytest.param(PackProfile(), 1, 1_000, marks=pytest.mark.nightly),
    ],
)
def test_many_edits_change_about_one_pack_each(
    limits: PackProfile, seed: int, edits: int
) -> None:
    """Random inserts, deletes and rewrites on a real tree change at most 1.1 packs each, and packs
    stay full."""
    rng = random.Random(seed)
    pool = {memory.id: memory for memory, _ in real_code()[:1_200]}
    slots: Slots = assign_packs(pool.values(), {}, limits).slots
    shown, changed = contents(pool, slots), 0
    for number in range(edits):
        edit(pool, number, rng)
        slots = assign_packs(pool.values(), slots, limits).slots
        now = contents(pool, slots)
        changed += sum(shown.get(pack) != members for pack, members in now.items())
        shown = now
    assert changed / edits <= 1.1
    assert len(shown) <= 1.25 * len(throwaway_packs(pool.values(), limits))


def test_small_trees_keep_their_packs_full() -> None:
    """A thousand edits of a few hundred memories replace most of them and still leave a nearly
    ideal number of packs.
    """
    rng = random.Random(3)
    pool = {memory.id: memory for memory, _ in real_code()[:300]}
    slots: Slots = assign_packs(pool.values(), {}, PackProfile()).slots
    for number in range(EDITS):
        edit(pool, number, rng)
        slots = assign_packs(pool.values(), slots, PackProfile()).slots
    assert len(contents(pool, slots)) <= 1.25 * len(
        throwaway_packs(pool.values(), PackProfile())
    )


def test_an_unchanged_pool_is_left_alone() -> None:
    """Assigning again moves nothing."""
    pool = [memory for memory, _ in real_code()]
    first = assign_packs(pool, {}, PackProfile())
    repeated = assign_packs(pool, first.slots, PackProfile())
    assert (repeated.slots, repeated.moved, repeated.gone) == (first.slots, {}, frozenset())


def _slots_with_a_flaw(slots: Slots, flaw: str) -> Slots:
    """Stored slots as they are, or as no assignment leaves them."""
    flawed = dict(slots)
    first, second = list(flawed)[:2]
    pack, position = flawed[first]
    match flaw:
        case "a gap":
            flawed[first] = Slot(pack, position + 99)
        case "two at one place":
            flawed[second] = flawed[first]
        case "one without a slot":
            del flawed[first]
        case "one that is gone":
            flawed["m_gone"] = Slot(pack, 99)
        case "one gone for another":
            del flawed[first]
            flawed["m_gone"] = Slot(pack, position)
        case "all in one pack":
            flawed = {id_: Slot(pack, place) for place, id_ in enumerate(flawed)}
        case "as it is":
            pass
    return flawed


@pytest.mark.parametrize("longest", [100, 900, 4_000])
@pytest.mark.parametrize(
    "flaw",
    [
        "as it is",
        "a gap",
        "two at one place",
        "one without a slot",
        "one that is gone",
        "one gone for another",
        "all in one pack",
    ],
)
def test_what_needs_no_placing_is_what_placing_would_leave(flaw: str, longest: int) -> None:
    """The short way of an unchanged pool agrees with placing all of it once more."""
    rng = random.Random(longest)
    pool = [
        candidate(f"f{i // 7}.py", f"e{i}", str(i), line=i, tokens=rng.randint(1, longest))
        for i in range(200)
    ]
    slots = _slots_with_a_flaw(assign_packs(pool, {}, PackProfile()).slots, flaw)
    placed = place_all(pool, slots, PackProfile())
    assigned = assign_packs(pool, slots, PackProfile())
    assert assigned.slots == placed.slots
    assert assigned.moved == placed.moved
    assert assigned.gone == placed.gone
    assert (assigned.slots is slots) == (flaw == "as it is")
    # One that has grown longer than a pack is taken out of it.
    grown = [memory._replace(tokens=memory.tokens * 9) for memory in pool]
    assert (
        assign_packs(grown, slots, PackProfile()).slots
        == place_all(grown, slots, PackProfile()).slots
    )


def test_moved_lines_change_no_pack() -> None:
    """A memory's place in its file is not shown, so it moves no slot."""
    pool = [memory for memory, _ in real_code()[:500]]
    slots = assign_packs(pool, {}, PackProfile()).slots
    pushed = [memory._replace(start_line=10_000 - memory.start_line) for memory in pool]
    assert assign_packs(pushed, slots, PackProfile()).moved == {}


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4_000), max_size=120),
    kept=st.lists(st.booleans(), max_size=120),
    grown=st.lists(st.floats(0.1, 4), max_size=120),
    size=st.integers(2, 20),
)
def test_every_memory_has_one_slot_within_the_limits(
    sizes: list[int], kept: list[bool], grown: list[float], size: int
) -> None:
    """For any previous state, positions run from 0, packs keep their limits, and removed memories
    are named."""
    limits = PackProfile(tokens=2_500, size=size)
    pool = [
        candidate(f"f{i // 7}.py", f"e{i}", str(i), line=i, tokens=tokens)
        for i, tokens in enumerate(sizes)
    ]
    before = assign_packs(
        [memory for memory, keep in zip(pool, kept, strict=False) if keep], {}, limits
    ).slots
    now = [
        memory._replace(tokens=max(1, int(memory.tokens * by)))
        for memory, by in zip(pool, grown, strict=False)
    ]
    assigned = assign_packs(now, before, limits)
    by_id = {memory.id: memory for memory in now}
    assert assigned.slots.keys() == by_id.keys()
    assert assigned.gone == before.keys() - by_id.keys()
    for members in contents(by_id, dict(assigned.slots)).values():
        assert len(members) <= size
        held = [by_id[id_] for id_, _ in members]
        assert len(held) == 1 or sum(map(packed_tokens, held)) <= OVERFULL_SHARE * limits.tokens
    positions: dict[str, list[int]] = {}
    for pack, position in assigned.slots.values():
        positions.setdefault(pack, []).append(position)
    assert all(
        sorted(assigned) == list(range(len(assigned))) for assigned in positions.values()
    )


def test_an_oversized_memory_has_a_pack_of_its_own() -> None:
    """It is judged in parts, which would crowd out its neighbours."""
    pool = [
        candidate("a.py", f"f{i}", str(i), line=i, tokens=9_000 if i == 2 else 50)
        for i in range(5)
    ]
    slots = assign_packs(pool, {}, PackProfile()).slots
    assert [slots[memory.id][0] == slots[pool[0].id][0] for memory in pool] == [
        True,
        True,
        False,
        True,
        True,
    ]


def test_whole_packs_go_as_they_stand_and_other_misses_share_throwaway_packs() -> None:
    """Only the misses of a partly judged pack are sent; untouched packs keep id, order and
    members."""
    pool = [candidate("a.py", f"e{i:02}", str(i), line=i, tokens=200) for i in range(60)]
    slots = assign_packs(pool, {}, PackProfile()).slots
    everything = packs_to_send(pool, slots, PackProfile())
    assert {pack.id for pack in everything} == {pack for pack, _ in slots.values()}
    cached_ids = {everything[0].members[0].id, everything[1].members[3].id}
    sent = packs_to_send(
        [memory for memory in pool if memory.id not in cached_ids], slots, PackProfile()
    )
    assert sent[: len(everything) - 2] == everything[2:]
    loose = [memory for pack in sent[len(everything) - 2 :] for memory in pack.members]
    assert {memory.id for memory in loose} == {
        memory.id for pack in everything[:2] for memory in pack.members
    } - cached_ids


def test_limits_follow_the_model_unless_set() -> None:
    """5,000 tokens and 40 memories for a known model; half of both for an unknown one; at most half
    the context."""
    luna, haiku = (
        model_settings("openai", "gpt-6-luna"),
        model_settings("anthropic", "claude-haiku-4-5"),
    )
    assert [(limits.pack_tokens, limits.pack_size) for limits in (luna, haiku, UNKNOWN)] == [
        (5_000, 40),
        (5_000, 60),
        (2_500, 20),
    ]
    assert fit_profile(2_500, 20, context_tokens=2_048) == PackProfile(tokens=1_024, size=20)
    assert fit_profile(5_000, 40, context_tokens=900_000) == PackProfile(tokens=5_000, size=40)
    assert PackProfile().name != PackProfile(size=19).name
