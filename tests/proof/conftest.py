"""Real source trees from installed packages, real processes, a loopback host."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, commit_all
from tests.programs import begin
from tests.proof.faults_setup import environment_at, harbours, models_of
from tests.servers.openai_server import OpenAIServer

Spawn = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A loopback host of the OpenAI dialect that keeps no request."""
    with OpenAIServer(keep_bodies=False) as running:
        yield running


@pytest.fixture
def root(make_repo: MakeRepo) -> Path:
    """A repository of twelve memories, four packs."""
    return harbours(make_repo)


def package_tree(name: str, target: Path) -> Path:
    """Copy an installed package's source into a new git repository."""
    spec = find_spec(name)
    assert spec is not None and spec.submodule_search_locations
    source = Path(next(iter(spec.submodule_search_locations)))
    shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    return commit_all(target)


@pytest.fixture
def click_tree(tmp_path: Path) -> Path:
    """The source of click, committed."""
    root = tmp_path / "tree"
    root.mkdir()
    return package_tree("click", root)


@pytest.fixture
def spawn(server: OpenAIServer) -> Spawn:
    """Start `xscore …` at the loopback host, in a new process group."""

    def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
        return begin(
            *arguments,
            *models_of("openai"),
            cwd=cwd,
            environ=environment_at("openai", server.url),
        )

    return start
