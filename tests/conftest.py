"""Fixtures for the whole suite: nothing leaves this machine; every user file lands in a folder of the test's own."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings

hypothesis_settings.register_profile("same", derandomize=True, deadline=None, database=None)
hypothesis_settings.register_profile("search", deadline=None)
hypothesis_settings.register_profile("fuzz", deadline=None, max_examples=100_000, print_blob=True)
hypothesis_settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

LOOPBACK = ("127.", "::1", "localhost")


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make any connection that is not to loopback an error, in this process."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not str(address[0]).startswith(LOOPBACK):
            raise AssertionError(f"a test tried to reach {address!r}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give each test a home of its own and an environment without keys."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(("XSCORE_", "OPENAI_", "ANTHROPIC_", "XDG_", "GIT_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NO_COLOR", "1")
    yield home


def git(root: Path, *arguments: str) -> str:
    """Run git in a test repository."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout


MakeRepo = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def make_repo(tmp_path: Path) -> MakeRepo:
    """Make a committed git repository from `path -> text`."""

    def make(files: Mapping[str, str]) -> Path:
        root = tmp_path / "repo"
        root.mkdir()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "start")
        return root

    return make
