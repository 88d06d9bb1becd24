"""What is sent in the OpenAI dialect, and what is left out for a host that refuses it."""

from tests.providers.conftest import MakeRequest
from xscore.providers.openai import AcceptedFields, openai_body, weaker_request
from xscore.records import ReplyForm

OFFICIAL = AcceptedFields(official=True)


def test_a_request_carries_only_what_is_declared(judging: MakeRequest) -> None:
    """No effort, temperature or cache mark is sent where none is declared."""
    fields = openai_body(judging(cache_key=""), AcceptedFields(official=False), stream=False)
    assert set(fields) == {"model", "messages", "max_completion_tokens", "response_format"}


def test_the_vendors_host_is_told_to_keep_nothing(judging: MakeRequest) -> None:
    """P08: the vendor's own host, which may keep completions, is asked not to; others are not sent the field."""
    assert openai_body(judging(), OFFICIAL, stream=False)["store"] is False
    assert "store" not in openai_body(judging(), AcceptedFields(official=False), stream=False)


def test_only_the_pack_is_marked_for_the_cache(judging: MakeRequest) -> None:
    """With and without a mark the model reads the same text, and the turn is never inside the marked prefix."""
    request = judging(model="gpt-6-luna", prefix_ttl_s=1_800)
    user = openai_body(request, OFFICIAL, stream=False)["messages"][1]["content"]
    assert "".join(part["text"] for part in user) == "\n\n".join(request.content)
    assert ["prompt_cache_breakpoint" in part for part in user] == [True, False]
    assert user[0]["text"] == request.content[0]


def test_memories_never_stand_in_the_system_role(judging: MakeRequest) -> None:
    """The system message is ours alone."""
    request = judging()
    system, user = openai_body(request, OFFICIAL, stream=False)["messages"]
    assert system == {"role": "system", "content": request.system}
    assert user["role"] == "user"


def test_a_weaker_dialect_ends(judging: MakeRequest) -> None:
    """A host that refuses everything is asked finitely often, and an unrelated refusal changes nothing."""
    request = judging(model="gpt-6-luna", temperature=0.0, prefix_ttl_s=1_800)
    taken: AcceptedFields | None = OFFICIAL
    steps = 0
    while taken is not None:
        words = "response_format temperature store prompt_cache_key prompt_cache_options prompt_cache_breakpoint"
        taken = weaker_request(taken, request, {"message": f"{words} stream_options max_completion_tokens"})
        steps += 1
    assert steps < 15
    assert weaker_request(OFFICIAL, request, {"message": "the moon is full"}) is None
    assert weaker_request(OFFICIAL, request, "plain text about response_format") is None


def test_a_field_named_by_its_place_is_recognised(judging: MakeRequest) -> None:
    """Servers built on FastAPI name the field in `detail[].loc`; the input they echo is not read."""
    echo = {"detail": [{"loc": ["body", "prompt_cache_key"], "input": {"text": "response_format"}}]}
    found = weaker_request(OFFICIAL, judging(), echo)
    assert found is not None
    assert found.without == {"prompt_cache_key"}
    assert found.form is ReplyForm.JSON_SCHEMA
