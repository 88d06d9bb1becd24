"""Odd arguments and odd folders: clear messages and exit codes, never a crash."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.basket import SCRIPT, TASK
from tests.cli.conftest import Run


def test_all_scores_never_replaces_what_is_no_file(
    xscore: Run, basket: Path, scripted: tuple[str, ...]
) -> None:
    """A link is written through and stays a link: `/dev/stdout` and `/dev/null` survive."""
    (basket / "link.jsonl").symlink_to(basket / "there.jsonl")
    assert (
        xscore("ask", TASK, *scripted, "--all-scores", "link.jsonl", cwd=basket).returncode == 0
    )
    assert (basket / "link.jsonl").is_symlink()
    assert (basket / "there.jsonl").read_text().startswith("{")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_scores_that_cannot_be_written_after_all_cost_no_answer(
    xscore: Run, basket: Path, scripted: tuple[str, ...]
) -> None:
    """On a full disk the answer is still printed; a warning and the exit code report the lost
    scores."""
    done = xscore("ask", TASK, *scripted, "--all-scores", "/dev/full", "--json", cwd=basket)
    answer = json.loads(done.stdout)
    assert done.returncode == 2
    assert answer["answer"]
    assert any("/dev/full cannot be written" in warning for warning in answer["warnings"])


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_fault(xscore: Run, basket: Path, closed: str) -> None:
    """Started without one of its streams, a command does its work and reports it by exit code."""
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -P -m xscore ask '{TASK}' {closed}"],
        cwd=basket,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ("Basket.total" in done.stdout) == (">&-" not in closed or closed == "2>&-")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_notes_that_no_one_can_read_stop_nothing(
    xscore: Run, basket: Path, scripted: tuple[str, ...]
) -> None:
    """A full disk behind standard error, or a closed reader, changes neither the result nor the
    exit code."""
    for away in ("2>/dev/full", "2>&1 >answer.txt | true; cat answer.txt"):
        command = f"{sys.executable} -P -m xscore ask '{TASK}' {' '.join(scripted)} {away}"
        done = subprocess.run(
            ["sh", "-c", command], cwd=basket, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, f"{SCRIPT['answer']}\n")
    command = f"{sys.executable} -P -m xscore ask --judge none:such x 2>/dev/full"
    assert subprocess.run(["sh", "-c", command], cwd=basket, check=False).returncode == 2


def test_a_folder_that_is_gone_is_said(xscore: Run, tmp_path: Path) -> None:
    """A command in a folder that has been removed is a usage error."""
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"rmdir {gone}; exec {sys.executable} -P -m xscore status"
    done = subprocess.run(
        ["sh", "-c", command], cwd=gone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "the current folder is gone" in done.stderr


def test_a_key_that_no_header_can_carry_is_said(xscore: Run, basket: Path) -> None:
    """A line break or a non-ASCII letter in the key is reported before anything is sent, without
    showing the key."""
    for key in ("sk-one\ntwo", "sk-ünï"):
        environ = {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
        done = xscore("ask", TASK, "--judge", "openai:m", cwd=basket, environ=environ)
        assert done.returncode == 2, done.stderr
        assert "OPENAI_API_KEY holds characters" in done.stderr and key not in done.stderr


def test_a_name_that_is_not_utf8_can_be_asked_for(
    xscore: Run, basket: Path, scripted: tuple[str, ...]
) -> None:
    """Non-UTF-8 arguments find the file of that name and never break a command."""
    os.close(os.open(os.fsencode(basket) + b"/b\xff.py", os.O_CREAT | os.O_WRONLY))
    (basket / os.fsdecode(b"b\xff.py")).write_text("def odd(): pass\n")
    done = xscore(
        "ask", TASK, "--glob", os.fsdecode(b"b\xff*"), *scripted, "--json", cwd=basket
    )
    assert json.loads(done.stdout)["coverage"]["candidates"] == 1
    assert xscore("explain", os.fsdecode(b"b\xff.py::odd"), cwd=basket).returncode == 0


def test_a_key_where_an_option_should_be_is_not_repeated(xscore: Run, basket: Path) -> None:
    """A task that begins with `-` is refused without being shown."""
    body = "MIIEpAIBAAKCAQEA7v3kq1Zr0b2XhD" * 4
    done = xscore(
        "ask",
        f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----",
        cwd=basket,
    )
    assert done.returncode == 2 and body not in done.stderr, done.stderr
    assert "No such option" in done.stderr and "xscore ask --help" in done.stderr


def test_files_with_odd_names_can_be_asked_about(
    xscore: Run, basket: Path, scripted: tuple[str, ...]
) -> None:
    """A path with colons works, and one that begins with dashes works after `--`."""
    for name in ("a::b.py", "--help.py"):
        (basket / name).write_text("def odd():\n    return 1\n")
    assert xscore("ask", TASK, *scripted, cwd=basket).returncode == 0
    for name in ("a::b.py", "a::b.py:1-2", "a::b.py::odd", "--help.py", "--help.py::odd"):
        done = xscore("explain", "--", name, cwd=basket)
        assert done.returncode == 0 and "::odd" in done.stdout.splitlines()[0], done.stderr
        assert xscore("graph", "related", "--", name, cwd=basket).returncode == 0
