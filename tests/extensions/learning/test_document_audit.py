"""`memory audit` names the lines of AGENTS.md, CLAUDE.md and decision records that are outdated."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import own_store
from tests.conftest import MakeRepo
from tests.extensions.agents.hook_process import build_index
from xscore.extensions.learning.audit import AuditProblem, audit_memories
from xscore.extensions.learning.document_audit import is_decision_record, is_instruction
from xscore.records.memory import Kind
from xscore.records.statement import Statement
from xscore.settings import MemorySettings
from xscore.store.remembering import remember

FILES = {
    "shop/cart.py": "def total_price(items):\n    return sum(items)\n",
    "Makefile": "test:\n\tpytest\n",
    "AGENTS.md": "# Agents\n\nRun `make lint` and `make test`.\nPrices: `sum_of_cart()`.\n",
    "web/CLAUDE.md": "See shop/cart.py and\nshop/prices.py.\n",
    "docs/adr/0001-prices.md": "We keep prices in `shop/cents.py`, by Python 2.7.\n",
    "README.md": "Run `make anything`.\n",
}


@pytest.fixture
def root(make_repo: MakeRepo) -> Path:
    """A repository whose documents are ahead of it."""
    repository = make_repo(FILES)
    build_index(repository)
    return repository


def test_outdated_lines_are_listed(root: Path) -> None:
    """With file, line and name; lines that hold are not, and neither is a README."""
    with own_store(root) as store:
        report = audit_memories(store, MemorySettings(), now=store.clock())
    outdated = [finding for finding in report.findings if finding.problem == "outdated"]
    places = [
        (citation.path, citation.start_line)
        for finding in outdated
        for citation in finding.citations
    ]
    assert sorted(places) == [
        ("AGENTS.md", 3),
        ("AGENTS.md", 4),
        ("docs/adr/0001-prices.md", 1),
        ("web/CLAUDE.md", 2),
    ]
    words = json.dumps([finding.because for finding in outdated])
    assert "AGENTS.md:3 names make lint" in words and "make test" not in words
    assert "2.7" not in words and not report.is_clean


def test_a_memory_that_names_what_is_gone_is_listed(root: Path) -> None:
    """In addition to what is stale, with its id."""
    with own_store(root) as store:
        gone = remember(
            store, Statement(kind=Kind.CONVENTION, text="Use `sum_of_all()` for sums")
        )
        remember(store, Statement(kind=Kind.CONVENTION, text="Use `total_price()` for prices"))
        report = audit_memories(store, MemorySettings(), now=store.clock())
    drifted = [entry for entry in report.findings if entry.problem is AuditProblem.DRIFTED]
    assert [entry.ids for entry in drifted] == [(gone.memory.id,)]


def test_which_documents_are_read() -> None:
    """Documents that agents follow, in any folder, and decision records."""
    for path in ("AGENTS.md", "a/CLAUDE.md", ".github/copilot-instructions.md", ".cursorrules"):
        assert is_instruction(path)
    for path in ("docs/adr/1.md", "doc/architecture/decisions/2.md", "ADRs/x.rst"):
        assert is_decision_record(path)
    for path in ("README.md", "docs/AGENTS.md.txt", "adr/x.py"):
        assert not (is_instruction(path) or is_decision_record(path))
