"""Module names and their files."""

import sys
from collections.abc import Iterable
from types import FrameType

import pytest

from xscore.indexer.languages import language_of
from xscore.indexer.modules import ModuleIndex, module_reference
from xscore.store.encoded_files import FileMentions


@pytest.mark.parametrize(
    ("module", "path", "separator", "expected"),
    [
        ("flask.app", "x.py", ".", "flask/app"),
        (".", "src/pkg/a.py", ".", "./src/pkg"),
        (".app", "src/pkg/a.py", ".", "./src/pkg/app"),
        ("..core.x", "src/pkg/sub/a.py", ".", "./src/pkg/core/x"),
        ("...x", "a.py", ".", ""),
        ("./lib/x", "src/a.js", "/", "./src/lib/x"),
        ("../x.js", "src/a.js", "/", "./x.js"),
        ("../../x", "src/a.js", "/", ""),
        ("express", "src/a.js", "/", "express"),
        ("@/lib/x", "src/a.ts", "/", "/lib/x"),
        ("$lib/x", "src/a.ts", "/", "/lib/x"),
        ("$library/x", "src/a.ts", "/", "$library/x"),
        ("#db", "src/a.ts", "/", ":db"),
    ],
)
def test_references(module: str, path: str, separator: str, expected: str) -> None:
    """Relative names become paths in the repository; those that lead outside become nothing."""
    assert module_reference(module, path=path, separator=separator) == expected


PATHS = """
    src/flask/__init__.py src/flask/app.py src/flask/json.py
    examples/a/app.py examples/b/types.py examples/b/app.py examples/b/run.py tests/t.py
    lib/index.js lib/util.ts lib/View.jsx lib/page.tsx other/util.ts pkg/mod.pyi app.js
    """.split()


def module_index(paths: Iterable[str]) -> ModuleIndex:
    """Return an index of these files, none of which names a module."""
    return ModuleIndex(
        {path: language_of(path).name for path in paths}, lambda _path: FileMentions()
    )


MODULES = module_index(PATHS)


@pytest.mark.parametrize(
    ("target", "importer", "expected"),
    [
        ("flask", "tests/t.py", "src/flask/__init__.py"),
        ("flask/app", "tests/t.py", "src/flask/app.py"),
        ("app", "examples/b/run.py", "examples/b/app.py"),
        ("app", "tests/t.py", ""),
        ("./src/flask/app", "tests/t.py", "src/flask/app.py"),
        ("./lib", "app.js", "lib/index.js"),
        ("./lib/util.js", "app.js", "lib/util.ts"),
        ("/lib/util.js", "lib/page.tsx", "lib/util.ts"),
        ("./lib/View", "lib/page.tsx", "lib/View.jsx"),
        ("os/path", "tests/t.py", ""),
        ("json", "tests/t.py", ""),
        ("types", "tests/t.py", ""),
        ("types", "examples/b/run.py", "examples/b/types.py"),
        ("json", "src/flask/app.py", "src/flask/json.py"),
        ("", "tests/t.py", ""),
    ],
)
def test_resolving(target: str, importer: str, expected: str) -> None:
    """A reference finds the file by its language's rules; the nearest wins, a tie finds nothing.

    A module in a package is known by the name of the package before its own, except in its
    folder.
    """
    assert MODULES.resolve(target, importer) == expected


def test_like_named_files_cost_linear_time() -> None:
    """Twice the files of one name, each looked up from its own folder, take about twice the
    calls, not four times."""

    def calls(copies: int) -> int:
        count = 0

        def counted(_frame: FrameType, event: str, _argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        modules = module_index(f"copy_{number}/pkg/util.py" for number in range(copies))
        sys.setprofile(counted)
        try:
            for number in range(copies):
                neighbour = f"copy_{number}/pkg/util.py"
                assert modules.resolve("pkg/util", neighbour) == neighbour
        finally:
            sys.setprofile(None)
        return count

    assert calls(400) < 2.5 * calls(200)
