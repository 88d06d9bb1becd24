"""A paid stage is one more member of `Stage`: a copy of the package that has it, in processes of
its own.

Only the enumeration and the call itself are changed in the copy; every sum must have the stage.
"""

import json
import shutil
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import xscore as package
from tests.programs import run
from tests.servers.billing import BillingServer

TASK = "total of the cart with its discount"
MEMBER = '    REASON = "reason", "reasons", "judge"\n'
NEW_MEMBER = '    SUMMARY = "summary", "a summary", "primary"\n'
CALL = "        stage=Stage.PRIMARY,\n"


class Program(NamedTuple):
    """The copy, as a program that is run in one repository."""

    folder: Path
    repository: Path
    environ: Mapping[str, str]

    def json(self, *arguments: str, **environ: str) -> dict[str, Any]:
        """Run a command of the copy; return what it prints."""
        place = {"PYTHONPATH": str(self.folder)}
        done = run(
            *arguments,
            "--json",
            cwd=self.repository,
            environ={**self.environ, **place, **environ},
        )
        printed: dict[str, Any] = json.loads(done.stdout or "{}")
        return {"exit_code": done.returncode, "stderr": done.stderr, **printed}


@pytest.fixture
def program(tmp_path: Path, shop: Path, priced: Mapping[str, str]) -> Program:
    """The package with a stage `summary`, which the answering call is made under."""
    copy = tmp_path / "copy"
    package_file = package.__file__
    assert package_file is not None
    # With its bytecode, so that only the two files that are changed are compiled once more.
    shutil.copytree(Path(package_file).parent, copy / "xscore")
    replace_once(copy / "xscore/records/calls.py", MEMBER, MEMBER + NEW_MEMBER)
    replace_once(copy / "xscore/prompts/answer.py", CALL, CALL.replace("PRIMARY", "SUMMARY"))
    return Program(copy, shop, priced)


def replace_once(path: Path, before: str, after: str) -> None:
    """Change one place of a file."""
    text = path.read_text("utf-8")
    assert text.count(before) == 1, f"{path.name} has changed: {before!r}"
    path.write_text(text.replace(before, after), "utf-8")


def test_a_new_paid_stage_stands_in_receipt_ledger_report_and_caps(
    program: Program, host: BillingServer
) -> None:
    """Its calls, tokens and dollars are in each of them as soon as the enumeration has it."""
    receipt = program.json("ask", "--answer-anyway", TASK)
    summary = receipt["usage"]["summary"]
    assert (receipt["exit_code"], summary["calls"], receipt["usage"]["primary"]["calls"]) == (
        0,
        1,
        0,
    ), receipt["stderr"]
    paid = Decimal(summary["cost_usd"])
    assert paid > 0
    assert paid + Decimal(receipt["usage"]["judge"]["cost_usd"]) == host.charged

    stored = program.json("history", "show", receipt["turn_id"], "--calls")
    assert stored["usage"]["summary"] == summary
    ledger = [call["cost_usd"] for call in stored["calls"] if call["stage"] == "summary"]
    assert ledger == [summary["cost_usd"]]

    report = program.json("report", "--by", "stage")
    (group,) = [group for group in report["groups"] if group["name"] == "summary"]
    assert (group["spent"]["calls"], group["spent"]["cost_usd"]) == (1, summary["cost_usd"])
    assert Decimal(report["spent"]["cost_usd"]) == host.charged
    timed = {timing["stage"] for timing in report["timings"] if timing["of"] == "call"}
    assert "summary" in timed

    requests = host.counts.requests
    capped = program.json("ask", "--answer-anyway", TASK, XSCORE_BUDGET_MAX_USD="0.000001")
    assert (capped["exit_code"], capped["usage"]["summary"]) == (4, None), capped["stderr"]
    assert host.counts.requests == requests
