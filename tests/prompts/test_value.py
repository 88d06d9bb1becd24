"""The five-term score, term by term."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prompts.bundle_memories import NOW, memory
from xscore.prompts.bundle_parts import memory_value
from xscore.records.memory import Layer
from xscore.settings import BundleSettings, validate_group

SETTINGS = BundleSettings()
shares = st.floats(0, 1)


@given(
    rel=shares,
    days=st.floats(0, 4_000),
    layer=st.sampled_from(list(Layer)),
    confidence=shares,
    importance=shares,
    weights=st.tuples(*[st.floats(0, 2)] * 5),
    decay=st.floats(0, 1),
)
def test_the_score_is_the_formula(
    rel: float,
    days: float,
    layer: Layer,
    confidence: float,
    importance: float,
    weights: tuple[float, float, float, float, float],
    decay: float,
) -> None:
    """H15, K11: w_rel·rel + w_rec·exp(−λ·days) + w_auth·layer + w_conf·confidence +
    w_imp·importance, to 1e-9."""
    names = ("w_rel", "w_rec", "w_auth", "w_conf", "w_imp")
    settings = validate_group(
        BundleSettings, dict(zip(names, weights, strict=True)) | {"decay_per_day": decay}
    )
    at = NOW - days * 86_400
    valued = memory(
        "f", "x", layer=layer, updated_at=at, confidence=confidence, importance=importance
    )
    w_rel, w_rec, w_auth, w_conf, w_imp = weights
    authority = {
        "session": 1.0,
        "project": 0.85,
        "user": 0.7,
        "governance": 0.6,
        "graph": 0.5,
        "vector": 0.4,
    }
    expected = (
        w_rel * rel
        + w_rec * exp(-decay * (NOW - at) / 86_400)
        + w_auth * authority[layer.value]
        + w_conf * confidence
        + w_imp * importance
    )
    assert memory_value(valued, rel, settings=settings, now=NOW) == pytest.approx(
        expected, abs=1e-9
    )


def test_authority_runs_from_the_session_down_to_text() -> None:
    """H16, K4: session > project > user > governance > graph > vector, other things equal."""
    worth = {
        layer: memory_value(memory("f", "x", layer=layer), 0.8, settings=SETTINGS, now=NOW)
        for layer in Layer
    }
    order = [
        Layer.SESSION,
        Layer.PROJECT,
        Layer.USER,
        Layer.GOVERNANCE,
        Layer.GRAPH,
        Layer.VECTOR,
    ]
    assert sorted(worth, key=lambda layer: -worth[layer]) == order
