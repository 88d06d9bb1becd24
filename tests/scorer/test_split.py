"""Oversized memories in parts."""

from hypothesis import given
from hypothesis import strategies as st

from tests.scorer.stdlib_candidates import candidate
from xscore.platform.hashing import content_hash
from xscore.records.judgment import Judgment
from xscore.scorer.repair import PartTally, memory_pieces, split_text

METHOD = (
    "    def m{0}(self):\n"
    "        first = {0}\n"
    "        if first:\n"
    "            return first\n\n"
    "        return None\n\n"
)
CLASS = "class Large:\n" + "".join(METHOD.format(number) for number in range(60))


@given(
    text=st.text(alphabet=st.sampled_from("ab \n\t語"), max_size=400),
    max_chars=st.integers(1, 60),
)
def test_nothing_is_cut_off(text: str, max_chars: int) -> None:
    """The joined parts equal the text, and none is too long or empty."""
    parts = split_text(text, max_chars=max_chars)
    assert "".join(parts) == text
    assert all(0 < len(part) <= max_chars for part in parts) or text == ""


def test_cuts_fall_between_methods() -> None:
    """A class is cut at blank lines before its methods, not inside them."""
    parts = split_text(CLASS, max_chars=1_500)
    assert len(parts) > 3
    assert all(part.startswith("    def m") for part in parts[1:])
    assert min(map(len, parts)) > 700


def test_parts_have_hashes_of_their_own() -> None:
    """A part's key is path, numbered name and text; a whole memory's is its hash."""
    large = candidate("a.py", "Large", CLASS)
    parts = memory_pieces(large, CLASS, max_tokens=400)
    count = len(parts)
    assert count >= 3
    assert {piece.memory for piece in parts} == {large.content_hash}
    for number, piece in enumerate(parts, start=1):
        assert piece.content_hash == content_hash(
            "a.py", f"Large part {number}/{count}", piece.text
        )
    (single,) = memory_pieces(large, CLASS, max_tokens=10_000)
    assert (single.content_hash, single.is_part) == (large.content_hash, False)


def test_a_memory_scores_as_its_best_part_once_all_are_judged() -> None:
    """Score and reason are the best part's; before the last part there is none."""
    parts = memory_pieces(candidate("a.py", "Large", CLASS), CLASS, max_tokens=400)
    tally = PartTally()
    scores = [0.1, 0.9] + [0.2] * (len(parts) - 2)
    results = [
        tally.add(piece, Judgment(piece.content_hash, score, f"because {score}"))
        for piece, score in zip(parts, scores, strict=True)
    ]
    assert results[:-1] == [None] * (len(parts) - 1)
    assert results[-1] == Judgment(parts[0].memory, 0.9, "because 0.9")
