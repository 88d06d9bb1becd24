"""The front door: what it imports, what it costs, what it lists."""

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Run
from xscore.cli.catalogue import COMMANDS

NOT_FOR_HELP = {"pydantic", "rich", "sqlite3", "asyncio", "openai", "numpy", "tree_sitter", "aiohttp", "xscore.records"}


def test_help_imports_nothing_heavy() -> None:
    """`xscore --help` loads click and no part of the house that does work."""
    code = f"""
import sys
from xscore.cli.main import run_command_line
sys.argv = ["xscore", "--help"]
try:
    run_command_line()
except SystemExit:
    pass
print(sorted({NOT_FOR_HELP!r} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_help_lists_every_command(xscore: Run) -> None:
    """The listing names each command of the catalogue."""
    listing = xscore("--help").stdout
    assert all(f"\n  {name} " in listing for name in COMMANDS)


def test_every_entry_of_the_catalogue_is_a_command(xscore: Run) -> None:
    """Each name of the catalogue can be called, and says its own help."""
    for name in COMMANDS:
        done = xscore(name, "--help")
        assert done.returncode == 0, (name, done.stderr)
        assert done.stdout.startswith(f"Usage: xscore {name}")


def test_version(xscore: Run) -> None:
    """`--version` names the installed version."""
    assert xscore("--version").stdout.startswith("xscore 0.")


def test_directory_is_where_the_command_runs(xscore: Run, tmp_path: Path) -> None:
    """`-C DIR` reads the settings of the repository in DIR."""
    (tmp_path / ".xscore.toml").write_text("[selection]\ntop_k = 7\n")
    shown = json.loads(xscore("-C", str(tmp_path), "config", "show", "--json").stdout)
    values = {setting["name"]: setting["value"] for setting in shown["settings"]}
    assert values["selection.top_k"] == "7"


def test_no_command_is_a_usage_error(xscore: Run) -> None:
    """`xscore` alone shows the help on stderr and ends with 2."""
    done = xscore()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: xscore" in done.stderr


def test_completion_scripts(process: Run) -> None:
    """Each shell gets a script that asks xscore itself, and the asking works."""
    for shell in ("bash", "zsh", "fish"):
        assert "_XSCORE_COMPLETE" in process("config", "completion", shell).stdout
    asked = {"_XSCORE_COMPLETE": "bash_complete", "COMP_WORDS": "xscore es", "COMP_CWORD": "1"}
    assert "estimate" in process(environ=asked).stdout
