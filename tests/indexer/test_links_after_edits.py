"""Edges after an edit: linking what changed gives the edges of a fresh index."""

import random
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import write_files
from tests.indexer.conftest import Index, rows
from tests.indexer.test_links import PYTHON, VALUES
from xscore.indexer.index import index_repository
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
from xscore.store.opening import connect_store

EDGES = "SELECT source, target, relation, path FROM edge ORDER BY 1, 2, 3"


def fresh_edges(root: Path, folder: Path) -> list[tuple[object, ...]]:
    """Index a repository in a store of its own and return its edges."""
    with closing(connect_store(folder / "memory.db")) as fresh:
        index_repository(fresh, find_root(root), IndexSettings(), now=time.time() + 3600)
        return rows(fresh, EDGES)


def test_incremental_edges_equal_fresh_ones(index: Index, tmp_path: Path) -> None:
    """After any sequence of edits, the edges equal those of a fresh index."""
    root = index.of(PYTHON)
    edits = [
        ("src/pkg/util.py", "def clean(x):\n    return x\n"),
        ("src/pkg/extra.py", "def report():\n    return 1\n"),
        ("src/pkg/__init__.py", "from .extra import report\nfrom .core import Engine\n"),
        ("src/pkg/core.py", None),
        ("src/pkg/core.py", PYTHON["src/pkg/core.py"]),
        ("src/pkg/util.py", PYTHON["src/pkg/util.py"]),
    ]
    for number, (name, text) in enumerate(edits):
        if text is None:
            (root / name).unlink()
        else:
            (root / name).write_text(text)
        index.run(root)
        assert index.rows(EDGES) == fresh_edges(root, tmp_path / f"fresh{number}")


