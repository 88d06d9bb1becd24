"""What holds in either dialect, against a real server on loopback; what may go wrong is in `test_dialect_faults`."""

import json

from tests.providers.conftest import MakeRequest, Spoken
from tests.servers import table
from xscore.records import Finish


async def test_a_judging_call_scores_every_id(spoken: Spoken, judging: MakeRequest) -> None:
    """X05: one call carries a pack and brings back a score for each of its ids, with the host's usage."""
    spoken.server.score = table({"entity_k1": 92})
    async with spoken.connected(spoken.server.url) as provider:
        completion = await provider.complete(judging())
    reply = json.loads(completion.text)
    assert reply["scores"] == {"k0": 3, "k1": 92, "k2": 3}
    assert reply["reasons"] == [{"id": "k1", "reason": "listed as entity_k1"}]
    assert completion.finish is Finish.STOP
    assert completion.usage_reported
    assert completion.usage.input_tokens == spoken.server.counts.prompt_tokens
    assert completion.model == judging().model


async def test_text_arrives_while_it_is_written(spoken: Spoken, judging: MakeRequest) -> None:
    """X11: an answer streams piece by piece, ends with the host's usage, and is one request."""
    spoken.server.answer = "In `cache.judgments`, by the writer's own thread."
    pieces: list[str] = []
    request = judging(reply_ids=(), content=("Explain.",), input_tokens=3)
    async with spoken.connected(spoken.server.url) as provider:
        completion = await provider.complete(request, pieces.append)
    assert len(pieces) > 2
    assert "".join(pieces) == completion.text == spoken.server.answer
    assert completion.usage_reported
    assert completion.usage.input_tokens == spoken.server.counts.prompt_tokens
    assert completion.usage.output_tokens > 5
    assert spoken.server.counts.requests == 1
