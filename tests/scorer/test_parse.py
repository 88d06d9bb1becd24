"""Replies parsed without trust."""

import json
import random

import pytest

from xscore.scorer.chat_replies import MAX_REASON_CHARS, parse_reply
from xscore.scorer.replies import EMPTY_REPLY, ParsedReply

IDS = ("ka", "qe", "zu", "bi")
SCORES = {"ka": 92, "qe": 3, "zu": 0, "bi": 100}
GOOD = {"scores": SCORES, "reasons": [{"id": "ka", "reason": "writes the row"}]}
MUTATIONS = 10_000


def reply(scores: object, reasons: object = ()) -> str:
    """Return a reply object as text."""
    return json.dumps(
        {"scores": scores, "reasons": list(reasons) if isinstance(reasons, tuple) else reasons}
    )


def test_a_good_reply_is_read_whole() -> None:
    """X06: every score and reason, nothing void, nothing repaired."""
    assert parse_reply(json.dumps(GOOD), IDS) == ParsedReply(SCORES, {"ka": "writes the row"})


@pytest.mark.parametrize(
    "value",
    [
        "92",
        True,
        None,
        92.0,
        0.92,
        1.0,
        -1,
        101,
        10**30,
        [],
        {},
        "NaN",
        float("nan"),
        float("inf"),
        -0.0,
    ],
)
def test_a_value_that_is_no_integer_0_to_100_is_void(value: object) -> None:
    """No value is clamped, rounded or converted."""
    parsed = parse_reply(reply({"ka": value, "qe": 5}), IDS)
    assert (parsed.scores, parsed.void) == ({"qe": 5}, 1)


def test_foreign_ids_are_void_and_counted() -> None:
    """An id of another pack, or an invented one, scores no memory."""
    parsed = parse_reply(reply({"ka": 1, "xx": 99, "KA": 99, "": 99}), IDS)
    assert (parsed.scores, parsed.foreign) == ({"ka": 1}, 3)


def test_an_id_given_twice_with_different_values_is_void() -> None:
    """Contradicting scores of one id are void; equal ones count."""
    parsed = parse_reply(
        '{"scores": {"ka": 10, "qe": 5, "ka": 90, "qe": 5, "zu": 1, "zu": true}}', IDS
    )
    assert (parsed.scores, parsed.void) == ({"qe": 5}, 2)
    assert parse_reply('{"scores": {"ka": 10}, "scores": {"ka": 90}}', IDS).scores == {}


def test_reason_and_reasoning_are_both_accepted() -> None:
    """X25: either name, as a list of objects or as one object; only for ids with a score."""
    listed = [
        {"id": "ka", "reasoning": "a"},
        {"id": "xx", "reason": "foreign"},
        {"id": "zu", "reason": "no score"},
    ]
    assert parse_reply(reply({"ka": 50, "qe": 1, "zu": "x"}, listed), IDS).reasons == {
        "ka": "a"
    }
    assert parse_reply(reply({"ka": 50}, {"ka": "b"}), IDS).reasons == {"ka": "b"}
    assert parse_reply(reply({"ka": 50}, "prose"), IDS).scores == {"ka": 50}


def test_reasons_become_one_printable_line() -> None:
    """A reason cannot move the cursor, reverse text, break UTF-8 or be endless."""
    hostile = "a\x1b[2J\nb\u202e\ud800\x00 " + "c" * 1_000
    (reason,) = parse_reply(
        reply({"ka": 50}, [{"id": "ka", "reason": hostile}]), IDS
    ).reasons.values()
    assert reason.startswith("a [2J b")
    assert reason.endswith("…")
    assert len(reason) == MAX_REASON_CHARS
    assert reason.isprintable() and reason.encode("utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "```json\n{}\n```",
        "Here are the scores:\n{}\nHope this helps!",
        '<think>maybe {{"scores": {{"ka": 1}}}}?</think>\n{}',
    ],
)
def test_a_wrapped_object_is_found(text: str) -> None:
    """Fences, prose and thinking around a JSON object do not lose the scores."""
    parsed = parse_reply(
        text.replace("{{", "{").replace("}}", "}").replace("{}", json.dumps(GOOD)), IDS
    )
    assert (dict(parsed.scores), parsed.repaired) == (GOOD["scores"], True)


def test_small_damage_is_mended() -> None:
    """Trailing commas, single quotes and a missing brace are accepted."""
    assert parse_reply("{'scores': {'ka': 92, 'qe': 3,},", IDS).scores == {"ka": 92, "qe": 3}
    assert parse_reply('{"scores": {"ka": 92, "qe": 3', IDS).scores == {"ka": 92}


def test_a_score_cut_in_the_middle_is_void() -> None:
    """`92` truncated to `9` would be a wrong low score; json-repair alone would accept it."""
    text = json.dumps({"scores": GOOD["scores"]})
    for end in range(len(text)):
        parsed = parse_reply(text[:end], IDS)
        assert all(SCORES[id_] == score for id_, score in parsed.scores.items())


@pytest.mark.parametrize(
    "text",
    ["", "no", "[]", "1", "null", '"x"', "[" * 100_000, "{" * 100_000, "9" * 5_000, "{}"],
)
def test_what_is_no_reply_says_nothing(text: str) -> None:
    """Prose, other JSON and bottomless nesting give no score and raise nothing."""
    assert parse_reply(text, IDS).scores == {}


def test_an_endless_reply_is_void() -> None:
    """An oversized reply is not searched for scores."""
    assert parse_reply(json.dumps(GOOD) + " " * 200_000, IDS) is EMPTY_REPLY


def _mutated(rng: random.Random) -> str:
    text = json.dumps(GOOD)
    for _ in range(rng.randint(1, 4)):
        at, to = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        match rng.randrange(6):
            case 0:
                text = text[:at] + text[to:]
            case 1:
                text = text[:at]
            case 2:
                text = text[:at] + text[at:to] + text[at:]
            case 3:
                alphabet = '{}[]:,"0123456789.eE-+ kaqezubixxNaNtruefalsenull\\\n\ud800'
                text = text[:at] + rng.choice(alphabet) + text[at:]
            case 4:
                text = text.replace(
                    rng.choice(['"ka"', "92", "3", "}", '"scores"']),
                    rng.choice(['"xx"', "1e2", "true", "NaN"]),
                    1,
                )
            case _:
                text = text[at:] + text[:at]
    return text


def test_ten_thousand_mutated_replies_lose_and_invent_nobody() -> None:
    """Every candidate ends judged or unjudged, no score is outside 0..1, none is from an unknown
    id."""
    rng = random.Random(7)
    judged = 0
    for _ in range(MUTATIONS):
        parsed = parse_reply(_mutated(rng), IDS)
        assert parsed.scores.keys() <= set(IDS)
        assert all(
            type(score) is int and 0 <= score / 100 <= 1 for score in parsed.scores.values()
        )
        assert parsed.reasons.keys() <= parsed.scores.keys()
        judged += len(parsed.scores)
    assert 0 < judged < MUTATIONS * len(IDS)


def test_a_reason_holds_no_secret() -> None:
    """P01: a key that a judge repeats or invents is redacted before its reason is cut or stored."""
    key = "ghp_" + "a1B2c3D4e5F6" * 3
    near_the_cut = "x" * (MAX_REASON_CHARS - 10) + " " + key
    parsed = parse_reply(
        reply({"ka": 50, "qe": 7}, {"ka": f"uses {key} here", "qe": near_the_cut}), IDS
    )
    assert parsed.reasons["ka"] == "uses <SECRET:github_token> here"
    assert "ghp_" not in parsed.reasons["qe"]
