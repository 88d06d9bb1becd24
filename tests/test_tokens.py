"""Tokens are estimated from length alone, and reservations err upwards."""

from xscore.platform import tokens
from xscore.prompts.answer import answer_request
from xscore.prompts.bundle_parts import Bundle
from xscore.records.memory import Kind
from xscore.records.turn import Turn
from xscore.settings import PrimarySettings


def test_a_character_that_takes_several_bytes_counts_as_several() -> None:
    """ASCII counts by characters, anything else by its UTF-8 bytes; a lone surrogate does not
    raise."""
    assert tokens.size("abc", "de") == 5
    assert tokens.size("漢字") == 6
    assert tokens.size("\udc80") == 1


def test_a_reservation_holds_for_scripts_of_a_token_a_character() -> None:
    """The reservation for a Chinese prompt is at least one token a character."""
    turn = Turn(task="修复丢失的写入" * 1_000)
    request = answer_request(
        turn, Bundle("", (), (), 0), model="m", settings=PrimarySettings(max_output_tokens=10)
    )
    assert request.reserved_input_tokens >= len(turn.task)


def test_a_language_has_its_own_ratio_and_prose_is_cheaper_than_unknown_code() -> None:
    """The ratio depends on the language if known, otherwise on the kind."""
    assert tokens.estimate(390, kind=Kind.FUNCTION, language="python") == 100
    assert tokens.estimate(420, kind=Kind.EXCHANGE) == 100
    assert tokens.chars_per_token(Kind.FUNCTION, "cobol") < tokens.chars_per_token(Kind.DOC)
    assert tokens.upper_bound(250) >= tokens.estimate(250)
