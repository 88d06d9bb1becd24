"""Ids inside one prompt."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from xscore.scorer.prompt_builder import PROMPT_CODES, rotated_codes

SECRET = b"s" * 32


@given(
    size=st.integers(0, 60),
    secret=st.binary(min_size=1, max_size=80),
    pack=st.text(max_size=20),
)
def test_every_pack_of_a_size_has_the_same_set(size: int, secret: bytes, pack: str) -> None:
    """The set of ids, and so the reply schema, depends only on the size."""
    assert set(rotated_codes(size, secret=secret, pack=pack)) == set(PROMPT_CODES[:size])


def test_the_deal_is_stable_and_keyed() -> None:
    """The same pack and secret give the same ids; another pack or secret gives others."""

    def deals(secret: bytes) -> list[tuple[str, ...]]:
        return [rotated_codes(20, secret=secret, pack=f"p_{number}") for number in range(8)]

    assert deals(SECRET) == deals(SECRET) != deals(b"t" * 32)
    assert len(set(deals(SECRET))) > 4


@given(size=st.integers(2, 60), pack=st.text(max_size=20))
def test_ids_rise_as_they_are_read_except_at_one_place(size: int, pack: str) -> None:
    """A decoder that answers in the schema's alphabetical order is in reading order, except for one
    step."""
    codes = rotated_codes(size, secret=SECRET, pack=pack)
    assert sum(first > second for first, second in pairwise(codes)) <= 1


def test_a_slot_has_no_favourite_code() -> None:
    """Over many packs a slot gets every code, so a text cannot guess its neighbour's id."""
    firsts = {rotated_codes(20, secret=SECRET, pack=f"p_{number}")[0] for number in range(500)}
    assert firsts == set(PROMPT_CODES[:20])
