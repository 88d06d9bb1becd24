"""A plain install, which lacks what only extras bring: it works, and what needs an extra says which
one in one line."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.extensions.sessions.session_writers import CodexLog
from tests.plain_environment import ROOT, PlainEnvironment

EXTRA_ONLY = ("polars", "numpy", "zstandard", "mcp")
NAMED = re.compile(r"(?:require_extra|install_hint)\(\s*[\"']([a-z-]+)[\"']")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> PlainEnvironment:
    """An environment without any extra."""
    environment = PlainEnvironment(tmp_path_factory.mktemp("plain"))
    for module in EXTRA_ONLY:
        absent = environment.python("-c", f"import {module}", cwd=environment.home)
        assert "ModuleNotFoundError" in absent.stderr, absent.stderr
    return environment


@pytest.fixture(scope="module")
def shop(plain: PlainEnvironment) -> Path:
    """A repository with one judged turn."""
    root = plain.home / "shop"
    root.mkdir()
    (root / "cart.py").write_text(
        'def total(items):\n    "Sum prices."\n    return sum(items)\n'
    )
    (root / "script.json").write_text(json.dumps({"default": 0.9}))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    answered = plain.xscore(
        "ask", "sum prices", "--judge", "scripted:script.json", "--no-answer", cwd=root
    )
    assert answered.returncode == 0, answered.stderr
    return root


def refused(done: subprocess.CompletedProcess[str], extra: str) -> None:
    """Check that a command failed as a wrong use, and names the command that installs the extra."""
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert f"needs the extra `{extra}`" in done.stderr
    assert f"pip install '.[{extra}]'" in done.stderr and "Traceback" not in done.stderr


def test_a_plain_install_reports_in_every_form_but_parquet(
    plain: PlainEnvironment, shop: Path
) -> None:
    """Sums need no extra; Parquet is refused before anything is written."""
    for form in ("text", "markdown", "html", "csv"):
        done = plain.xscore("report", "--format", form, cwd=shop)
        assert done.returncode == 0 and done.stdout, done.stderr
    outputs = ("-o", "a.csv", "-o", "a.parquet")
    refused(plain.xscore("report", *outputs, cwd=shop), "frames")
    assert not (shop / "a.csv").exists()


def test_batch_results_as_parquet_are_refused_before_anything_is_spent(
    plain: PlainEnvironment, shop: Path
) -> None:
    """JSON lines need no extra."""
    (shop / "list.jsonl").write_text('{"id": "a", "task": "sum prices"}\n')
    run = ("batch", "run", "list.jsonl", "--judge", "scripted:script.json", "--yes", "--output")
    refused(plain.xscore(*run, "best.parquet", cwd=shop), "frames")
    done = plain.xscore(*run, "best.jsonl", cwd=shop)
    assert done.returncode == 0 and (shop / "best.jsonl").read_text(), done.stderr


def test_an_embedder_names_its_extra(plain: PlainEnvironment, shop: Path) -> None:
    """`doctor` says it too, as a finding."""
    named = {"XSCORE_EMBEDDING_MODEL": "openai:small"}
    code = "import os, sys; os.environ.update({}); import xscore.__main__ as m; m.run()"
    for command in ("index", "doctor"):
        done = plain.python("-c", code.format(named), command, cwd=shop)
        assert "embedding.model needs the extra `vectors`" in done.stdout + done.stderr
        assert done.returncode != 0


def test_lists_are_judged_and_shown_without_frames(plain: PlainEnvironment, shop: Path) -> None:
    """Rows, their receipt and a notebook's table need no extra; a frame says what does."""
    code = (
        "import xscore\n"
        "rows = xscore.judge('Which are lost?', ['a lost payment', '<b>'], judge='lexical',"
        " store=None)\n"
        "assert len(rows) == 2 and '&lt;b&gt;' not in rows._repr_html_() and '<table>' in"
        " rows._repr_html_()\n"
        "for attempt in (rows.to_polars, lambda: __import__('xscore.frames')):\n"
        "    try:\n        attempt()\n"
        "    except xscore.XscoreError as error:\n        print(error.message, error.hint)\n"
    )
    done = plain.python("-c", code, cwd=shop)
    assert done.stdout.count("pip install '.[frames]'") == 2, done.stderr


def test_compressed_sessions_are_counted_and_named(plain: PlainEnvironment, shop: Path) -> None:
    """They are left for an import that can read them; other sessions come in."""
    log = CodexLog(shop)
    log.write(plain.home, "rollout-2026-11-20T10-00-00-x.jsonl.zst")
    done = plain.xscore("memory", "import-sessions", cwd=shop)
    assert done.returncode in (0, 1), done.stderr
    assert "1 compressed session file left out" in done.stdout + done.stderr
    assert "pip install '.[zstd]'" in done.stdout + done.stderr


def test_a_server_without_the_sdk_says_so_and_nothing_on_standard_output(
    plain: PlainEnvironment, shop: Path
) -> None:
    """An agent's client reads the protocol there; installing the hooks works, with a line about
    the server."""
    done = plain.xscore("mcp", cwd=shop)
    refused(done, "mcp")
    assert done.stdout == ""
    done = plain.xscore("agent", "install", "--client", "codex", "--write", cwd=shop)
    assert done.returncode == 0 and (shop / ".codex").is_dir(), done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "extra `mcp`" in line]
    assert "pip install '.[mcp]'" in line


def test_every_extra_that_a_hint_names_exists() -> None:
    """No hint sends anyone to an extra that pip does not know."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = set()
    for path in (ROOT / "xscore").rglob("*.py"):
        named.update(NAMED.findall(path.read_text("utf-8")))
    assert {"frames", "mcp", "vectors", "zstd"} <= named
    assert named <= set(project["optional-dependencies"])
