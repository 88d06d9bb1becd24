"""What a fact names is looked up as it is shown: all that is gone is named, and nothing else."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import commit_all, write_files
from tests.extensions.agents.hook_process import build_index
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Memory
from xscore.records.statement import Statement
from xscore.settings import Settings
from xscore.store.drift import drift_warnings
from xscore.store.remembering import remember
from xscore.store.store import Store

FILES = {
    "shop/cart.py": "LIMIT_OF_ITEMS = 9\n\n\ndef total_price(items):\n    return sum(items)\n",
    "shop/retry.py": "import json\n\n\nclass RetryPolicy:\n    def wait_for(self):\n"
    "        return json.dumps(1)\n",
    "Makefile": "test: lint\n\tpytest\n\nlint:\n\truff check\n",
    "package.json": '{"scripts": {"build": "tsc"}, "dependencies": {"react": "^18.2.0"}}',
    "pyproject.toml": '[project]\nname = "shop"\nrequires-python = ">=3.11"\n'
    'dependencies = [\n  "Django>=4.2,<5",\n  "pytest",\n]\n'
    '[project.scripts]\nshopctl = "shop:main"\n',
    "docs/guide.md": "# Guide\n",
}
CHANGED = {
    "shop/cart.py": "LIMIT = 9\n\n\ndef price_of_all(items):\n    return sum(items)\n",
    "shop/waiting.py": FILES["shop/retry.py"]
    .replace("RetryPolicy", "Waiting")
    .replace("wait_for", "pause"),
    "Makefile": "test:\n\tpytest\n",
    "package.json": '{"scripts": {"compile": "tsc"}, "dependencies": {"react": "^19.0.0"}}',
    "pyproject.toml": '[project]\nname = "shop"\nrequires-python = ">=3.13"\n'
    'dependencies = ["Django>=5.1"]\n[project.scripts]\nshop-admin = "shop:main"\n',
}
DRIFTING = {
    "Prices are summed in shop/cart.py by `total_price`.": "total_price",
    "total_price() takes no currency": "total_price",
    "At most `LIMIT_OF_ITEMS` items fit.": "LIMIT_OF_ITEMS",
    "Retries live in `shop/retry.py`.": "shop/retry.py",
    "Calls wait as `RetryPolicy` says.": "RetryPolicy",
    "`RetryPolicy.wait_for` backs off": "RetryPolicy.wait_for",
    "Run `make lint` before each commit.": "make lint",
    "Assets are made with `npm run build`.": "npm run build",
    "Use `shopctl migrate` after a pull.": "shopctl migrate",
    "We are on Django 4.2.": "Django 4.2, but >=5.1 is required",
    "Python 3.11 is what we run.": "Python 3.11, but >=3.13 is required",
    "The frontend uses react 18.2": "react 18.2, but ^19.0.0 is required",
}
STANDING = (
    "Use `json.dumps`, never `pickle.loads`, e.g. for input/output.",
    "Run `make test`, or `python -m pytest -q` and `uv run pytest`.",
    "The guide is docs/guide.md; deploy with `kubectl apply -f x.yaml`.",
    "Node.js 20 is not needed; answers take 2.5 seconds, Django or not.",
    "`price` and `main` are plain words; see https://example.com/a/b.py.",
    "Files in dist/app.js and /etc/shop/conf.toml are made by `helm upgrade`.",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository with one commit."""
    write_files(tmp_path / "shop", FILES)
    return commit_all(tmp_path / "shop")


@pytest.fixture
def store(place: Path) -> Iterator[Store]:
    """The repository's store, with an index of the tree as it is."""
    build_index(place)
    with Store.open_with(find_root(place), Settings(), create=True) as opened:
        yield opened


def fact(store: Store, text: str, kind: Kind = Kind.CONVENTION) -> Memory:
    """State a fact."""
    stated = remember(store, Statement(kind=kind, text=text))
    return store.memories([stated.memory.id])[stated.memory.id]


def test_planted_drift_is_named_in_full(store: Store, place: Path) -> None:
    """Every file, symbol, command, binary and version that is gone, and none before it is."""
    facts = {text: fact(store, text) for text in (*DRIFTING, *STANDING)}
    assert drift_warnings(store, list(facts.values())) == {}
    (place / "shop/retry.py").unlink()
    write_files(place, CHANGED)
    build_index(place)
    seconds: list[float] = []
    for text, memory in facts.items():
        began = time.process_time()
        warning = drift_warnings(store, [memory]).get(memory.id, "")
        seconds.append(time.process_time() - began)
        expected = DRIFTING.get(text, "")
        assert expected in warning and bool(warning) == bool(expected), (text, warning)
    # Where nothing else can tell, git is asked once: that is another process's time.
    assert statistics.median(seconds) < 0.02


def test_what_is_told_of_the_past_or_planned_is_no_claim(store: Store) -> None:
    """A todo may name what is to come, a failure what was."""
    memories = [
        fact(store, "Write shop/never.py", Kind.TODO),
        fact(store, "pytest shop/never.py failed", Kind.FAILURE),
    ]
    assert drift_warnings(store, memories) == {}


@pytest.mark.parametrize(
    "files",
    [
        {"package.json": "{", "pyproject.toml": "[[", "Makefile": "\x00", "a.py": "A = 1\n"},
        {"package.json": "[1]", "Cargo.toml": "\n", "go.mod": "require", "justfile": ""},
    ],
)
def test_manifests_that_cannot_be_read_declare_nothing(
    files: dict[str, str], tmp_path: Path
) -> None:
    """They end nothing, either."""
    root = tmp_path / "broken"
    write_files(root, files)
    commit_all(root)
    build_index(root)
    with Store.open_with(find_root(root), Settings(), create=True) as opened:
        memory = fact(opened, "Run `make all` and `npm run x`, on react 18.2")
        assert "make all" in drift_warnings(opened, [memory])[memory.id]
