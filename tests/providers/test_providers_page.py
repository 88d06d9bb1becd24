"""The providers page matches the code."""

import json
import re
from pathlib import Path

from xscore.providers.anthropic import THINKING
from xscore.providers.decision_hosts import DECISION_HOSTS
from xscore.providers.openai import OPTIONAL_FIELDS
from xscore.providers.scripted import Script, read_script
from xscore.records.calls import DecisionWire

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text("utf-8")


def test_the_script_on_the_page_is_one(tmp_path: Path) -> None:
    """The example script is valid and uses every field."""
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


def test_every_decision_host_is_named() -> None:
    """The page names each provider of decisions, alone or before its model; wires, as which a host
    of the user's own goes, are listed in the protocol."""
    vendors = DECISION_HOSTS.keys() - set(DecisionWire)
    assert {name for name in vendors if not re.search(f"`{name}[:`]", PAGE)} == set()
    assert "internals/protocol.md#decision-models" in PAGE


def test_every_word_for_thinking_is_named() -> None:
    """The page names the values that `primary.reasoning` takes for Claude."""
    assert all(f"`{word}`" in PAGE for word in THINKING)
