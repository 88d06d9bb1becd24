"""One purchase: what is left of the caps that hold for a list, and asking once before it is a costly one.

It estimates nothing and sends nothing. Trade-off: without a terminal nobody is asked, so only caps hold there.
"""

from dataclasses import replace

from xscore.cost_reports.caps import caps_of, standing
from xscore.errors import UsageError
from xscore.pipeline.parts import Parts
from xscore.records import CapLeft, Estimate


def caps_left(parts: Parts) -> tuple[CapLeft, ...]:
    """Return what is left of each cap; that of a turn is one of the whole list."""
    found = standing(parts.store.connection, caps_of(parts.settings.budget), now=parts.clock())
    return tuple(replace(cap, of="run") if cap.of == "turn" else cap for cap in found)


def agree(parts: Parts, estimate: Estimate) -> None:
    """Ask once where it may cost more than `budget.confirm_usd`. Raises UsageError when the user declines."""
    if not parts.observer.can_confirm:
        return
    cost = estimate.cost_usd
    if (cost is None or cost > parts.settings.budget.confirm_usd) and not parts.observer.confirm(estimate):
        raise UsageError(
            "nothing was sent: the estimate was declined", hint="Narrow with --path, ask fewer, or pass --yes."
        )
