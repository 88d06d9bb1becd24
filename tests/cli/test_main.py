"""The front door: what it imports, what it costs, what it lists."""

import json
from pathlib import Path

from tests.cli.conftest import Run
from xscore.cli.catalogue import COMMANDS


def test_every_entry_of_the_catalogue_is_a_command(xscore: Run) -> None:
    """Each name of the catalogue can be called, and says its own help."""
    for name in COMMANDS:
        done = xscore(name, "--help")
        assert done.returncode == 0, (name, done.stderr)
        assert done.stdout.startswith(f"Usage: xscore {name}")


def test_directory_is_where_the_command_runs(xscore: Run, tmp_path: Path) -> None:
    """`-C DIR` reads the settings of the repository in DIR."""
    (tmp_path / ".xscore.toml").write_text("[selection]\ntop_k = 7\n")
    shown = json.loads(xscore("-C", str(tmp_path), "config", "show", "--json").stdout)
    values = {setting["name"]: setting["value"] for setting in shown["settings"]}
    assert values["selection.top_k"] == "7"


def test_completion_scripts(process: Run) -> None:
    """Each shell gets a script that asks xscore itself, and the asking works."""
    for shell in ("bash", "zsh", "fish"):
        assert "_XSCORE_COMPLETE" in process("config", "completion", shell).stdout
    asked = {"_XSCORE_COMPLETE": "bash_complete", "COMP_WORDS": "xscore es", "COMP_CWORD": "1"}
    assert "estimate" in process(environ=asked).stdout
