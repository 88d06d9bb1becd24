"""`docs/internals/protocol.md` shows what is really sent, read and repaired."""

import json
import re
from pathlib import Path

import pytest

from xscore.prompts.judge import PROMPT_VERSION, PackEntry, PromptOptions, judge_rubric, judging_request, turn_block
from xscore.providers.catalog import UNKNOWN, model_settings
from xscore.providers.reply_schema import SCHEMA_NAME, reply_schema
from xscore.providers.scripted import shown_memories
from xscore.records.memory import Kind
from xscore.records.turn import Turn
from xscore.scorer.drafts import MOST_FRAME_TOKENS, PROMPT_IDS, REASON_TOKENS, SCORE_TOKENS
from xscore.scorer.replies import parse_reply

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "protocol.md").read_text("utf-8")
ENTRIES = (
    PackEntry("co", "decision", "", "One store", "Judgments live in SQLite, one file a repository."),
    PackEntry("qe", "function", "src/cache.py", "write", "def write(row):\n    db.execute(INSERT, row)"),
    PackEntry("ka", "method", "src/cache.py", "Cache.close", "def close(self):\n    self.db.close()"),
    PackEntry("bi", "test", "tests/test_cache.py", "test_write", "A written row is read back.\ntests: write"),
)
TURN = Turn(
    task="Rows are lost when two processes write at once", errors="sqlite3.OperationalError: database is locked"
)


def blocks() -> list[str]:
    """The fenced blocks of the page, in order: rubric, pack, turn, reply, schema, console."""
    return re.findall(r"^```\w+\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_example_is_what_is_sent() -> None:
    """Rubric, pack and turn of the page are the prompt, to the byte."""
    request = judging_request(ENTRIES, turn_block(TURN), PromptOptions(model="m", max_output_tokens=1))
    assert blocks()[0] == request.system == judge_rubric()
    assert tuple(blocks()[1:3]) == request.content
    assert tuple(memory.id for memory in shown_memories(blocks()[1])) == ("co", "qe", "ka", "bi")


def test_the_example_reply_is_read() -> None:
    """The page's reply scores the page's pack, and its reasons are those asked for."""
    found = parse_reply(blocks()[3], PROMPT_IDS[:4])
    assert found.scores.keys() == {"ka", "qe", "bi", "co"} and not found.mended
    assert found.reasons.keys() == {id_ for id_, score in found.scores.items() if score >= 30}


def test_the_schema_is_what_is_sent() -> None:
    """The schema of the page is that of the dialect, for the first two codes in order."""
    assert json.loads(blocks()[4]) == reply_schema(tuple(sorted(PROMPT_IDS[:2])))
    assert f"name `{SCHEMA_NAME}`" in PAGE


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_named(kind: Kind) -> None:
    """A server knows what it may meet."""
    assert f"`{kind.value}`" in PAGE


def test_the_figures_are_those_of_the_code() -> None:
    """Version, codes, pack limits and output allowance."""
    assert f"now `{PROMPT_VERSION}`" in PAGE
    assert ", ".join(f"`{code}`" for code in PROMPT_IDS[:5]) in PAGE
    for model in (model_settings("openai", "gpt-6-luna"), model_settings("anthropic", "claude-haiku-4-5"), UNKNOWN):
        assert f"{model.pack_tokens:,}" in PAGE and f"{model.pack_size}" in PAGE
    assert (MOST_FRAME_TOKENS, SCORE_TOKENS, REASON_TOKENS) == (40, 8, 32)
