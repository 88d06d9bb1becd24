"""What was taken out of a memory is counted once a place, and called what it is."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo
from tests.sessions.session_writers import ClaudeLog
from xscore.cli.memory_text import describe_redactions
from xscore.records import Kind, Layer, MemorySource
from xscore.store import memory_writer

KEY = "ghp_" + "aB3dE5gH7jK9mN1pQ2sT4vW6xY8zC0eF5hJ7"
MAIL = "jo.smith@acme-corp.io"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((f"k {KEY}",), "1 secret left out"),
        ((f"k {KEY} of {MAIL}",), "1 secret and 1 e-mail address left out"),
        (
            (f"k {KEY}", "--because", f"{MAIL} said so", "--title", f"t {KEY}"),
            "2 secrets and 1 e-mail address left out",
        ),
        (("see it", "--key", f"k {KEY}"), "1 secret left out"),
        ((f"<SECRET:jwt> and {KEY}",), "1 secret or personal detail left out"),
    ],
)
def test_each_place_counts_once_and_has_its_name(
    xscore: Run, make_repo: MakeRepo, given: tuple[str, ...], told: str
) -> None:
    """A key that names the memory too is one place; kinds that cannot be told apart are not guessed."""
    done = xscore("memory", "add", *given, cwd=make_repo({"a.py": "x = 1\n"}))
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().splitlines()[-1].endswith(f"{told}: a memory keeps none")


def test_a_title_made_of_the_text_is_no_other_place() -> None:
    """P01: what is redacted in both is counted in the text; it is redacted in both."""
    memory, count = memory_writer.make_memory(
        layer=Layer.PROJECT,
        kind=Kind.CONTEXT,
        title=f"mail {MAIL}",
        text=f"Task: mail {MAIL}",
        source=MemorySource.IMPORT,
        updated_at=1.0,
    )
    assert count == 1
    assert memory.title == "mail <PII:email>" and MAIL not in memory.text
    assert describe_redactions(count, of=memory) == "1 e-mail address left out"


def test_an_imported_question_counts_once(xscore: Run, make_repo: MakeRepo, own_home: Path) -> None:
    """The title of an exchange is its question: one token is one value."""
    root = make_repo({"a.py": "x = 1\n"})
    ClaudeLog(root).user(f"use {KEY} please").says("done").write(own_home)
    done = xscore("sessions", "import", cwd=root)
    assert "secrets    1 value redacted before anything was stored" in done.stdout