TO = {"web/use.ts": "import { go } from './index'\nexport function use() {\n  go()\n}\n"}
RUN = "export function run() {\n}\n"
STARRED = {
    "pkg/one.py": "def go():\n    pass\n",
    "pkg/two.py": "def go():\n    pass\n",
    "pkg/use.py": "from pkg.hub import go\n\n\ndef use():\n    go()\n",
}
HEIR = {
    "pkg/heir.py": (
        "from pkg.base import Base\n\n\nclass Heir(Base):\n    def go(self):\n        self.run()\n"
    )
}
ROOTS = (
    "class One:\n"
    "    def run(self):\n"
    "        pass\n\n\n"
    "class Two:\n"
    "    def run(self):\n"
    "        pass\n\n\n"
)
MADE = {
    "pkg/kinds.py": ROOTS,
    "pkg/make.py": "from pkg.kinds import One, Two\n\n\ndef make() -> One:\n    return build()\n",
    "pkg/again.py": "from pkg.make import make\n\n\ndef again():\n    return make()\n",
    "pkg/held.py": (
        "from pkg.kinds import One, Two\n\nshared = One()\n\n\n"
        "class Held:\n    def __init__(self):\n        self.inner = One()\n"
    ),
    "pkg/use.py": "from pkg.make import make\n\n\ndef use():\n    make().run()\n",
}
CALLER = {"p/Use.java": "package p;\nclass Use {\n  void use() { thing.spin(); }\n}\n"}
TURN = "package p;\nclass Box {\n  void spin() { }\n}\n"
SPINS = {
    "pkg/a.py": "from pkg import b\n\n\ndef use(one):\n    one.spin()\n",
    "pkg/b.py": "def b():\n    pass\n",
    "pkg/c.py": "class Top:\n    def spin(self):\n        pass\n",
}
REACHED_ANEW: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "an imported file comes": (
        {"web/a.ts": "import { SIZE } from './b'\n"},
        {"web/b.ts": "export const SIZE = 1\n"},
    ),
    "a tested file comes": (
        {"tests/test_a.py": "def test_it():\n    pass\n"},
        {"pkg/a.py": "X = 1\n"},
    ),
    "a renamed export comes": (
        TO | {"web/index.ts": "export { run as go } from './d'\n"},
        {"web/d.ts": RUN},
    ),
    "a crate's root comes": (
        {
            "Cargo.toml": '[package]\nname = "shop"\n',
            "tests/it.rs": "use shop::pay;\n",
            "src/cart.rs": "fn f() {\n}\n",
        },
        {"src/lib.rs": "pub fn pay() {\n}\n"},
    ),
    "a crate is renamed": (
        {
            "Cargo.toml": '[package]\nname = "shop"\n',
            "src/lib.rs": "pub mod a;\n",
            "src/a.rs": "pub fn pay() {\n}\n",
            "examples/a.rs": "use my_shop::a::pay;\n",
        },
        {"Cargo.toml": '[package]\nname = "my-shop"\n'},
    ),
    "another file is exported": (
        STARRED | {"pkg/hub.py": "from .one import *\n"},
        {"pkg/hub.py": "from .two import *\n"},
    ),
    "a default export is no longer": (
        {"web/use.ts": TO["web/use.ts"].replace("{ go }", "go"), "web/index.ts": RUN},
        {"web/index.ts": RUN + RUN.replace("run", "walk")},
    ),
    "a base of a base changes": (
        HEIR | {"pkg/base.py": ROOTS + "class Base(One):\n    pass\n"},
        {"pkg/base.py": ROOTS + "class Base(Two):\n    pass\n"},
    ),
    "a file's first base comes": (
        HEIR | {"pkg/base.py": ROOTS + "class Base:\n    pass\n"},
        {"pkg/base.py": ROOTS + "class Base(Two):\n    pass\n"},
    ),
    "a value comes": (
        VALUES,
        {"pkg/conf.py": "mode = 1\n\n\ndef load():\n    return 1\n\n\nLIMIT = console = 2\n"},
    ),
    "a value goes": (VALUES, {"pkg/conf.py": "def LIMIT():\n    return 1\n"}),
    "a value's file comes": (
        {name: text for name, text in VALUES.items() if name != "rates/limit.go"},
        {"rates/limit.go": VALUES["rates/limit.go"]},
    ),
    "a block defines more": (
        VALUES | {"web/mail.ts": "export const first = 1\n"},
        {"web/mail.ts": "export const first = 1\nexport const email = 2\n"},
    ),
    "an imported file imports more": (
        SPINS,
        {"pkg/b.py": "from pkg.c import Top\n\n\ndef b():\n    pass\n"},
    ),
    "an imported file imports less": (
        SPINS | {"pkg/b.py": "from pkg.c import Top\n\n\ndef b():\n    pass\n"},
        {"pkg/b.py": SPINS["pkg/b.py"]},
    ),
    "a chain of exports is closed": (
        {
            "a.ts": "import { x } from './b'\n\nexport function use(one: X) {\n  one.spin()\n}\n",
            "b.ts": "export * from './c'\n",
            "c.ts": "export * from './d'\n",
            "d.ts": "export const D = 1\n",
            "e.ts": "export class Top {\n  spin() {\n    return 1\n  }\n}\n",
        },
        {"d.ts": "export * from './e'\n"},
    ),
    "a file defines something at last": (
        {
            "a.ts": "import { x } from './b'\n\nexport function use(one: X) {\n  one.spin()\n}\n",
            "b.ts": "import './c'\n",
            "c.ts": "import './e'\n",
            "e.ts": "export class Top {\n  spin() {\n    return 1\n  }\n}\n",
        },
        {"b.ts": "import './c'\n" + RUN, "c.ts": "import './e'\n" + RUN.replace("run", "walk")},
    ),
    "fixtures import more": (
        SPINS
        | {
            "tests/test_x.py": "def test_it(one):\n    one.spin()\n",
            "tests/conftest.py": "import os\n",
        },
        {"tests/conftest.py": "from pkg.c import Top\n"},
    ),
    "a file between goes elsewhere": (
        SPINS
        | {
            "pkg/b.py": "import deep\n\n\ndef b():\n    pass\n",
            "lib/x/deep.py": "from pkg.c import Top\n\n\ndef deep():\n    pass\n",
            "pkg/a.py": "from pkg import b\nimport deep\n\n\ndef use(one):\n    one.spin()\n",
        },
        {"pkg/deep.py": "def deep():\n    pass\n"},
    ),
    "the entry of a package comes": (
        {
            "a/package.json": '{"name": "@x/shop", "main": "dist/main.js"}',
            "b.ts": "import { y } from '@x/shop'\n",
        },
        {"a/src/main.ts": "export const y = 1\n"},
    ),
    "a package is renamed": (
        {
            "a/package.json": '{"name": "old"}',
            "a/index.ts": RUN,
            "b.ts": "import { run } from 'shop'\n",
        },
        {"a/package.json": '{"name": "shop"}'},
    ),
    "a folder becomes a package": (
        {
            "lib/requests.py": "def get():\n    pass\n",
            "a/use.py": "import requests\n\n\ndef f():\n    requests.get()\n",
        },
        {"lib/__init__.py": "x = 1\n"},
    ),
    "a function gives another type": (
        MADE,
        {"pkg/make.py": MADE["pkg/make.py"].replace("-> One", "-> Two")},
    ),
    "what a function calls gives another type": (
        MADE
        | {"pkg/use.py": "from pkg.again import again\n\n\ndef use():\n    again().run()\n"},
        {"pkg/make.py": MADE["pkg/make.py"].replace("-> One", "-> Two")},
    ),
    "a member has another type": (
        MADE
        | {
            "pkg/use.py": (
                "from pkg.held import Held\n\n\ndef use(held: Held):\n    held.inner.run()\n"
            )
        },
        {"pkg/held.py": MADE["pkg/held.py"].replace("One", "Two")},
    ),
    "a type is another class": (
        MADE,
        {"pkg/make.py": MADE["pkg/make.py"].replace("import One", "import Two as One")},
    ),
    "a variable has another type": (
        MADE
        | {"pkg/use.py": "from pkg.held import shared\n\n\ndef use():\n    shared.run()\n"},
        {"pkg/held.py": MADE["pkg/held.py"].replace("One", "Two")},
    ),
    "a method overrides": (
        CALLER | {"p/Box.java": TURN},
        {"p/Box.java": TURN.replace("void", "@Override void")},
    ),
}


