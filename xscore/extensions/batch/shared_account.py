"""What sharing prompts cost, and what the same questions would have cost one a call.

Tokens of the separate prompts are counted by the ratio that the host showed, dollars against the
cheaper separate way, in which the host's prefix cache serves rubric and pack. Trade-off: what a
model would have replied to each question alone is taken from its part of the shared reply.
"""

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from xscore.cli.phrases import describe_tokens
from xscore.cli.text_layout import faint
from xscore.pipeline.estimating import CACHE_STEP_TOKENS
from xscore.platform import tokens
from xscore.platform.figures import format_dollars, format_share
from xscore.platform.text import counted
from xscore.providers.catalog import model_settings
from xscore.providers.prices import PriceList
from xscore.records.calls import Request, Usage
from xscore.records.receipt import StageUsage, add_costs


class JudgingTotals(Struct, frozen=True, kw_only=True):
    """Judging calls and their usage."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None

    @classmethod
    def of(cls, stage: StageUsage, *, less: StageUsage | None = None) -> "JudgingTotals":
        """Return these figures of a stage, less those of another."""
        less = less or StageUsage()
        cost_usd = None
        if stage.cost_usd is not None and less.cost_usd is not None:
            cost_usd = stage.cost_usd - less.cost_usd
        return cls(
            calls=stage.calls - less.calls,
            input_tokens=stage.usage.input_tokens - less.usage.input_tokens,
            output_tokens=stage.usage.output_tokens - less.usage.output_tokens,
            cost_usd=cost_usd,
        )


class AskListReport(Struct, frozen=True, kw_only=True):
    """The report of a run; `together` in its JSON."""

    id: str
    """The ledger id of shared calls, `a_…`; empty if there were none."""
    questions: int
    asked: int
    questions_a_call: int
    ended: str
    """Why not all were asked: `interrupted`, `provider` or `store`; empty if all were."""
    judged_together: int
    shared: StageUsage
    took: JudgingTotals
    """Cost of all judging: shared, and for single questions."""
    alone: JudgingTotals
    """The cost at one question a call, without a prefix cache."""
    alone_at_best_usd: Decimal | None
    """That cost if rubric and pack came from the host's prefix cache for every question but the
    first."""
    saved: JudgingTotals
    """`alone` minus `took`, in dollars by the cheaper separate way; negative if sharing cost
    more."""
    warnings: tuple[str, ...] = ()
    exit_code: int = 0


class SeparatePromptsCost(Struct):
    """Adds up what the answered shared prompts would have cost at one question a call."""

    provider: str
    host: str
    prices: PriceList = PriceList()
    alone: StageUsage = StageUsage()
    at_best_usd: Decimal | None = Decimal(0)
    """The cost at one question a call with the prefix cached for every question but the
    first."""

    def add(self, request: Request, usage: Usage, alone: Sequence[int]) -> None:
        """Add one answered shared prompt. alone: input tokens of the separate prompts."""
        counted_by_host = usage.input_tokens / max(1, request.input_tokens)
        replies_tokens = max(0, usage.output_tokens - tokens.REPLY_FRAME)
        output_tokens = replies_tokens // len(request.reply_questions) + tokens.REPLY_FRAME
        prefix_tokens = _prefix_tokens(request, usage)
        cache_floor = model_settings(self.provider, request.model).cache_floor
        is_long = prefix_tokens >= cache_floor and request.stable_parts > 0
        for nth, input_tokens in enumerate(alone):
            alone_usage = Usage(
                input_tokens=round(input_tokens * counted_by_host), output_tokens=output_tokens
            )
            cached_tokens = 0
            # The first question fills the cache for the others, unless an earlier prompt had.
            if is_long and (nth > 0 or usage.cached_input_tokens > 0):
                cached_tokens = min(prefix_tokens, alone_usage.input_tokens)
            best_usage = replace(alone_usage, cached_input_tokens=cached_tokens)
            cost = self.prices(self.provider, request.model, self.host, alone_usage)
            cost_at_best = self.prices(self.provider, request.model, self.host, best_usage)
            self.alone += StageUsage(calls=1, usage=alone_usage, cost_usd=cost)
            self.at_best_usd = add_costs(self.at_best_usd, cost_at_best)


def _prefix_tokens(request: Request, usage: Usage) -> int:
    """Return what of a prompt a prefix cache may serve, in the steps that hosts cache by."""
    prefix = tokens.size(request.system, *request.content[: request.stable_parts])
    share = prefix / max(1, tokens.size(request.system, *request.content))
    return int(usage.input_tokens * share) // CACHE_STEP_TOKENS * CACHE_STEP_TOKENS


def render_shared_account(report: AskListReport) -> str:
    """Render the report for a terminal: what was asked, what it took, and what sharing saved."""
    took = report.took
    head = f"asked {report.asked} of {counted(report.questions, 'question')}"
    if report.ended:
        head += (
            f", then it ended: {report.ended}. What was judged is kept: run the same command to"
            " continue."
        )
    if not took.calls:
        return f"{head}\n{faint('nothing was sent to the judge')}"
    calls = counted(took.calls, "call")
    if report.shared.calls:
        sharing = min(report.questions_a_call, report.questions)
        calls += f" ({report.shared.calls:,} of them shared by up to {sharing} questions)"
    spent_tokens = describe_tokens(took.input_tokens, took.output_tokens)
    cost = format_dollars(took.cost_usd, estimated=report.shared.estimated)
    lines = [head, faint(f"judging took {calls}, {spent_tokens}, {cost}")]
    if report.shared.calls:
        lines += [faint(_describe_separate(report)), _describe_saving(report)]
    return "\n".join(lines)


def _describe_separate(report: AskListReport) -> str:
    """Say what one question a call would have taken."""
    alone = report.alone
    alone_tokens = describe_tokens(alone.input_tokens, alone.output_tokens)
    cost = format_dollars(alone.cost_usd)
    best = report.alone_at_best_usd
    if best is not None:
        cost += f", {format_dollars(best)} with prefixes cached"
    return f"one question a call: {counted(alone.calls, 'call')}, {alone_tokens}, {cost}"


def _describe_saving(report: AskListReport) -> str:
    """Say what sharing saved, or by how much it took more: what failed was paid for, too."""
    saved = report.saved
    alone = report.alone
    if saved.calls < 0 or saved.input_tokens < 0:
        more_calls = counted(max(0, -saved.calls), "call")
        more_tokens = format_share(max(0, -saved.input_tokens), alone.input_tokens)
        return (
            f"sharing saved nothing: it took {more_calls} and {more_tokens} of the input tokens"
            " more than one question a call"
        )
    part = format_share(saved.input_tokens, alone.input_tokens)
    calls = counted(alone.calls, "call")
    return f"saved {saved.calls:,} of {calls}, {part} of the input tokens{_saved(report)}"


def _saved(report: AskListReport) -> str:
    took = report.took.cost_usd
    alone = report.alone.cost_usd
    saved = report.saved.cost_usd
    if saved is None or took is None or alone is None:
        return ", unpriced"
    saved_uncached = alone - took
    if saved_uncached > saved:
        return f", {_signed(saved)} to {_signed(saved_uncached)}"
    return f", {_signed(saved)}"


def _signed(usd: Decimal) -> str:
    if usd < 0:
        return f"−{format_dollars(-usd)}"
    return format_dollars(usd)
