"""What must not change in a refactoring: bytes sent to the judge, JSON fields, receipts, exit
codes.

Everything is seen from outside: the command line, a real git repository, a host on loopback. The
commands run in this process, which takes a quarter of the time; one of each dialect is installed.
`expected.json` holds what was seen; `python -m tests.contract.test_contract` writes it again, for a
change that is meant to be seen.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, xscore
from tests.contract.host import Host

__all__ = ["xscore"]

EXPECTED = Path(__file__).with_name("expected.json")
TASK = "Why is the discount taken twice at checkout?"
FILES = {
    "shop/cart.py": (
        '"""Carts."""\n\nRATE = 0.1\n\n\ndef total(items):\n    """Sum the prices."""\n'
        "    return sum(items)\n\n\ndef discount(items):\n    return total(items) * (1 - RATE)\n"
    ),
    "shop/checkout.py": (
        '"""Pay."""\n\n'
        "from shop.cart import discount\n\n\n"
        "class Checkout:\n"
        '    """Takes money."""\n\n'
        "    def checkout(self, items):\n"
        "        return discount(items)\n\n"
        "    def tax(self, items):\n"
        "        return 0\n"
    ),
    "tests/test_cart.py": (
        "from shop.cart import discount\n\n\ndef test_discount():\n    assert discount([10]) == 9\n"
    ),
    "README.md": "# Shop\n\nSells things.\n\n## Discounts\n\nTen percent on everything.\n",
    "settings.toml": '[shop]\nrate = 0.1\npassword = "hunter2hunter2hunter2"\n',
    "web/basket.js": (
        "export function basketTotal(items) {\n  return items.reduce((a, b) => a + b, 0);\n}\n"
    ),
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "ask": ("ask", TASK, "--json", "-y"),
    "ask again": ("ask", TASK, "--json", "-y"),
    "ask with a file": (
        *("ask", "Round the tax.", "--file", "shop/checkout.py:12"),
        *("--judge-sees", "full", "--json", "-y"),
    ),
    "context": ("context", TASK, "--format", "json"),
    "context as text": ("context", TASK),
    "estimate": ("estimate", "Something else entirely", "--json"),
    "explain": ("explain", "shop/cart.py::discount", "--json"),
    "index": ("index", "--json"),
    "status": ("status", "--json"),
    "doctor": ("doctor", "--json"),
    "config": ("config", "show", "--json"),
    "replay of nothing": ("ask", "Never asked before", "--replay", "--json"),
    "nothing matches": ("ask", TASK, "--glob", "no/such/*", "--json"),
    "usage error": ("ask", TASK, "--threshold", "7", "--json"),
    "over the cap": (
        "ask",
        "Another question about tax",
        "--max-usd",
        "0.0000001",
        "--json",
        "-y",
    ),
}
"""View -> the command line that shows it."""
VOLATILE = {
    *(
        "about",
        "at_s",
        "because",
        "bytes",
        "checks",
        "created",
        "detail",
        "duration_s",
        "fetch_ms",
        "fetched_at",
    ),
    *(
        "hint",
        "host",
        "is_late",
        "last_updated",
        "latency_s",
        "limits",
        "message",
        "notes",
        "origin",
        "path_of_store",
        "problem",
    ),
    *(
        "prompt_cache_key",
        "root",
        "seconds",
        "settings",
        "started",
        "store",
        "store_id",
        "thread",
        "turn_id",
        "value",
    ),
    *("version", "warnings"),
}
"""Fields that vary by run or machine, or are prose: only their type is compared."""


RunCommand = Callable[..., "subprocess.CompletedProcess[str]"]


def run_installed(
    *arguments: str, cwd: Path, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the command in a new process, with this environment alone."""
    command = [sys.executable, "-m", "xscore", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )


class World:
    """One user, one repository, one host."""

    def __init__(self, folder: Path, dialect: str) -> None:
        self.host, self.root, self.dialect = Host(), folder / "repo", dialect
        for name, text in FILES.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            os.utime(path, (1_600_000_000, 1_600_000_000))
        date = {
            "GIT_AUTHOR_DATE": "2020-09-13T12:26:40Z",
            "GIT_COMMITTER_DATE": "2020-09-13T12:26:40Z",
        }
        search = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environ: dict[str, str] = {
            "PATH": search,
            "HOME": str(folder),
            "NO_COLOR": "1",
            **date,
        }
        for arguments in (
            ("init", "-q", "-b", "main"),
            ("add", "-A"),
            ("commit", "-qm", "start"),
        ):
            identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
            subprocess.run(
                ["git", *identity, *arguments], cwd=self.root, check=True, env=self.environ
            )
        if dialect == "openai":
            self.environ |= {
                "OPENAI_API_KEY": "sk-test-000000000000",
                "OPENAI_BASE_URL": f"{self.host.url}/v1",
            }
        else:
            self.environ |= {
                "ANTHROPIC_API_KEY": "sk-test-000000000000",
                "ANTHROPIC_BASE_URL": self.host.url,
            }
        for part in ("JUDGE", "PRIMARY"):
            self.environ[f"XSCORE_{part}_MODEL"] = f"{dialect}:{part.lower()}-model"
        if "PYTHONPATH" in os.environ:
            self.environ["PYTHONPATH"] = os.environ["PYTHONPATH"]

    def run(self, run_command: RunCommand, *arguments: str) -> tuple[int, str]:
        """Run the command; return its exit code and standard output."""
        done = run_command(*arguments, cwd=self.root, environ=self.environ)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout


