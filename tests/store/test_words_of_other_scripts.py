"""Words of scripts other than ASCII, as questions and memories have them."""

import pytest

from xscore.store.term_vectors import (
    MOST_JOINED,
    query_terms,
    stem,
    text_terms,
    without_overlaps,
)


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
    """`最终`, `终一` and `一致` are shown as `最终一致`, in whatever order they came, where they
    follow each other in the task."""
    words = ["cdn", "一致", "致性", "最终", "终一"]
    assert without_overlaps(words, "cdn 的最终一致性？") == ["cdn", "最终一致性"]
    assert without_overlaps(words[1:4], "最终一致性") == ["一致性", "最终"]
    assert without_overlaps(["テス", "ab", "bc"], "テスト ab bc") == ["テス", "ab", "bc"]
    assert without_overlaps(["日本", "本日"], "日本 本日") == ["日本", "本日"]


def test_a_long_run_is_shown_in_parts() -> None:
    """However long a question is, the words of a reason are short and soon found."""
    task = "".join(map(chr, range(0x4E00, 0x5E00)))
    pairs = [task[at : at + 2] for at in range(len(task) - 1)]
    shown = without_overlaps(pairs, task)
    assert max(map(len, shown)) == MOST_JOINED
    assert "".join(shown).startswith(task[:MOST_JOINED])


def test_ascii_words_stay_as_they_were() -> None:
    """Identifiers are split, and a compound counts whole, too."""
    assert words_of("parseHTTPHeader2 of x") == ["parse", "http", "header", "parsehttpheader2"]
    assert stem("größe") == "größe"
