"""Shares of the bundle: ceilings hold, nothing exceeds the budget, and code takes the rest."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.prompts.bundle_memories import entry, memory
from xscore.prompts.bundle import CODE_LAYERS, PAST_ANSWERS_SHARE, choose_fitting, memory_tokens
from xscore.prompts.bundle_parts import BundlePiece
from xscore.records.memory import Kind, Layer

NOTES = [layer for layer in Layer if layer not in CODE_LAYERS]
EDIT = {Layer.SESSION: 0.18, Layer.PROJECT: 0.12, Layer.USER: 0.05, Layer.GOVERNANCE: 0.05}

sized = st.lists(st.tuples(st.sampled_from(list(Layer)), st.integers(1, 300)), max_size=25)
shares = st.dictionaries(st.sampled_from(list(Layer)), st.floats(0, 1), max_size=6)


def of(layer: Layer, number: int, words: int) -> BundlePiece:
    """A piece of N words."""
    sized = memory(f"e{number}", "word " * words, path=f"{number}.py", layer=layer)
    return BundlePiece(
        entry(sized, 0.9, header=""), sized.text, memory_tokens(sized, len(sized.text))
    )


def spent(entries: list[BundlePiece], chosen: set[str], layers: frozenset[Layer]) -> int:
    """Return the tokens chosen from these layers."""
    picked = [
        candidate.memory
        for candidate in entries
        if candidate.memory.id in chosen and candidate.memory.layer in layers
    ]
    return sum(
        memory_tokens(picked_memory, len(picked_memory.text)) for picked_memory in picked
    )


@given(sized=sized, ceilings=shares, max_tokens=st.integers(1, 4_000))
def test_ceilings_come_to_one_bundle_at_most(
    sized: list[tuple[Layer, int]], ceilings: dict[Layer, float], max_tokens: int
) -> None:
    """H17, H19, K6: no layer exceeds its ceiling, all together never the budget, details
    included."""
    entries = [of(layer, number, words) for number, (layer, words) in enumerate(sized)]
    if entries:
        summary = entries[0].memory.id
        entries[1::2] = [
            replace(piece, entry=replace(piece.entry, ranked=None, summary=summary))
            for piece in entries[1::2]
        ]
    chosen = choose_fitting(entries, max_tokens=max_tokens, ceilings=ceilings)
    total = max(1.0, sum(ceilings.values()))
    for layer in NOTES:
        assert (
            spent(entries, chosen, frozenset({layer}))
            <= ceilings.get(layer, 0.0) / total * max_tokens
        )
    assert spent(entries, chosen, frozenset(Layer)) <= max_tokens


@given(sized=sized, ceilings=shares, max_tokens=st.integers(1, 4_000))
def test_past_answers_have_a_share_of_their_own(
    sized: list[tuple[Layer, int]], ceilings: dict[Layer, float], max_tokens: int
) -> None:
    """Exchanges and summaries of all layers stay within one share; stated memories do not count."""
    entries = [of(layer, number, words) for number, (layer, words) in enumerate(sized)]
    for number, piece in enumerate(entries):
        if number % 2:
            past = replace(piece.memory, kind=Kind.EXCHANGE)
            entries[number] = replace(piece, entry=replace(piece.entry, memory=past))
    chosen = choose_fitting(entries, max_tokens=max_tokens, ceilings=ceilings)
    stated = [piece for piece in entries[::2] if piece.memory.layer in NOTES]
    assert spent(entries[1::2], chosen, frozenset(NOTES)) <= PAST_ANSWERS_SHARE * max_tokens
    alone = choose_fitting(stated, max_tokens=max_tokens, ceilings=ceilings)
    assert {piece.memory.id for piece in stated} & chosen == alone


@given(sized=sized, max_tokens=st.integers(1, 4_000))
def test_what_is_not_spent_is_for_code(sized: list[tuple[Layer, int]], max_tokens: int) -> None:
    """K6: omitted code would not fit into what all other layers leave."""
    entries = [of(layer, number, words) for number, (layer, words) in enumerate(sized)]
    chosen = choose_fitting(entries, max_tokens=max_tokens, ceilings=EDIT)
    unspent = max_tokens - spent(entries, chosen, frozenset(Layer))
    for candidate in entries:
        if candidate.memory.layer in CODE_LAYERS and candidate.memory.id not in chosen:
            assert memory_tokens(candidate.memory, len(candidate.memory.text)) > unspent
