"""The keys of judgments, as earlier versions wrote them: what was paid for is found again."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeRepo
from tests.pipeline.conftest import FILES, TASK
from xscore.cache.judgment_store import insert_judgments
from xscore.cache.keys import FIRST_DRAW, judge_key
from xscore.pipeline.build import Pipeline
from xscore.pipeline.judge_prompts import sharing_prompts
from xscore.platform import database
from xscore.records.judgment import Judgment
from xscore.settings import JudgeSettings, Settings, validate_group

TURN_KEY = "ee3e0c7a08c097f946242bf237c52350"
"""Key of `TASK`."""
CHAT_KEY = "86313a49dbf9f50a141f1d8248a1950d"
"""Key of OpenAI's `gpt-6-luna` through chat, in packs."""


def replaying(**judge: Any) -> Settings:
    """Settings of a replay by this judge, which needs no key and sends nothing."""
    return Settings(judge=validate_group(JudgeSettings, {"replay": True, **judge}))


@pytest.mark.parametrize(
    ("judge", "key"),
    [
        ({"model": "openai:gpt-6-luna"}, "03a29ce4ea0fb26f3250ac99e5c308f1"),
        (
            {"model": "openai:gpt-6-luna", "wire": "decisions-score"},
            "23aef2a8a50edae37e64a12b664adbba",
        ),
        ({"model": "openai:gpt-6-luna", "wire": "chat"}, "86313a49dbf9f50a141f1d8248a1950d"),
        (
            {"model": "openai-chat:gpt-6-luna", "pack_size": 1},
            "18e13219825b499c6d7164a40ecb40e7",
        ),
        (
            {"model": "openai-chat:gpt-6-luna", "order": "turn_first"},
            "efd9867e108623d4c2e36765ccd7b3c2",
        ),
        (
            {"model": "openai-chat:gpt-6-luna", "rubric": "general"},
            "6d420e165b65d8b87824c68ab6bfed74",
        ),
        (
            {"model": "openai-chat:gpt-6-luna", "rubric": "Only what sells."},
            "6e6d76e24a08738073546497c386f8b5",
        ),
        (
            {"model": "openai:gpt-6-luna", "rubric": "Only what sells."},
            "44a1055f4987598a91c5b6813fe7d222",
        ),
        ({"model": "typesafe:jev-1.14.0"}, "d71f3558e88fd84b0688fdc288b23640"),
        ({"model": "anthropic:claude-haiku-5-5"}, "00a53d4fa44a8bc74f8b0356fa71ad09"),
        ({"model": "openai:some-model-of-2027"}, "7cffe2e317dbaff76eca34f30898346f"),
        ({"model": "lexical"}, "1fa20e0aba33cc006311ae77bec4ac05"),
    ],
)
async def test_a_judge_has_the_key_it_always_had(
    shop: Path, judge: dict[str, Any], key: str
) -> None:
    """Provider, host, model, reasoning, prompts, order and packs make the same key in every
    version."""
    async with Pipeline.open(shop, replaying(**judge)) as pipeline:
        assert judge_key(pipeline.parts.judge.identity) == key


async def test_prompts_that_questions_share_are_another_judge(shop: Path) -> None:
    """Their key is that of every version too; a decision model has no other prompts."""
    async with Pipeline.open(shop, replaying(model="openai-chat:gpt-6-luna")) as pipeline:
        shared = sharing_prompts(pipeline.parts.judge)
        assert judge_key(shared.identity) == "c22acae511f7d17c9164b48ccead7a16"
    async with Pipeline.open(shop, replaying(model="openai:gpt-6-luna")) as pipeline:
        judge = pipeline.parts.judge
        assert sharing_prompts(judge).identity == judge.identity


async def test_judgments_of_an_earlier_version_are_served(make_repo: MakeRepo) -> None:
    """What is stored under an earlier version's keys answers a turn that may send nothing."""
    root = make_repo(FILES)
    async with Pipeline.open(root, replaying(model="openai-chat:gpt-6-luna")) as pipeline:
        await pipeline.index()
        candidates = pipeline.store.fetch().candidates
        judgments = [Judgment(candidate.content_hash, 0.8) for candidate in candidates]
        with database.transaction(pipeline.store.connection):
            insert_judgments(
                pipeline.store.connection, judgments, (TURN_KEY, CHAT_KEY, FIRST_DRAW)
            )
        answer = await pipeline.ask(TASK, answer=False)
    coverage = answer.coverage
    assert (coverage.cached, coverage.unjudged) == (coverage.candidates, 0)
    assert coverage.candidates > 5
