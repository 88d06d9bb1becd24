"""The commands of "By batch" in docs/batch.md, run in their order as they stand there."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.extensions.batch.bureau import SCORES
from tests.pipeline.conftest import shop
from tests.servers.openai_batches import OpenAIBatchServer
from tests.servers.scoring import table

__all__ = ["shop"]

PAGE = (Path(__file__).parents[2] / "docs" / "batch.md").read_text("utf-8")
LIST = '{"id": "sum", "task": "where are prices added up?"}\n'


def commands() -> list[str]:
    """The lines of the section's blocks that begin with `xscore`."""
    section = PAGE.split("## By batch\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if line.startswith("xscore ")]


@pytest.fixture
def server() -> Iterator[OpenAIBatchServer]:
    """A vendor with a Batch API."""
    with OpenAIBatchServer(score=table(SCORES)) as running:
        yield running


@pytest.mark.verify
def test_the_commands_by_batch_take_a_list_to_its_results(xscore: Run, server: OpenAIBatchServer, shop: Path) -> None:
    """Looked at, sent, waited for, written, cancelled and finished live: each ends with 0."""
    (shop / "QUERIES.jsonl").write_text(LIST)
    environ = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-test-000000", "XSCORE_JUDGE_PROBE": "false",
               "XSCORE_BATCH_POLL_S": "0.05"}  # fmt: skip
    lines = commands()
    assert [shlex.split(line, comments=True)[2] for line in lines] == [
        "submit", "submit", "status", "wait", "collect", "list", "cancel", "collect",
    ]  # fmt: skip
    for line in lines:
        done = xscore(*shlex.split(line, comments=True)[1:], cwd=shop, environ=environ)
        assert done.returncode == 0, f"{line}: {done.stderr}"
    assert server.batches.created == 1 and (shop / "results.parquet").is_file()
