"""Shares of the bundle: ceilings hold, nothing exceeds the budget, and code takes what is left."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.prompts.bundle_memories import entry, memory, said
from xscore.prompts.bundle import CODE_LAYERS, choose_fitting, memory_tokens
from xscore.prompts.bundle_parts import BundleEntry
from xscore.records import Kind, Layer

NOTES = [layer for layer in Layer if layer not in CODE_LAYERS]
EDIT = {Layer.SESSION: 0.18, Layer.PROJECT: 0.12, Layer.USER: 0.05, Layer.GOVERNANCE: 0.05}

sized = st.lists(st.tuples(st.sampled_from(list(Layer)), st.integers(1, 300)), max_size=25)
shares = st.dictionaries(st.sampled_from(list(Layer)), st.floats(0, 1), max_size=6)


def of(layer: Layer, number: int, words: int) -> BundleEntry:
    """An entry of so many words."""
    return entry(memory(f"e{number}", "word " * words, path=f"{number}.py", layer=layer), 0.9, header="")


def spent(entries: list[BundleEntry], chosen: set[str], layers: frozenset[Layer]) -> int:
    """Tokens of what was chosen of these layers."""
    picked = [each.memory for each in entries if each.memory.id in chosen and each.memory.layer in layers]
    return sum(memory_tokens(one, len(one.text)) for one in picked)


@given(sized=sized, ceilings=shares, max_tokens=st.integers(1, 4_000))
def test_ceilings_come_to_one_bundle_at_most(
    sized: list[tuple[Layer, int]], ceilings: dict[Layer, float], max_tokens: int
) -> None:
    """H17, H19, K6: no layer passes its ceiling, all together never the budget, details of a summary included."""
    entries = [of(layer, number, words) for number, (layer, words) in enumerate(sized)]
    if entries:
        entries[1::2] = [replace(each, ranked=None, summary=entries[0].memory.id) for each in entries[1::2]]
    chosen = choose_fitting(entries, max_tokens=max_tokens, ceilings=ceilings)
    whole = max(1.0, sum(ceilings.values()))
    for layer in NOTES:
        assert spent(entries, chosen, frozenset({layer})) <= ceilings.get(layer, 0.0) / whole * max_tokens
    assert spent(entries, chosen, frozenset(Layer)) <= max_tokens


@given(sized=sized, max_tokens=st.integers(1, 4_000))
def test_what_is_not_spent_is_for_code(sized: list[tuple[Layer, int]], max_tokens: int) -> None:
    """K6: code that is left out would not fit into what all other layers have left."""
    entries = [of(layer, number, words) for number, (layer, words) in enumerate(sized)]
    chosen = choose_fitting(entries, max_tokens=max_tokens, ceilings=EDIT)
    left = max_tokens - spent(entries, chosen, frozenset(Layer))
    for each in entries:
        if each.memory.layer in CODE_LAYERS and each.memory.id not in chosen:
            assert memory_tokens(each.memory, len(each.memory.text)) > left


def test_an_edit_is_shown_code_for_the_most_part() -> None:
    """K6: under the ceilings of an edit, notes of every layer leave 60 % and more to code, and code fills it."""
    entries = [of(layer, number, 30) for number, layer in enumerate(list(Layer) * 110)]
    chosen = choose_fitting(entries, max_tokens=8_000, ceilings=EDIT)
    assert spent(entries, chosen, CODE_LAYERS) >= 0.6 * 8_000 - 60


def test_details_come_after_all_that_was_chosen() -> None:
    """H19: a detail gets what its layer has left, and only beside its summary."""
    summary = entry(said("Sums up " + "word " * 100, kind=Kind.SUMMARY, layer=Layer.SESSION), 0.9)
    other = entry(said("Another " + "word " * 100, kind=Kind.EXCHANGE, layer=Layer.SESSION), 0.71)
    detail = BundleEntry(
        said("A detail " + "word " * 100, kind=Kind.EXCHANGE, layer=Layer.SESSION), None, summary=summary.memory.id
    )
    one = memory_tokens(detail.memory, len(detail.memory.text))
    ids = [each.memory.id for each in (summary, other, detail)]
    for room, expected in ((2.5, ids[:2]), (3.5, ids)):
        chosen = choose_fitting([detail, summary, other], max_tokens=int(room * one), ceilings={Layer.SESSION: 1.0})
        assert chosen == set(expected)
    code = entry(memory("f", "word " * 600), 0.9, header="")
    full = memory_tokens(code.memory, len(code.memory.text)) + one + 5
    assert choose_fitting([summary, detail, code], max_tokens=full, ceilings={Layer.SESSION: 0.9}) == {
        ids[0],
        code.memory.id,
    }
    assert choose_fitting([detail], max_tokens=4_000, ceilings={Layer.SESSION: 1.0}) == set()
