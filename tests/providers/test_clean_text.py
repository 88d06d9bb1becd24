"""Text out of a reply, whole and in pieces."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscore.providers.wire_errors import KEY_PLACEHOLDER, MIN_KEY_CHARS, StreamCleaner, clean_text, shown_message

KEY = "sk-sk-test-0123456789"
"""It begins with its own beginning."""
PARTS = st.sampled_from([KEY, KEY[:4], KEY[:15], KEY[3:], "s", "\ud83d", "\ude00", "😀", "é", "[key]", "\x1b", "\x00"])
PIECES = st.lists(st.one_of(PARTS, st.text(alphabet=st.characters(), max_size=3)), max_size=12)


def streamed(pieces: list[str], *, secret: str = KEY) -> tuple[str, list[str]]:
    """Return the whole that pieces make, and what was shown of it."""
    shown: list[str] = []
    text = StreamCleaner(secret=secret, on_text=shown.append)
    for piece in pieces:
        text.add(piece)
    text.end()
    return "".join(shown), shown


@given(pieces=PIECES)
def test_pieces_come_out_as_their_whole_would(pieces: list[str]) -> None:
    """However a text is cut, what is shown and what is kept are the cleaned whole; no piece of it is empty."""
    whole, shown = streamed(pieces)
    assert whole == "".join(shown) == clean_text("".join(pieces), secret=KEY)
    assert all(shown)


@given(pieces=PIECES)
def test_what_comes_out_can_be_kept_and_holds_no_key(pieces: list[str]) -> None:
    """Every piece can be encoded, and nothing that was shown so far holds the key."""
    whole, shown = streamed(pieces)
    for piece in shown:
        piece.encode()
    assert KEY not in whole


@given(text=st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\ud83d\ude00")), max_size=20))
def test_only_half_pairs_are_replaced(text: str) -> None:
    """A pair of surrogates is the character that it means, half a pair is U+FFFD, and all else stays."""
    joined = re.sub(
        "([\ud800-\udbff])([\udc00-\udfff])",
        lambda pair: chr(0x10000 + (ord(pair[1]) - 0xD800) * 0x400 + ord(pair[2]) - 0xDC00),
        text,
    )
    assert clean_text(text, secret="") == re.sub("[\ud800-\udfff]", "\ufffd", joined)


def test_a_pair_cut_in_two_is_one_character() -> None:
    """The first half waits for the second, and is replaced where none comes."""
    assert streamed(["a\ud83d", "\ude00b"]) == ("a😀b", ["a", "😀b"])
    assert streamed(["a\ud83d", "b\ud83d"]) == ("a\ufffdb\ufffd", ["a", "\ufffdb", "\ufffd"])


def test_a_key_cut_in_two_is_cut_out() -> None:
    """What may be the key waits until it is, or is not."""
    assert streamed(["is sk-sk-te", "st-0123456789."]) == (f"is {KEY_PLACEHOLDER}.", ["is ", f"{KEY_PLACEHOLDER}."])
    assert streamed(["is sk-", "sk-", "sk-i"])[0] == "is sk-sk-sk-i"


def test_text_that_is_no_key_is_shown_at_once() -> None:
    """Nothing waits but what the key begins with."""
    assert streamed(["one ", "two ", "three"])[1] == ["one ", "two ", "three"]


@pytest.mark.parametrize("word", ["", "none", "ollama", "password"])
def test_a_word_that_serves_as_key_is_left_in_the_text(word: str) -> None:
    """A server on this machine takes any word as a key; answers may hold it."""
    assert len(word) < MIN_KEY_CHARS
    text = f"The {word} is none of ollama's password."
    assert clean_text(text, secret=word) == text
    assert streamed([text], secret=word) == (text, [text])


def test_an_error_message_can_be_kept_as_well() -> None:
    """Half a pair in what a host says of a failure is replaced as in its replies."""
    assert shown_message({"message": f"bad \ud800 {KEY}"}, secret=KEY, prompt=()) == "bad \ufffd [key]"
