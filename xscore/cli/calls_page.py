"""The calls of one turn as a table, one line an attempt. Rounded; the exact figures are in the JSON."""

from collections.abc import Sequence

from xscore.cli.terminal import cut
from xscore.pipeline.receipt import Json, money, plain
from xscore.records import CallRecord
from xscore.safe_text import one_line
from xscore.wording import dollars, seconds, tokens

HEADS = ("at", "stage", "outcome", "took", "in", "out", "dollars", "memories", "model")
_RIGHT = frozenset({"at", "took", "in", "out", "dollars", "memories"})


def page(calls: Sequence[CallRecord], *, began: float, width: int | None) -> str:
    """Show every attempt. began: Unix seconds of the turn. width: columns of the terminal; None: lines are not cut."""
    if not calls:
        return "no call was made"
    rows = [HEADS, *(_cells(call, began) for call in calls)]
    wide = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    return "\n".join(cut(_line(row, wide), width) for row in rows)


def as_json(call: CallRecord) -> dict[str, Json]:
    """Render one attempt."""
    usage = plain(call.usage)
    own = ("id", "stage", "provider", "host", "model", "started_at", "duration_s", "outcome", "candidates")
    return {
        **{name: value for name, value in plain(call).items() if name in own},
        **usage,
        "cost_usd": money(call.cost_usd),
        "estimated": call.estimated,
    }


def _cells(call: CallRecord, began: float) -> tuple[str, ...]:
    usage = call.usage
    cached = f" ({tokens(usage.cached_input_tokens)} cached)" if usage.cached_input_tokens else ""
    return (
        f"+{max(0.0, call.started_at - began):.1f} s",
        str(call.stage),
        one_line(call.outcome),
        seconds(call.duration_s),
        f"{tokens(usage.input_tokens)}{cached}",
        tokens(usage.output_tokens),
        dollars(call.cost_usd, estimated=call.estimated),
        f"{call.candidates:,}" if call.candidates else "",
        one_line(f"{call.provider}:{call.model} at {call.host}"),
    )


def _line(row: Sequence[str], wide: Sequence[int]) -> str:
    cells = zip(HEADS, row, wide, strict=True)
    return "  ".join(text.rjust(size) if head in _RIGHT else text.ljust(size) for head, text, size in cells).rstrip()