INSTALLED = "ask with a file"
"""The view whose command always runs in a process of its own."""


def seen(folder: Path, dialect: str, run_command: RunCommand = run_installed) -> dict[str, Any]:
    """Run every command once, in order; return all that must not change."""
    world, by_name = World(folder, dialect), dict[str, Any]()
    for name, arguments in COMMANDS.items():
        before = len(world.host.requests)
        code, out = world.run(run_installed if name == INSTALLED else run_command, *arguments)
        sent = [body | {"path": path} for path, body in world.host.requests[before:]]
        value: object = fixed(json.loads(out)) if out.startswith("{") else words(out)
        by_name[name] = {
            "exit": code,
            "out": value,
            "sent": sorted((request(b) for b in sent), key=json.dumps),
        }
    world.host.fault = 401
    code, _ = world.run(run_command, "ask", "What does a refused key do?", "--json", "-y")
    by_name["refused key"] = {"exit": code}
    world.host.shutdown()
    world.host.server_close()
    return by_name


def request(body: dict[str, Any]) -> Any:
    """Return a request whose random memory ids are replaced by their order of appearance."""
    text = json.dumps(body)
    codes = re.findall(r'<memory id=\\"([a-z]+)\\"', text)
    for number, code in enumerate(codes, start=1):
        text = re.sub(rf'(?<=")({code})(?=\\?")', f"id_{number:02}", text)
    value = fixed(json.loads(text))
    return {"codes": len(codes), "request": sorted_ids(value)}


def sorted_ids(value: Any) -> Any:
    """Return a value with its lists of ids sorted: the schema lists ids alphabetically."""
    if isinstance(value, dict):
        return {key: sorted_ids(part) for key, part in value.items()}
    if isinstance(value, list):
        parts = [sorted_ids(part) for part in value]
        are_ids = all(isinstance(part, str) and part.startswith("id_") for part in parts)
        return sorted(parts) if are_ids else parts
    return value


def fixed(value: Any, name: str = "") -> Any:
    """Return a JSON value with run-specific parts replaced by their type."""
    if name in VOLATILE:
        return type(value).__name__
    if isinstance(value, dict):
        return {key: fixed(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [fixed(part) for part in value]
    return words(value) if isinstance(value, str) else value


def words(text: str) -> str:
    """Return text without ids, ports and times."""
    text = re.sub(r"\b([mt])_[0-9a-f]{16,20}\b", r"\1_ID", text)
    return re.sub(r"127\.0\.0\.1:\d+", "HOST", text)


_SEEN: dict[str, Any] = {}
"""What each dialect brought: its commands run once for all tests."""


@pytest.fixture(params=["openai", "anthropic"])
def both(
    request: pytest.FixtureRequest, xscore: Run, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Any]:
    """The current results and the expected ones."""
    dialect = str(request.param)
    if dialect not in _SEEN:
        _SEEN[dialect] = seen(tmp_path_factory.mktemp(dialect), dialect, xscore)
    return _SEEN[dialect], json.loads(EXPECTED.read_text())[dialect]


def test_what_is_sent_to_a_model_has_not_moved(both: tuple[Any, Any]) -> None:
    """Each request is identical byte for byte, in both dialects."""
    now, then = both
    for name, recorded in then.items():
        assert now[name].get("sent") == recorded.get("sent"), name


def test_exit_codes_have_not_moved(both: tuple[Any, Any]) -> None:
    """Each command exits with its expected code."""
    now, then = both
    assert {name: recorded["exit"] for name, recorded in now.items()} == {
        name: recorded["exit"] for name, recorded in then.items()
    }


def test_what_is_printed_as_json_has_not_moved(both: tuple[Any, Any]) -> None:
    """Every field keeps its type and, if it does not vary by run, its value; fields may be
    added."""
    now, then = both
    for name, recorded in then.items():
        assert "out" not in recorded or covers(now[name]["out"], recorded["out"]) == [], name


def covers(now: Any, then: Any, place: str = "") -> list[str]:
    """Return where `now` lacks what `then` has."""
    if isinstance(now, dict) and isinstance(then, dict):
        return [
            fault
            for key in then
            for fault in covers(now.get(key, "MISSING"), then[key], f"{place}.{key}")
        ]
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return [
            fault
            for item, recorded_item in zip(now, then, strict=True)
            for fault in covers(item, recorded_item, place + "[]")
        ]
    return [] if now == then else [f"{place}: {then!r} is {now!r}"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        both_dialects = {
            "openai": seen(Path(one), "openai"),
            "anthropic": seen(Path(two), "anthropic"),
        }
    EXPECTED.write_text(json.dumps(both_dialects, indent=1, sort_keys=True) + "\n")
