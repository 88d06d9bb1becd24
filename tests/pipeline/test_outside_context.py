"""Where a turn finds nothing, one line says what could be fetched; nothing is fetched."""

import json
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.programs import run
from xscore.pipeline.outside_context import suggest_outside
from xscore.platform.paths import find_root, user_data_dir
from xscore.store.store import Store

FILES = {
    "pyproject.toml": '[project]\nname = "shop"\ndependencies = ["django>=4.2,<5"]\n',
    "cart.py": 'def total(items):\n    "Sum the prices of a cart."\n    return sum(items)\n',
    "pay.py": 'def charge(card):\n    "Charge a card with Adyen."\n    return card\n',
}


PLAIN_SIGNS = {
    "follow https://docs.example.com/limits#now for retries": "https://docs.example.com/limits",
    "move to django 6.0 and its background tasks": "django 6.0",
    "are we hit by CVE-2026-12345?": "news",
    "what changed in the latest release of the gateway?": "news",
    "retry as the REST API of Klarna wants it": "Klarna",
}
SILENT = (
    "where is the total of a cart summed?",
    "why does the discount count twice? see cart.py:10",
    "use django 4.2 forms in the cart",
    "retry as the REST API of Adyen wants it",
    "Klarna: what is the REST API?",
    "add a Voucher to the cart",
    "the newest item of the cart is summed twice",
    "",
)


@pytest.fixture
def indexed(make_repo: MakeRepo) -> Path:
    """An indexed repository with a manifest."""
    root = make_repo(FILES)
    assert run("index", cwd=root).returncode == 0
    return root


def test_only_plain_signs_are_said(indexed: Path) -> None:
    """An address, a newer version, news, and the interface of what nothing here names; most tasks
    that find nothing are about the code all the same."""
    data_dir = user_data_dir(None)
    with Store.open(find_root(indexed), user_data_dir=data_dir) as store:
        for task, sign in PLAIN_SIGNS.items():
            assert sign in suggest_outside(store, task)
        assert [task for task in SILENT if suggest_outside(store, task)] == []


def test_a_turn_that_found_nothing_shows_the_line(indexed: Path) -> None:
    """On standard error, once; not in JSON, not where it is switched off or something was found."""
    task = "what says https://docs.example.com/limits of zebras?"
    for command in (("ask", task, "--no-answer"), ("context", task)):
        done = run(*command, cwd=indexed)
        assert done.stderr.count("`xscore fetch`") == 1, done.stderr
        assert "xscore fetch" not in done.stdout
    as_json = run("context", task, "--json", cwd=indexed)
    assert "xscore fetch" not in as_json.stderr and json.loads(as_json.stdout)["selected"] == []
    off = run("context", task, cwd=indexed, environ={"XSCORE_DOCUMENTS_SUGGEST": "0"})
    assert "xscore fetch" not in off.stderr
    telling = run("context", "sum the prices of a cart https://docs.example.com/x", cwd=indexed)
    assert "cart.py" in telling.stdout and "xscore fetch" not in telling.stderr
