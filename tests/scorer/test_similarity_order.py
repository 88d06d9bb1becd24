"""Fused order of lexical score and similarity, and the boost of the lexical judge."""

from hypothesis import given
from hypothesis import strategies as st

from xscore.scorer.likeness_rank import LIFT, fuse_ranks, lift_by_likeness

SHARE = st.floats(0, 1)
SCORES = st.dictionaries(st.text("abc", min_size=1, max_size=3), SHARE, max_size=12)


@given(SCORES)
def test_without_likeness_the_order_is_that_of_words(priors: dict[str, float]) -> None:
    """No vectors, no change."""
    assert fuse_ranks(priors, {}) == priors


@given(SCORES, SCORES)
def test_every_memory_keeps_a_prior(
    priors: dict[str, float], cosines: dict[str, float]
) -> None:
    """Fusing neither adds nor drops a memory, with or without vectors, and stays within 0..1."""
    fused = fuse_ranks(priors, cosines)
    assert fused.keys() == priors.keys()
    assert all(0 <= prior <= 1 for prior in fused.values())


def test_what_both_find_comes_first() -> None:
    """Second by words and by similarity ranks above first by only one of them."""
    fused = fuse_ranks(
        {"words": 0.9, "both": 0.8, "meaning": 0.0, "none": 0.0}, {"meaning": 0.9, "both": 0.8}
    )
    assert sorted(fused, key=lambda name: -fused[name])[0] == "both"
    assert fused["none"] == 0 < fused["words"] == fused["meaning"]


@given(SHARE, st.floats(-1, 1), st.floats(-1, 1))
def test_likeness_lifts_and_never_lowers(
    score: float, first_cosine: float, second_cosine: float
) -> None:
    """More similarity never lowers a score, and alone it adds at most `LIFT`."""
    low, high = sorted((first_cosine, second_cosine))
    assert score - 1e-12 <= lift_by_likeness(score, low) <= lift_by_likeness(score, high) <= 1
    assert lift_by_likeness(0.0, high) <= LIFT
