"""A reply about several questions: no score ever counts for another question."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscore.extensions.batch.shared_prompts import QUESTIONS_LAYOUT
from xscore.scorer.chat_replies import parse_replies

QUESTIONS, IDS = ("q1", "q2", "q3"), ("ka", "qe", "bi")
TRUE = {
    question: {id_: 10 * at + nth for nth, id_ in enumerate(IDS)}
    for at, question in enumerate(QUESTIONS, start=1)
}
"""No two of these scores are equal, so each identifies its question."""
WHOLE = json.dumps({"scores": TRUE, "reasons": [{"q": "q2", "id": "ka", "reason": "why not"}]})


def scores(text: str) -> dict[str, dict[str, float]]:
    """Return the scores read for each question."""
    replies = parse_replies(text, IDS, QUESTIONS)
    return {code: dict(reply.scores) for code, reply in zip(QUESTIONS, replies, strict=True)}


def assert_nothing_is_misplaced(scores_by_question: dict[str, dict[str, float]]) -> None:
    """Assert that every score is the true one of its question and id."""
    for question, scores in scores_by_question.items():
        assert scores.items() <= TRUE[question].items()


def test_a_whole_reply_is_read() -> None:
    """Every score is under its own question, with a reason where requested."""
    replies = parse_replies(WHOLE, IDS, QUESTIONS)
    assert scores(WHOLE) == TRUE and not any(reply.repaired for reply in replies)
    assert [dict(reply.reasons) for reply in replies] == [{}, {"ka": "why not"}, {}]


@pytest.mark.parametrize(
    ("spoiled", "lost"),
    [
        (WHOLE.replace('"q2": {"ka": 20', '"q2": {"ka": NaN', 1), {("q2", "ka")}),
        (WHOLE.replace('"q2": {"ka": 20', '"q2": {"ka": 700', 1), {("q2", "ka")}),
        (WHOLE.replace('"q2": {"ka": 20', '"q2": {"ka": "20"', 1), {("q2", "ka")}),
        (WHOLE.replace('"q2": {"ka": 20', '"q2": {"ka": true', 1), {("q2", "ka")}),
        (WHOLE.replace('"q2": {"ka": 20', '"q2": {"ka": 20.0', 1), {("q2", "ka")}),
        (WHOLE.replace('"q2": {"ka": 20', '"q2": {"ka": 99, "ka": 20', 1), {("q2", "ka")}),
        (WHOLE.replace('"q2": {"ka": 20, ', '"q2": {', 1), {("q2", "ka")}),
        (WHOLE.replace('"q2": {', '"q9": {', 1), {("q2", id_) for id_ in IDS}),
        (
            WHOLE.replace('"q2": {', '"q1": {', 1),
            {(q, id_) for q in ("q1", "q2") for id_ in IDS},
        ),
        (
            WHOLE.replace('"q2": {"ka": 20, "qe": 21, "bi": 22}', '"q2": 20', 1),
            {("q2", id_) for id_ in IDS},
        ),
        (
            WHOLE.replace('{"scores"', '{"scores": {}, "scores"', 1),
            {(q, id_) for q in QUESTIONS for id_ in IDS},
        ),
        (
            json.dumps({"scores": TRUE["q1"], "reasons": []}),
            {(q, id_) for q in QUESTIONS for id_ in IDS},
        ),
    ],
)
def test_what_is_in_doubt_is_void_and_the_rest_counts(
    spoiled: str, lost: set[tuple[str, str]]
) -> None:
    """NaN, out of range, string, boolean, fraction, duplicate, missing, foreign, flat: only those
    scores are lost."""
    assert spoiled != WHOLE
    read = scores(spoiled)
    assert_nothing_is_misplaced(read)
    assert {(q, id_) for q in QUESTIONS for id_ in IDS if id_ not in read[q]} == lost


def test_a_code_given_twice_with_a_conflict_inside_is_void() -> None:
    """A second object of the same question cannot hide a contradiction in the first."""
    twice = '{"scores": {"q1": {"ka": 1, "ka": 10}, "q1": {"ka": 10}}, "reasons": []}'
    assert scores(twice)["q1"] == {}


def test_foreign_codes_are_counted() -> None:
    """Unrequested questions and ids are void and reported."""
    text = json.dumps(
        {"scores": {**TRUE, "q7": {"ka": 1}, "q1": {**TRUE["q1"], "zz": 5}}, "reasons": []}
    )
    replies = parse_replies(text, IDS, QUESTIONS)
    assert scores(text) == TRUE and sum(reply.foreign for reply in replies) == 2


def test_a_reply_is_counted_as_repaired_once() -> None:
    """A reply to three questions in the midst of prose is one repaired reply."""
    replies = parse_replies(f"Sure: {WHOLE}", IDS, QUESTIONS)
    assert [len(reply.scores) for reply in replies] == [3, 3, 3]
    assert sum(reply.repaired for reply in replies) == 1


@given(st.integers(0, len(WHOLE)))
def test_a_reply_cut_anywhere_keeps_only_what_stands_in_full(at: int) -> None:
    """Truncation: a score cut in the middle, or of an unnamed question, never counts."""
    assert_nothing_is_misplaced(scores(WHOLE[:at]))


@given(
    st.integers(0, len(WHOLE) - 1),
    st.integers(1, 12),
    st.sampled_from(["", "}", "{", ",", '"', " prose ", "q1", "}}"]),
)
def test_damage_anywhere_attributes_nothing_to_another_question(
    start: int, length: int, put: str
) -> None:
    """A lost or overwritten stretch loses scores; what is left counts for its own question and id.

    But for damage to digits or codes themselves: what reads as another whole number, id or code
    cannot be told.
    """
    gone = WHOLE[start : start + length]
    if any(char.isalnum() for char in gone) or put == "q1":
        return
    assert_nothing_is_misplaced(scores(WHOLE[:start] + put + WHOLE[start + length :]))


@given(st.text(max_size=200))
def test_any_text_is_read_without_error(text: str) -> None:
    """Prose, partial JSON, control characters: one reply for each question, with valid scores or
    none."""
    assert set(scores(text)) == set(QUESTIONS)


def test_one_question_is_read_like_one_turn() -> None:
    """A single repeated question uses the same layout; a flat reply to it is void."""
    nested = QUESTIONS_LAYOUT.read('{"scores": {"q1": {"ka": 92}}, "reasons": []}', ("ka",))
    flat = QUESTIONS_LAYOUT.read('{"scores": {"ka": 92}, "reasons": []}', ("ka",))
    assert (nested.scores, flat.scores) == ({"ka": 92}, {})
