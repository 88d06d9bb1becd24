"""Our span attribute names, compared with the installed conventions package."""

import importlib
import inspect
import pkgutil
import sqlite3
from decimal import Decimal

import pytest
from opentelemetry.semconv import _incubating as incubating
from opentelemetry.semconv._incubating import attributes as in_development
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.semconv.schemas import Schemas

from xscore.extensions.telemetry.attributes import (
    SCHEMA_URL,
    call_attributes,
    server_call_attributes,
    stage_attributes,
    turn_attributes,
)
from xscore.pipeline.parts import ClosedTurn
from xscore.pipeline.turn_clock import Stopwatch
from xscore.records.calls import CallRecord, ServerCall, Stage, Usage
from xscore.records.receipt import Coverage, Latency, TurnFigures
from xscore.records.turn import Turn

MOVED = "Moved to the [OpenTelemetry GenAI semantic conventions repository]"
"""The note on every GenAI name since 1.42: moved elsewhere under the same name."""
USAGE = Usage(**{name: at + 11 for at, name in enumerate(Usage.__struct_fields__)})
CALL = CallRecord(
    id="c",
    turn_id="t",
    stage=Stage.JUDGE,
    provider="openai",
    host="a.example:443",
    model="m",
    started_at=1.0,
    duration_s=1.0,
    outcome="rate_limited",
    candidates=3,
    usage=USAGE,
    cost_usd=Decimal(1),
    estimated=True,
)
FIGURES = TurnFigures(
    command="ask",
    judge="openai:m",
    coverage=Coverage(2, 2, 0, 0, 0),
    unjudged_by_cause={},
    kept=1,
    threshold=0.7,
    near=1,
    scores=(),
    latency=Latency(),
    expected=None,
)
CLOSED = ClosedTurn(
    turn=Turn(task="x", thread="s", id="t"),
    command="ask",
    stopwatch=Stopwatch(),
    now=2.0,
    figures=FIGURES,
    connection=sqlite3.connect(":memory:"),
)
OF_CALL = call_attributes(CALL, thread="s")
OF_SERVER = server_call_attributes(
    ServerCall(
        system="redis",
        operation="claim",
        host="a.example:6379",
        started_at=1.0,
        duration_s=1.0,
        error="shared",
    ),
    turn_id="t",
)
OF_TURN, OF_STAGE = (
    turn_attributes(CLOSED, [CALL], error="x"),
    stage_attributes("t", "judge", error="budget"),
)
NAMES = {*OF_CALL, *OF_SERVER, *OF_TURN, *OF_STAGE}


def conventional() -> dict[str, str]:
    """Return every attribute name in the installed package, with its docstring."""
    docstring_by_name: dict[str, str] = {}
    for info in pkgutil.iter_modules(in_development.__path__):
        module = importlib.import_module(f"{incubating.__name__}.attributes.{info.name}")
        source = inspect.getsource(module)
        for constant, value in vars(module).items():
            if constant.isupper() and isinstance(value, str):
                docstring_by_name[value] = source.partition(f"\n{constant}: ")[2].partition(
                    "\n\n"
                )[0]
    return docstring_by_name


def test_every_name_is_theirs_or_says_that_it_is_ours() -> None:
    """A name outside `xscore.` is in the installed conventions and not deprecated."""
    theirs = conventional()
    for name in NAMES:
        assert name.startswith("xscore.") or name in theirs, (
            f"{name} is no name of the installed conventions"
        )
        deprecated = theirs.get(name, "").partition("Deprecated:")[2]
        assert not deprecated or MOVED in deprecated, f"{name} is deprecated: {deprecated}"


def test_no_name_of_ours_is_one_of_theirs() -> None:
    """Our `xscore.…` names have no conventional name; the stable ones we use are stable there."""
    assert not {name for name in conventional() if name.startswith("xscore.")}
    stable = {
        error_attributes.ERROR_TYPE,
        server_attributes.SERVER_ADDRESS,
        server_attributes.SERVER_PORT,
    }
    assert stable <= OF_CALL.keys()
    assert error_attributes.ERROR_TYPE in OF_TURN.keys() & OF_STAGE.keys()


def test_the_version_is_one_that_is_published() -> None:
    """`SCHEMA_URL` names a schema known to the installed package."""
    assert SCHEMA_URL in {schema.value for schema in Schemas}


@pytest.mark.parametrize("stage", list(Stage))
def test_every_stage_of_a_call_is_an_operation_of_theirs(stage: Stage) -> None:
    """A new stage needs an operation from the conventions' list."""
    from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import (
        GenAiOperationNameValues,
    )

    assert stage.operation in {value.value for value in GenAiOperationNameValues}


def test_every_kind_of_token_is_told() -> None:
    """A new token kind of `Usage` has an attribute, or is deliberately left out."""
    # A part of the cache writes, for which there is no name.
    left_out = {"cache_write_1h_tokens"}
    assert {
        getattr(USAGE, name) for name in Usage.__struct_fields__ if name not in left_out
    } <= set(OF_CALL.values())
