"""Settings of money and time: what may be spent, and how much worse a figure may get."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from xscore.settings.part import REPO, Part, Positive, Share, Tolerance

MOST_USD = 1_000_000
"""A larger cap is a slip of the hand, and its digits could fill memory."""
Dollars = Annotated[Decimal, Field(ge=0, le=MOST_USD, allow_inf_nan=False)]


class BudgetSettings(Part):
    """What a turn may cost."""

    max_usd: Dollars | None = Field(
        Decimal("1.00"),
        description="Cap on one turn, in dollars, reserved before each send.",
    )
    max_usd_day: Dollars | None = Field(
        None,
        description="Cap on one day (UTC) of a repository, over all its turns and processes; unset: none.",
    )
    max_usd_repository: Dollars | None = Field(
        None,
        description="Cap on all that a repository's store has ever cost; unset: none.",
    )
    confirm_usd: Dollars = Field(
        Decimal("0.25"),
        description="On a terminal, ask before a turn whose estimate is above this.",
    )
    deadline_s: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Seconds a turn may take, from the start of the command; what is not judged by then is unjudged.",
    )


class GateSettings(Part):
    """How much worse than its baseline a figure may be before `xscore report --check` fails."""

    cost: Tolerance = Field(0.05, description="Share by which dollars may rise.", json_schema_extra=REPO)
    calls: Tolerance = Field(0.05, description="Share by which calls may rise.", json_schema_extra=REPO)
    tokens: Tolerance = Field(
        0.05, description="Share by which tokens of each kind may rise, in or out.", json_schema_extra=REPO
    )
    coverage: Share = Field(
        0.0, description="By how much the share of judged candidates may fall.", json_schema_extra=REPO
    )
    recall: Share = Field(
        0.02, description="By how much recall may fall, where both were measured.", json_schema_extra=REPO
    )
    p95: Tolerance = Field(
        0.5, description="Share by which the p95 of a stage may rise before it is an alert.", json_schema_extra=REPO
    )
    latency: Literal["alert", "fail", "off"] = Field(
        "alert",
        description="What a p95 beyond that does: name it, fail the check as well, or nothing.",
        json_schema_extra=REPO,
    )
    min_samples: Positive = Field(
        30, description="Fewer samples on either side make a p95 inconclusive.", json_schema_extra=REPO
    )
