"""What calls are for: a stage says all that other modules must know of it."""

from collections.abc import Callable

import pytest

from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.pipeline import answering
from xscore.pipeline.stage_words import STAGE_WORDS, stage_words
from xscore.records.calls import Answerer, Stage, Usage
from xscore.records.receipt import Latency
from xscore.settings import Settings


@pytest.mark.parametrize("stage", Stage)
def test_a_stage_says_its_words_and_its_part_of_a_turn(stage: Stage) -> None:
    """Its part is one that turns are timed by, or it is never part of one."""
    assert stage_words("call", str(stage)) == stage.words != ""
    assert stage.part == "" or stage.part in STAGE_WORDS
    assert stage.part == "" or stage.part in Latency.__struct_fields__


def test_every_stage_of_the_answering_model_is_in_estimates() -> None:
    """Each has an upper bound: a call missing from the estimate would exceed the cost that the user
    was shown."""
    of_answer = {stage for stage in Stage if stage.part == "primary"}
    assert answering.MOST_TOKENS.keys() == of_answer


def bounded_by(bound: Usage) -> Callable[[Settings], Usage]:
    """The most that a call may take, whatever the settings are."""
    return lambda _: bound


def test_a_further_call_of_the_answering_model_counts(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tokens, dollars and call are added to the answer's; one that the settings leave out adds
    nothing."""
    settings = settings_for(server)
    answerer = Answerer("openai", "gpt-5", "api.openai.com")
    plain = answering.answer_estimate(answerer, settings)
    for bound, calls in ((Usage(input_tokens=700, output_tokens=100), 2), (Usage(), 1)):
        bounds = {**answering.MOST_TOKENS, Stage.GRADE: bounded_by(bound)}
        monkeypatch.setattr(answering, "MOST_TOKENS", bounds)
        estimate = answering.answer_estimate(answerer, settings)
        assert estimate.calls == calls
        assert estimate.input_tokens == plain.input_tokens + bound.input_tokens
        assert estimate.output_tokens == plain.output_tokens + bound.output_tokens
        assert estimate.cost_usd is not None and plain.cost_usd is not None
        assert (estimate.cost_usd > plain.cost_usd) is (calls == 2)
