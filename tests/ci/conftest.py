"""A runner with a checkout of a small repository, and a loopback host that judges."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ci.fake_runner import Runner
from tests.conftest import MakeRepo
from tests.pipeline.conftest import FILES
from tests.servers.openai_server import OpenAIServer

QUESTIONS = """\
{"id": "sum", "query": "add the prices up, with the discount", "gold": [{"path": "shop/prices.py", "name": "total"}]}
{"id": "off", "query": "a tenth off above one hundred", "gold": [{"path": "shop/prices.py", "name": "discount"}]}
"""  # noqa: E501  a JSONL file: a record is one line


@pytest.fixture
def host() -> Iterator[OpenAIServer]:
    """A loopback host of the OpenAI dialect."""
    with OpenAIServer(api_key="sk-fake") as running:
        yield running


@pytest.fixture
def runner(make_repo: MakeRepo, tmp_path: Path, host: OpenAIServer) -> Runner:
    """A runner whose job has a key for the loopback host."""
    root = make_repo({**FILES, "questions.jsonl": QUESTIONS})
    temp = tmp_path / "machine"
    temp.mkdir()
    environ = {
        "OPENAI_API_KEY": "sk-fake",
        "OPENAI_BASE_URL": host.url,
        "XSCORE_JUDGE_MODEL": "openai:judge-2",
        "XSCORE_JUDGE_PROBE": "false",
        "XSCORE_PRIMARY_MODEL": "openai:strong-1",
    }
    return Runner(root, temp, environ)
