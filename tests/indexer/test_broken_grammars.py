"""An unusable grammar wheel: its files become windows, and `status` says why and how to repair
it."""

from pathlib import Path

import pytest

from tests import programs
from tests.conftest import MakeRepo

GO = "package shop\n\nfunc Total(lines []int) int {\n\treturn len(lines)\n}\n"
OTHER_VERSION = '''
import ctypes

made = (ctypes.c_uint32 * 64)(99)
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def language():
    """A grammar of a version that does not exist yet."""
    return new(ctypes.addressof(made), b"tree_sitter.Language", None)
'''
CSHARP_FOR_GO = "from tree_sitter_c_sharp import language\n"


def run(root: Path, broken: str, *arguments: str) -> str:
    """Run a command with a broken `tree_sitter_go`; return its output."""
    folder = root.parent / "site"
    folder.mkdir(exist_ok=True)
    (folder / "tree_sitter_go.py").write_text(broken)
    done = programs.run(*arguments, cwd=root, environ={"PYTHONPATH": str(folder)})
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (
            OTHER_VERSION,
            "the grammar does not load (ValueError: Incompatible Language version 99",
        ),
        pytest.param(
            "raise ImportError('no symbol: ts_x')\n",
            "the grammar does not load (ImportError: no symbol: ts_x)",
            marks=pytest.mark.verify,
        ),
        ("raise SystemExit('bye')\n", "the grammar does not load (SystemExit: bye)"),
        pytest.param("made = '\0'\n", "the grammar does not load (", marks=pytest.mark.verify),
    ],
)
def test_a_broken_grammar_costs_its_language_alone(
    make_repo: MakeRepo, broken: str, why: str
) -> None:
    """No text is lost, `status` names the reason and the repair command, and the next index uses
    the grammar."""
    root = make_repo({"total.go": GO, "a.py": "def add(x):\n    return x\n"})
    run(root, broken, "index")
    status = " ".join(run(root, broken, "status").split())
    assert f"go: {why}" in status and "pip install --force-reinstall tree-sitter-go" in status
    assert "1 go" in status and "1 function" in status
    (root.parent / "site" / "tree_sitter_go.py").unlink()
    assert "go: the grammar can be used now" in programs.run("status", cwd=root).stdout
    programs.run("index", cwd=root)
    indexed = programs.run("status", cwd=root).stdout
    assert "as text" not in indexed and "2 function" in indexed


def test_a_grammar_that_the_queries_do_not_fit_is_noted(make_repo: MakeRepo) -> None:
    """Queries that do not compile against the installed grammar leave windows and a note."""
    root = make_repo({"total.go": GO})
    assert (
        "total.go: the installed go grammar does not fit its queries; cut into windows"
        in run(root, CSHARP_FOR_GO, "index")
    )
