"""The schema of a judging reply."""

import json

from hypothesis import given
from hypothesis import strategies as st

from xscore.providers.reply_schema import reply_schema, response_format

IDS = st.lists(st.text(alphabet="abcdefghij", min_size=2, max_size=2), min_size=1, max_size=60, unique=True).map(tuple)


@given(IDS)
def test_every_id_is_a_required_integer(ids: tuple[str, ...]) -> None:
    """Each id of the pack is required, bounded, and nothing else is allowed: strictly."""
    asked = response_format(ids)["json_schema"]
    assert asked["strict"] is True
    scores = asked["schema"]["properties"]["scores"]
    assert scores["required"] == list(ids) == list(scores["properties"])
    assert scores["additionalProperties"] is False
    assert all(score == {"type": "integer", "minimum": 0, "maximum": 100} for score in scores["properties"].values())


@given(IDS)
def test_strict_mode_takes_the_schema(ids: tuple[str, ...]) -> None:
    """As strict mode wants: every object closed, every property required."""

    def check(schema: dict[str, object]) -> None:
        if schema.get("type") == "object":
            properties = schema["properties"]
            assert isinstance(properties, dict)
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(properties)
            for inner in properties.values():
                check(inner)

    check(reply_schema(ids))


def test_the_same_ids_make_the_same_bytes() -> None:
    """Two packs of one size share a compiled schema at the host."""
    first = json.dumps(response_format(("ka", "qe")))
    assert first == json.dumps(response_format(("ka", "qe")))


def test_bounds_can_be_left_out() -> None:
    """For hosts that answer 400 to numeric bounds the integers stand alone."""
    plain = reply_schema(("ka",), bounds=False)
    assert plain["properties"]["scores"]["properties"]["ka"] == {"type": "integer"}
