"""The page on providers says what the code does."""

import json
import re
from pathlib import Path

from xscore.platform.errors import (
    AuthenticationFailed,
    Overloaded,
    PromptTooLong,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
    error_kinds,
)
from xscore.providers import anthropic, openai
from xscore.providers.anthropic import THINKING
from xscore.providers.openai import OPTIONAL_FIELDS
from xscore.providers.scripted import Script, read_script

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text("utf-8")


def test_every_error_is_documented() -> None:
    """Each leaf of the provider errors has its row."""
    table = PAGE[PAGE.index("## What can go wrong") :]
    rows = set(re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE))
    assert set(error_kinds()) - {"provider"} == rows


def test_the_script_on_the_page_is_one(tmp_path: Path) -> None:
    """The example script can be read and uses every field there is."""
    block = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    file = tmp_path / "script.json"
    file.write_text(block[1])
    script = read_script(file)
    assert set(json.loads(block[1])) == set(Script.__struct_fields__)
    assert len(script.rules) == 3


def test_every_field_that_may_be_left_out_is_named() -> None:
    """The page names the optional request fields."""
    for name in OPTIONAL_FIELDS:
        assert name in PAGE or name.startswith("prompt_cache_")


def test_every_code_that_decides_is_named() -> None:
    """The page names each code of both tables, in the row of what it means."""
    meanings: dict[type[ProviderError], str] = {
        QuotaExhausted: "out of money",
        RateLimited: "rate limited",
        AuthenticationFailed: "wrong key",
        UnknownModel: "unknown model",
        PromptTooLong: "too long",
        Overloaded: "overloaded",
        RequestRejected: "rejected",
    }
    rows = {line.split("|")[1].strip(): line for line in PAGE.splitlines() if line.startswith("|")}
    for codes in (openai.BY_CODE, anthropic.BY_CODE):
        assert [code for code, kind in codes.items() if f"`{code}`" not in rows[meanings[kind]]] == []


def test_every_word_for_thinking_is_named() -> None:
    """The page names the words that `primary.reasoning` takes for Claude."""
    assert all(f"`{word}`" in PAGE for word in THINKING)
