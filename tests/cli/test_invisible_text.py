"""Text of a repository on its way out: no command hands on what moves a cursor or is not seen, into
a pipe either."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.basket import FILES, SCRIPT, TASK, script_flags
from tests.cli.conftest import Run, own_store
from tests.conftest import MakeRepo
from tests.invisible_text import MOVING, NEEDED, POISON, UNSEEN, unsafe_in
from xscore.records.memory import Kind, MemoryDetails
from xscore.records.statement import Statement
from xscore.store.failures import record_failure
from xscore.store.remembering import remember

NAME = POISON.replace("\r", "")
"""A name that an archive could hold; git prints it, too."""
SAID = f"{POISON} {NEEDED}"
CODE = f'def total() -> int:\n    """Sum the basket. {SAID}"""\n    return 1  # {POISON}\n'
RULES = [{"entity": "*", "score": 0.9, "reason": f"because {SAID}"}]
COLOR = re.compile(r"\x1b\[[0-9;]*m")
"""What we color with ourselves."""


@pytest.fixture
def poisoned(make_repo: MakeRepo) -> Path:
    """A repository whose names, code, documents and memories hold one of each kind."""
    root = make_repo(
        {
            **FILES,
            f"src/{NAME}.py": CODE,
            "docs/guide.md": f"# Guide {SAID}\n\nThe total of a basket {SAID}\n",
            "setup.toml": f'[basket]\nname = "{NEEDED}"\n',
            f"src/{NAME}.js": f"// {SAID}\nexport function sum() {{ return 1 }}\n",
            "src/uses.js": (
                f'import {{ sum }} from "./{NAME}.js"\n\nfunction pay() {{ return sum() }}\n'
            ),
        }
    )
    with own_store(root) as store:
        remember(
            store,
            Statement(
                kind=Kind.DECISION,
                text=f"Totals are cents. {SAID}",
                because=SAID,
                key=f"totals {POISON}",
            ),
        )
        remember(store, Statement(kind=Kind.TODO, text=f"Round the total. {SAID}"))
        record_failure(
            store, text=f"pytest\nKeyError: {SAID}", details=MemoryDetails(rationale=SAID)
        )
    return root


@pytest.fixture
def flags(tmp_path: Path) -> tuple[str, ...]:
    """A scripted judge and answerer whose replies hold the same."""
    script = {**SCRIPT, "rules": RULES, "answer": f"It is in total. {SAID}"}
    return script_flags(tmp_path / "script.json", script)


Arguments = Callable[[tuple[str, ...]], tuple[str, ...]]
"""Makes the arguments of a command from those that name the models."""


def _context(form: str) -> Arguments:
    return lambda flags: ("context", TASK, "--format", form, *flags[:2])


COMMANDS: dict[str, Arguments] = {
    **{
        f"context {form}": _context(form)
        for form in ("xml", "markdown", "memory", "json", "lines")
    },
    "context -l": lambda flags: ("context", TASK, "-l", *flags[:2]),
    "context by words": lambda _: ("context", TASK, "--judge", "lexical"),
    "ask": lambda flags: ("ask", f"{TASK} {SAID}", *flags),
    "ask without an answer": lambda flags: ("ask", TASK, "--no-answer", "-v", *flags[:2]),
    "ask by words": lambda _: ("ask", TASK, "--judge", "lexical", "-v"),
    "estimate": lambda flags: ("estimate", TASK, *flags),
    "explain": lambda _: ("explain", "src/uses.js::pay"),
    "memory list": lambda _: ("memory", "list"),
    "memory list of code": lambda _: ("memory", "list", "--layer", "graph"),
    "memory show": lambda _: ("memory", "show", "@all"),
    "memory stats": lambda _: ("memory", "stats"),
    "memory audit": lambda _: ("memory", "audit"),
    "memory export": lambda _: ("memory", "export"),
    "memory consolidate": lambda _: ("memory", "consolidate", "--dry-run"),
    "graph related": lambda _: ("graph", "related", "src/uses.js"),
    "graph deps": lambda _: ("graph", "deps", "src/uses.js"),
    "history": lambda _: ("history",),
    "history show": lambda _: ("history", "show"),
    "history calls": lambda _: ("history", "show", "--calls"),
    "session": lambda _: ("session",),
    "session list": lambda _: ("session", "list"),
    "session save": lambda _: ("session", "save", "here"),
    "status": lambda _: ("status",),
    "index": lambda _: ("index", "-v"),
    "report": lambda _: ("report", "--by", "turn"),
    "report markdown": lambda _: ("report", "--by", "turn", "--format", "markdown"),
    "report csv": lambda _: ("report", "--by", "turn", "--format", "csv"),
    "report page": lambda _: ("report", "--by", "turn", "--format", "html"),
    "config show": lambda _: ("config", "show"),
    "doctor": lambda _: ("doctor",),
}


def memory_ids(root: Path) -> list[str]:
    """Return the memories of a root."""
    with own_store(root) as store:
        return [row[0] for row in store.connection.execute("SELECT id FROM memory")]


def test_no_command_prints_it(xscore: Run, poisoned: Path, flags: tuple[str, ...]) -> None:
    """Each command that prints text of the repository, in each form; in color, where each field
    escapes its own."""
    assert xscore("ask", f"{TASK} {SAID}", *flags, cwd=poisoned).returncode == 0
    printed = ""
    for name, arguments in COMMANDS.items():
        command_line = list(arguments(flags))
        if command_line[-1] == "@all":
            command_line[-1:] = memory_ids(poisoned)
        done = xscore(*command_line, "--color", "always", cwd=poisoned)
        assert done.returncode in (0, 1), (name, done.stderr)
        assert done.stdout, name
        assert (name, unsafe_in(COLOR.sub("", done.stdout + done.stderr))) == (name, [])
        printed += done.stdout
    assert "\\u200b" in printed and "\\x1b" in printed and NEEDED in printed


@pytest.mark.parametrize("form", ["xml", "markdown", "json"])
def test_a_pipe_gets_what_a_file_gets(
    xscore: Run, poisoned: Path, flags: tuple[str, ...], form: str
) -> None:
    """Pipes and `-o` hold the same bytes, with what text needs; JSON still means the same."""
    arguments = ("context", TASK, "--format", form, *flags[:2])
    piped = xscore(*arguments, cwd=poisoned).stdout
    assert xscore(*arguments, "-o", "found", cwd=poisoned).returncode == 0
    assert (poisoned / "found").read_text() == piped
    assert NEEDED in piped
    if form == "json":
        texts = json.dumps(json.loads(piped), ensure_ascii=False)
        assert all(character in texts for character in UNSEEN.values())
    else:
        assert "k\\u200bk" in piped


@pytest.mark.parametrize("form", [(), ("--snapshot",)], ids=["lines", "snapshot"])
def test_what_is_exported_comes_back_whole(
    xscore: Run, poisoned: Path, form: tuple[str, ...]
) -> None:
    """Exported lines are safe to print, and an import of what a pipe got restores every
    character."""
    exported = xscore("memory", "export", *form, cwd=poisoned).stdout
    assert not unsafe_in(exported)
    before = xscore("memory", "list", "--kind", "todo", "--json", cwd=poisoned).stdout
    assert xscore("memory", "wipe", "--kind", "todo", "--yes", cwd=poisoned).returncode == 0
    done = xscore("memory", "import", "-", *form, cwd=poisoned, stdin=exported)
    assert done.returncode == 0, done.stderr
    (restored,) = json.loads(
        xscore("memory", "list", "--kind", "todo", "--json", cwd=poisoned).stdout
    )["memories"]
    (memory,) = json.loads(before)["memories"]
    assert restored["text"] == memory["text"]
    assert all(
        character in memory["text"] for character in (*UNSEEN.values(), MOVING["override"])
    )
