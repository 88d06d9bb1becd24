"""Words of scripts other than ASCII, as questions and memories have them."""

import pytest

from xscore.store.term_vectors import query_terms, stem, text_terms, without_overlaps


def words_of(text: str) -> list[str]:
    """Return the readable terms of a question, without neighbors joined."""
    return [term.word for term in query_terms(text) if not term.joined]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("最终一致性", ["最终", "终一", "一致", "致性"]),
        ("HTTP请求的头", ["http", "请求", "求的", "的头"]),
        ("テスト", ["テス", "スト"]),
        ("해시를 계산", ["해시", "시를", "계산"]),
        ("gelöscht wird die Größe", ["gelöscht", "wird", "die", "größe"]),
        ("ParsedÄrger", ["parsed", "ärger", "parsedärger"]),
        ("проверка токена", ["проверка", "токена"]),
    ],
)
def test_words_of_a_question(text: str, words: list[str]) -> None:
    """A script without blanks gives each two neighbors; letters with accents stay in their word."""
    assert words_of(text) == words


def test_a_question_shares_words_with_a_sentence() -> None:
    """`什么是最终一致性` has most of its terms in a sentence about it, and none in another."""
    terms = {term.hash for term in query_terms("什么是最终一致性？") if not term.joined}
    sentence = text_terms("## 最终一致性\n\n写入后，读取操作最终可以看到，是最终一致性。")
    assert len(terms & sentence) >= 5
    assert not terms & text_terms("负载均衡器将请求分发到服务器。")


def test_pairs_are_shown_as_one_word() -> None:
    """`最终`, `终一` and `一致` are shown as `最终一致`, in whatever order they came."""
    assert without_overlaps(["cdn", "一致", "致性", "最终", "终一"]) == ["cdn", "最终一致性"]
    assert without_overlaps(["テス", "ab", "bc"]) == ["テス", "ab", "bc"]


def test_ascii_words_stay_as_they_were() -> None:
    """Identifiers are split, and a compound counts whole, too."""
    assert words_of("parseHTTPHeader2 of x") == ["parse", "http", "header", "parsehttpheader2"]
    assert stem("größe") == "größe"
