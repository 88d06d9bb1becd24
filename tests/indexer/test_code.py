"""How source code is cut."""

from textwrap import dedent

import pytest

from tests.indexer.conftest import pieces_of, unseen_lines
from xscore.records.memory import Kind

PYTHON = dedent(
    '''\
    """Stores things."""

    import json
    from .paths import find as locate

    LIMIT = 10


    # Keeps what it is given.
    @final
    class Store(Base):
        """A place."""

        size: int = 0

        def __init__(self, path):
            self.path = locate(path)

        @property
        def full(self) -> bool:
            # is it?
            """Whether it is full."""
            if self.size >= LIMIT and self.path:
                return True
            return False

        class Row:
            def key(self):
                return 1


    def save(store, *, how="fast"):
        """Write it down."""
        def inner():
            return json.dumps(store)
        return inner()


    try:
        import orjson
    except ImportError:
        orjson = None


    @overload
    def load(x: int) -> int: ...
    @overload
    def load(x: str) -> str: ...
    def load(x):
        return x
    '''
)


def test_functions_methods_and_classes_are_pieces_of_their_own() -> None:
    """X15: every function, method and class is a memory; nested functions belong to their
    outermost."""
    pieces = pieces_of("pkg/store.py", PYTHON)
    kinds = {
        name: piece.kind for name, piece in pieces.items() if not name.startswith("module:")
    }
    assert kinds == {
        "Store": Kind.CLASS,
        "Store.__init__": Kind.METHOD,
        "Store.full": Kind.METHOD,
        "Store.Row": Kind.CLASS,
        "Store.Row.key": Kind.METHOD,
        "save": Kind.FUNCTION,
        "load": Kind.FUNCTION,
    }


def test_a_class_shows_header_docstring_fields_and_signatures() -> None:
    """A class keeps its own text; each member that is a memory leaves one line behind."""
    text = pieces_of("pkg/store.py", PYTHON)["Store"].text
    assert text.startswith(
        '# Keeps what it is given.\n@final\nclass Store(Base):\n    """A place."""'
    )
    assert "size: int = 0" in text
    assert "    @property\n    def full(self) -> bool: ..." in text
    assert "self.path = locate" not in text


def test_facts_of_a_function() -> None:
    """X14, X16: signature, docstring, imports used, names called and complexity are recorded."""
    facts = pieces_of("pkg/store.py", PYTHON)["save"].facts
    assert facts.signature == 'def save(store, *, how="fast"):'
    assert facts.docstring == "Write it down."
    assert facts.imports == ("json",)
    assert facts.dependencies == ("json.dumps", "inner")
    assert pieces_of("pkg/store.py", PYTHON)["Store.full"].facts.complexity == 3


def test_a_comment_before_the_body_is_no_part_of_the_signature() -> None:
    """A comment between header and body stays out of the signature, and the docstring after it is
    found."""
    facts = pieces_of("pkg/store.py", PYTHON)["Store.full"].facts
    assert facts.signature == "@property\ndef full(self) -> bool:"
    assert facts.docstring == "Whether it is full."


def test_module_code_stands_in_blocks() -> None:
    """X15: code outside functions and classes is a block, named by what it defines, otherwise
    by its imports."""
    blocks = {
        name: piece
        for name, piece in pieces_of("pkg/store.py", PYTHON).items()
        if piece.kind is Kind.BLOCK
    }
    assert list(blocks) == ["module:LIMIT", "module:imports"]
    assert blocks["module:LIMIT"].text.endswith("LIMIT = 10")
    assert blocks["module:LIMIT"].facts.docstring == "Stores things."


VALUES = {
    "a.py": (
        "import os\n\nlog = os.environ\nT = 1\nLIMIT: int = 3\nLOW, TOP = 1, 2\n",
        "log T LIMIT LOW TOP",
        "LIMIT",
    ),
    "a.ts": (
        "const fs = require('fs');\nexport const email = z.string(),\n  MOST = 3;\n",
        "email MOST",
        "email",
    ),
    "a.go": (
        'package a\n\nimport "fmt"\n\nconst (\n\tFirst = iota\n\tSecond\n)\n\nvar ErrLate = 1\n',
        "First Second ErrLate",
        "First",
    ),
    "a.rs": (
        'use std::fmt;\npub const MOST: usize = 3;\nstatic NAME: &str = "a";\n',
        "MOST NAME",
        "MOST",
    ),
    "a.c": (
        "#include <stdio.h>\n#define MOST 3\nstatic const int few = 4;\n",
        "MOST few",
        "MOST",
    ),
    "b.py": ("import os\n\nlogger = os.environ\n__all__ = []\n", "logger __all__", "imports"),
}


@pytest.mark.parametrize("path", VALUES)
def test_a_block_knows_the_values_it_defines(path: str) -> None:
    """Constants are facts of their block; the first that tells something names it."""
    text, defined, name = VALUES[path]
    pieces = pieces_of(path, text)
    assert list(pieces) == [f"module:{name}"]
    assert pieces[f"module:{name}"].facts.defines == tuple(defined.split())


def test_a_long_block_is_cut_where_statements_begin() -> None:
    """A block longer than a window is cut between statements, never inside one that fits."""
    text = "\n".join(f"x{i} = [\n    {i},\n]" for i in range(50))
    pieces = list(pieces_of("a.py", text, window_lines=20).values())
    assert len(pieces) > 5
    assert all(piece.text.startswith("x") and piece.text.endswith("]") for piece in pieces)


OVERLOADS = """\
import typing


class Box:
    @typing.overload
    def get(self, key: int) -> int: ...
    @typing.overload
    def get(self, key: str) -> str: ...
    def get(self, key):
        return choose(key)

    @typing.overload
    def only(self, key: int) -> int: ...
    @typing.overload
    def only(self, key: str) -> str: ...


@typing.overload
def choose(key: int) -> int: ...


@typing.overload
def choose(key: str) -> str: ...


@cached
def choose(key):
    return look_up(key)
"""


def test_overloads_of_python_are_part_of_the_implementation() -> None:
    """The plain name means the implementation with its stubs; stubs alone, as in a stub file, are
    one memory."""
    pieces = pieces_of("pkg/box.py", OVERLOADS)
    assert list(pieces) == ["module:imports", "Box", "Box.get", "Box.only", "choose"]
    assert pieces["choose"].text.startswith("@typing.overload\ndef choose(key: int)")
    assert pieces["choose"].text.endswith("return look_up(key)")
    assert pieces["choose"].facts.signature.endswith("def choose(key):")
    assert ("choose", "") in [(use.name, use.hint) for use in pieces["Box.get"].uses]
    assert unseen_lines("pkg/box.py", OVERLOADS) == []
