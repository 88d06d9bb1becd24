"""Who gets room in the bundle: each layer up to its ceiling, code with all that the others leave.

It fills best first and never exceeds the budget; the order is given. Trade-off: what is larger than the room that is
left is passed over for something smaller behind it, so that a single giant does not leave the rest of its share empty.
"""

from collections.abc import Mapping, Sequence

from xscore import tokens
from xscore.prompts.bundle_entry import BundleEntry
from xscore.records import Layer, Memory

CODE_LAYERS = frozenset({Layer.GRAPH, Layer.VECTOR})
"""What other layers leave of their ceilings goes to these."""


def fitting(ordered: Sequence[BundleEntry], *, max_tokens: int, ceilings: Mapping[Layer, float]) -> set[str]:
    """Choose the ids of the entries that fit, best first.

    ceilings: layer -> share of the budget in 0..1; where they come to more than 1 they are taken in proportion. A share
    of a code layer keeps that much from the others. Details of summaries get what is left of their layer's share when
    all chosen ones are in.
    """
    chosen: set[str] = set()
    whole = max(1.0, sum(ceilings.values()))
    left = {layer: int(share / whole * max_tokens) for layer, share in ceilings.items() if layer not in CODE_LAYERS}
    spent = 0
    asked = [entry for entry in ordered if entry.ranked is not None]
    for layer, room in left.items():
        taken = _fill([entry for entry in asked if entry.memory.layer == layer], room, chosen)
        left[layer] = room - taken
        spent += taken
    spent += _fill([entry for entry in asked if entry.memory.layer in CODE_LAYERS], max_tokens - spent, chosen)
    for layer, room in left.items():
        details = [entry for entry in ordered if entry.ranked is None and entry.memory.layer == layer]
        spent += _fill([entry for entry in details if entry.summary in chosen], min(room, max_tokens - spent), chosen)
    return chosen


def cost(memory: Memory, chars: int) -> int:
    """Estimate the tokens of so many characters of this memory."""
    return tokens.estimate(chars, kind=memory.kind.value, language=memory.language)


def _fill(entries: Sequence[BundleEntry], budget: int, chosen: set[str]) -> int:
    spent = 0
    opened: set[str] = set()
    for entry in entries:
        header = entry.header if entry.memory.path not in opened else ""
        price = cost(entry.memory, len(entry.resolved or entry.memory.text) + len(header))
        if spent + price <= budget:
            spent += price
            opened.add(entry.memory.path)
            chosen.add(entry.memory.id)
    return spent
