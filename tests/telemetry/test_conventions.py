"""The names of our figures in spans, against the conventions package that is installed."""

import importlib
import inspect
import pkgutil

import pytest
from opentelemetry.semconv import _incubating as incubating
from opentelemetry.semconv._incubating import attributes as in_development
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.semconv.schemas import Schemas

from xscore.extensions.telemetry.attributes import (
    CALL_ATTRIBUTES,
    OPERATIONS,
    SCHEMA_URL,
    STAGE_ATTRIBUTES,
    TURN_ATTRIBUTES,
)
from xscore.records import Stage, Usage

MOVED = "Moved to the [OpenTelemetry GenAI semantic conventions repository]"
"""Said of every GenAI name since 1.42: they are kept elsewhere, under the same name."""
NAMES = {*CALL_ATTRIBUTES.values(), *TURN_ATTRIBUTES.values(), *STAGE_ATTRIBUTES.values()}


def conventional() -> dict[str, str]:
    """Every attribute name of the installed package, with what its module says below it."""
    found: dict[str, str] = {}
    for info in pkgutil.iter_modules(in_development.__path__):
        module = importlib.import_module(f"{incubating.__name__}.attributes.{info.name}")
        source = inspect.getsource(module)
        for constant, value in vars(module).items():
            if constant.isupper() and isinstance(value, str):
                found[value] = source.partition(f"\n{constant}: ")[2].partition("\n\n")[0]
    return found


def test_every_name_is_theirs_or_says_that_it_is_ours() -> None:
    """A name outside `xscore.` is one that the installed conventions have, and have not replaced by another."""
    theirs = conventional()
    for name in NAMES:
        assert name.startswith("xscore.") or name in theirs, f"{name} is no name of the installed conventions"
        deprecated = theirs.get(name, "").partition("Deprecated:")[2]
        assert not deprecated or MOVED in deprecated, f"{name} is deprecated: {deprecated}"


def test_no_name_of_ours_is_one_of_theirs() -> None:
    """What we call `xscore.…` has no name there; the stable ones among theirs are stable."""
    assert not {name for name in conventional() if name.startswith("xscore.")}
    assert (
        error_attributes.ERROR_TYPE == TURN_ATTRIBUTES["error"] == CALL_ATTRIBUTES["error"] == STAGE_ATTRIBUTES["error"]
    )
    assert CALL_ATTRIBUTES["address"] == server_attributes.SERVER_ADDRESS
    assert CALL_ATTRIBUTES["port"] == server_attributes.SERVER_PORT


def test_the_version_is_one_that_is_published() -> None:
    """`CONVENTIONS` names a schema that the installed package knows."""
    assert SCHEMA_URL in {schema.value for schema in Schemas}


def test_no_two_figures_share_a_name() -> None:
    """Within one sort of span each name stands for one figure."""
    for names in (CALL_ATTRIBUTES, TURN_ATTRIBUTES, STAGE_ATTRIBUTES):
        assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("stage", list(Stage))
def test_every_stage_of_a_call_is_an_operation_of_theirs(stage: Stage) -> None:
    """A stage that is added needs an operation, of the conventions' own list."""
    from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import GenAiOperationNameValues

    assert OPERATIONS[stage] in {value.value for value in GenAiOperationNameValues}


def test_every_kind_of_token_is_told() -> None:
    """A kind of token that is added to `Usage` is named here, or left out on purpose."""
    left_out = {"cache_write_1h_tokens"}  # a part of the cache writes, for which there is no name
    assert set(Usage.__struct_fields__) - left_out <= set(CALL_ATTRIBUTES)
