"""What `docs/batch.md` says of several questions in a call: its command asks its list, with the account shown."""

import json
import re
from pathlib import Path

from tests.cli.conftest import Run
from tests.pipeline.conftest import shop

__all__ = ["shop"]
PAGE = (
    (Path(__file__).parents[2] / "docs" / "batch.md")
    .read_text("utf-8")
    .split("## Several questions")[1]
    .split("\n## ")[0]
)


def shape(text: str) -> str:
    """What is left of lines when figures are taken out."""
    return re.sub(r"\$?\d[\d.,]*k?", "N", text).replace("N to N", "N")


def test_the_example_runs_as_it_is_written(xscore: Run, shop: Path, tmp_path: Path) -> None:
    """The list of the page, by the command of the page, at a scripted judge; the account reads as the page says."""
    console, account = re.findall(r"```(?:console)?\n(.*?)```", PAGE, re.DOTALL)
    _, *lines, command = console.strip().splitlines()
    (shop / "questions.jsonl").write_text("\n".join(lines))
    (tmp_path / "script.json").write_text("{}")
    script = f"scripted:{tmp_path / 'script.json'}"
    done = xscore(*command.removeprefix("$ xscore ").split(), cwd=shop, environ={
        "XSCORE_JUDGE_MODEL": script, "XSCORE_PRIMARY_MODEL": script,
    })  # fmt: skip
    assert done.returncode == 0
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("# ")] == [
        json.loads(line)["id"] for line in lines
    ]
    assert shape(done.stderr.strip()).endswith(shape(account.strip()))