@pytest.mark.parametrize("name", REACHED_ANEW)
def test_what_others_reach_through_an_edit(name: str, index: Index, tmp_path: Path) -> None:
    """A file is linked again if its mentions resolve elsewhere, even if none of their names came or
    went."""
    before, edit = REACHED_ANEW[name]
    root = index.of(before)
    first = index.rows(EDGES)
    write_files(root, edit)
    index.run(root)
    assert index.rows(EDGES) == fresh_edges(root, tmp_path / "fresh") != first


def random_file(path: str, chance: random.Random) -> str:
    """Return a small file that imports some others, may define something, and calls methods of
    unknown objects."""
    stems = ["a", "b", "c", "d", "pkg", "json"]
    lines: list[str] = []
    for stem in chance.sample(stems, chance.randint(0, 3)):
        if path.endswith(".ts"):
            lines.append(
                chance.choice([f"export * from './{stem}'", f"import {{ x }} from '../{stem}'"])
            )
        else:
            lines.append(
                chance.choice(
                    [f"import {stem}", f"from pkg import {stem}", f"from .{stem} import *"]
                )
            )
    name = chance.choice("fgh")
    if chance.random() < 0.6 and path.endswith(".ts"):
        lines.append(
            f"export class K{name} {{\n  {name}(one: X) {{\n    one.f()\n    one.g()\n    one.h()\n"
            "  }\n}"
        )
    elif chance.random() < 0.6:
        lines.append(
            f"class K{name}:\n    def {name}(self, one):\n        one.f()\n        one.g()\n       "
            " one.h()"
        )
    return "\n".join(lines) + "\n"


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(12))
def test_any_edits_give_the_edges_of_a_fresh_index(
    seed: int, index: Index, tmp_path: Path
) -> None:
    """Files come, change and go in any order: after each step the edges equal those of a fresh
    index."""
    chance = random.Random(seed)
    folders = ("", "pkg/", "pkg/sub/", "tests/")
    paths = [
        f"{folder}{name}"
        for folder in folders
        for name in ("a.py", "b.py", "c.ts", "d.ts", "json.py")
    ]
    paths += [
        "pkg/__init__.py",
        "tests/conftest.py",
        "pkg/index.ts",
        "tests/test_x.py",
        "pkg/sub/__init__.py",
    ]
    root = index.of({path: random_file(path, chance) for path in chance.sample(paths, 14)})
    for step in range(12):
        for path in chance.sample(paths, chance.randint(1, 2)):
            if (root / path).exists() and chance.random() < 0.3:
                (root / path).unlink()
            else:
                write_files(root, {path: random_file(path, chance)})
        index.run(root)
        assert index.rows(EDGES) == fresh_edges(root, tmp_path / f"fresh{step}"), step
