"""The scripted provider reads its prompt and follows its script."""

import json
from pathlib import Path

import pytest

from tests.providers.conftest import MakeRequest
from xscore.platform.errors import QuotaExhausted, RateLimited, UsageError
from xscore.providers.scripted import (
    PlannedError,
    Script,
    ScriptedProvider,
    ScriptRule,
    connect,
    read_script,
)
from xscore.records.calls import Finish
from xscore.settings import Settings


async def _scores(
    provider: ScriptedProvider, judging: MakeRequest, **changes: object
) -> dict[str, int]:
    completion = await provider.complete(judging(**changes))
    scores: dict[str, int] = json.loads(completion.text)["scores"]
    return scores


@pytest.mark.parametrize(
    "rule",
    [
        ScriptRule(entity="entity_k1", score=0.92),
        ScriptRule(entity="*_k1", score=0.92),
        ScriptRule(text="body of k1", score=0.92),
        ScriptRule(path="src/*", entity="k1", score=0.92),
        ScriptRule(task="cache", entity="k1", score=0.92),
    ],
)
async def test_a_rule_fits_by_part_or_glob(judging: MakeRequest, rule: ScriptRule) -> None:
    """Path, entity, text and task match as substrings or globs; all given ones must match."""
    assert await _scores(ScriptedProvider(Script(rules=(rule,))), judging) == {
        "k0": 3,
        "k1": 92,
        "k2": 3,
    }


async def test_the_first_rule_decides(judging: MakeRequest) -> None:
    """Rules are tried in order; a rule for another task does not match."""
    rules = (
        ScriptRule(task="elsewhere", score=1.0),
        ScriptRule(entity="k0", score=0.5),
        ScriptRule(score=0.2),
    )
    assert await _scores(ScriptedProvider(Script(rules=rules)), judging) == {
        "k0": 50,
        "k1": 20,
        "k2": 20,
    }


async def test_planned_errors_meet_their_call(judging: MakeRequest) -> None:
    """The n-th call gets its planned error, and the others pass."""
    errors = (
        PlannedError(at=2, kind="rate_limited", retry_after_s=0.5),
        PlannedError(at=3, kind="quota"),
    )
    provider = ScriptedProvider(Script(errors=errors))
    await provider.complete(judging())
    with pytest.raises(RateLimited) as caught:
        await provider.complete(judging())
    assert caught.value.retry_after_s == 0.5
    with pytest.raises(QuotaExhausted):
        await provider.complete(judging())
    await provider.complete(judging())


async def test_a_memory_may_be_refused(judging: MakeRequest) -> None:
    """A prompt with a refused memory is declined as a whole."""
    provider = ScriptedProvider(Script(rules=(ScriptRule(entity="k1", refuse=True),)))
    assert (await provider.complete(judging())).finish is Finish.REFUSAL
    assert (await provider.complete(judging(n=1))).finish is Finish.STOP


async def test_other_requests_get_the_answer_in_pieces(judging: MakeRequest) -> None:
    """A request without scores gets the script's answer, streamed if requested."""
    pieces: list[str] = []
    provider = ScriptedProvider(Script(answer="It is written by the writer thread."))
    completion = await provider.complete(judging(reply_ids=()), pieces.append)
    assert "".join(pieces) == completion.text == "It is written by the writer thread."
    assert len(pieces) > 1


async def test_a_script_is_a_file(judging: MakeRequest, tmp_path: Path) -> None:
    """`scripted:FILE` takes JSON."""
    file = tmp_path / "script"
    file.write_text(
        '{"default": 0.1, "rules": [{"entity": "k1", "score": 0.9}], "answer": "A"}'
    )
    provider = connect(str(file), Settings())
    assert await _scores(provider, judging) == {"k0": 10, "k1": 90, "k2": 10}
    assert provider.host == "-"


@pytest.mark.parametrize(
    "text",
    [
        '{"defualt": 0.1}',
        '{"rules": [{"score": 90}]}',
        '{"errors": [{"at": 1, "kind": "gremlins"}]}',
        "not json",
        "[1, 2]",
        '{"score": 1}\n7\n',
        '{"default": NaN}',
        "[" * 100_000,
    ],
)
def test_a_script_that_is_wrong_is_a_usage_error(tmp_path: Path, text: str) -> None:
    """Misspelt names, scores out of range and files that are no script are refused, with the file's
    name."""
    file = tmp_path / "script.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"script\.json") as caught:
        read_script(file)
    assert "docs/providers.md" in caught.value.hint
    with pytest.raises(UsageError, match=r"nowhere\.json"):
        read_script(tmp_path / "nowhere.json")
