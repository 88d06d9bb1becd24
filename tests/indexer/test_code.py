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
    kinds = {name: piece.kind for name, piece in pieces.items() if not name.startswith("module:")}
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
    """X15: code outside functions and classes is a block, named by what it defines, else by its
    imports."""
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
    "a.c": ("#include <stdio.h>\n#define MOST 3\nstatic const int few = 4;\n", "MOST few", "MOST"),
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


SCRIPT = dedent(
    """\
    'use strict'
    const { merge, pick: choose } = require('./lib/merge')
    import def, { a as b } from './other.js'

    /**
     * Sets a value.
     */

    app.set = function set (key, value) {
      return merge(this.settings, key)
    }

    View.prototype.render = (x) => {
      return choose(x)
    }

    exports.flat = function () {
      return 1
    }

    export const Model = construct('Model', (inst) => {
      inst.run()
    })

    export default {
      name: 'thing',
      open(door) {
        return door
      },
      hooks: {
        created: function () {
          return b()
        },
      },
      short: (x) => x,
    }

    class Box extends Base {
      #top = 1
      on = () => {
        this.close()
      }
      close() { return this.#top }
      static of(x) {
        return new Box(x)
      }
    }
    """
)


@pytest.mark.parametrize("path", ["a.js", "a.ts", "a.tsx", "a.jsx", "a.mjs"])
def test_what_counts_as_a_function_in_scripts(path: str) -> None:
    """Assigned, arrow and wrapped functions and object methods are entities, under their usual
    names."""
    pieces = pieces_of(path, SCRIPT)
    names = {
        name
        for name, piece in pieces.items()
        if piece.kind in {Kind.FUNCTION, Kind.METHOD, Kind.CLASS}
    }
    assert names == {
        *("app.set", "View.render", "flat", "Model", "open", "hooks.created"),
        *("Box", "Box.on", "Box.close", "Box.of"),
    }
    assert pieces["app.set"].facts.docstring == "Sets a value."
    assert pieces["Box.of"].facts.dependencies == ("Box",)


def test_an_object_keeps_what_its_functions_leave() -> None:
    """An object that holds functions is a block with their signatures; a one-line function stays in
    it."""
    block = pieces_of("a.js", SCRIPT)["module:default"]
    assert block.kind is Kind.BLOCK
    assert "open(door) { ... }" in block.text
    assert "short: (x) => x," in block.text
    assert "return door" not in block.text


def test_typescript_declarations() -> None:
    """Interfaces, enums, type aliases and overloads are entities; overloads join their
    implementation."""
    text = dedent(
        """\
        export interface Shape extends Base {
          area(): number;
        }
        export enum Color {
          Red,
        }
        type Short = string;
        type Long = {
          a: string;
        };
        export function f(x: string): string;
        export function f(x: number): number;
        export function f(x: any) {
          return x;
        }
        abstract class A {
          abstract go(): void;
          run() {
            this.go();
          }
        }
        namespace N {
          export function inside() {
            return 1;
          }
        }
        """
    )
    pieces = pieces_of("a.ts", text)
    entities = {
        name: (piece.start + 1, piece.end + 1)
        for name, piece in pieces.items()
        if piece.kind is not Kind.BLOCK
    }
    assert entities == {
        "Shape": (1, 3),
        "Color": (4, 6),
        "Short": (7, 7),
        "Long": (8, 10),
        "f": (11, 15),
        "A": (16, 21),
        "A.run": (18, 20),
        "N.inside": (23, 25),
    }


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


def test_a_title_keeps_the_quotes_inside() -> None:
    """The quotes around a test's title go, one pair of them."""
    text = """it('opens "first" or "last"', () => {\n  open()\n})\n"""
    assert list(pieces_of("a.test.js", text)) == ['opens "first" or "last"']


ALIASES = """// What is sold.
export type Item = { id: string }
export type Items = Item[]

export type Box<T> =
  | T
  | null

export namespace util {
  export type Deep<T> = {
    [key in keyof T]: Deep<T[key]>
  }
}

export function pay(item: Item) {
  type Local = string
  return item
}
"""


def test_an_alias_of_a_type_is_a_memory_of_its_own() -> None:
    """Also on one row, with the comment above it, and in a namespace; not in a function, nor on a
    row of a test."""
    pieces = pieces_of("a.ts", ALIASES)
    classes = {name for name, piece in pieces.items() if piece.kind is Kind.CLASS}
    assert classes == {"Item", "Items", "Box", "util.Deep"}
    assert pieces["Item"].text == "// What is sold.\nexport type Item = { id: string }"
    assert not unseen_lines("a.ts", ALIASES)
    assert "Items" not in pieces_of("a.test.ts", ALIASES)


CHAINED = """suite
  .on('cycle', (event) => {
    print(event)
  })
  .run({
    async: true,
    done() {
      return 1
    },
  })
"""


def test_an_object_passed_to_a_chain_has_a_short_name() -> None:
    """What a chain of calls passes on is no part of a name."""
    names = set(pieces_of("bench.js", CHAINED))
    assert "suite.run.done" in names
    assert all("\n" not in name and "(" not in name for name in names)


BOUND = """export const rename = mutation({
  args: { id: v.id('x') },
  handler: async (ctx, args) => {
    await check(ctx)
    return save(args)
  },
})

export const Card = memo(
  forwardRef(function CardInner(props, ref) {
    return <Badge ref={ref} />
  }),
)

const Badge = styled.span`
  color: red;
`

export const store = defineStore('x', {
  state: () => ({ n: 1 }),
  actions: {
    inc() {
      this.n++
    },
    dec() {
      this.n--
    },
  },
})

app.use({
  onError: function (e) {
    log(e)
  },
})

const made = new Store({
  load(key) {
    return read(key)
  },
})

run('later', { bail: true }, (t) => {
  const each = () => {
    t.ok(1)
  }
  each()
})

const plain = wrap({ a: 1, b: 2 })
"""


def test_what_a_call_makes_of_an_object_keeps_the_name_it_is_bound_to() -> None:
    """One function in the object: the name is its; several are named by it.

    No block ends inside of an object.
    """
    pieces = pieces_of("a.tsx", BOUND)
    assert [(name, piece.start + 1, piece.end + 1) for name, piece in pieces.items()] == [
        ("rename", 1, 7),
        ("Card", 9, 13),
        ("Badge", 15, 17),
        ("module:store", 19, 29),
        ("store.actions.inc", 22, 24),
        ("store.actions.dec", 25, 27),
        ("module:app.use", 31, 35),
        ("app.use.onError", 32, 34),
        ("module:made", 37, 41),
        ("made.load", 38, 40),
        ("module:after made", 43, 43),
        ("each", 44, 46),
        ("module:plain", 47, 50),
    ]
    assert pieces["rename"].facts.dependencies == ("mutation", "v.id", "check", "save")
    assert not unseen_lines("a.tsx", BOUND)


def test_a_long_object_is_not_cut_inside_of_its_parts() -> None:
    """A statement of two windows is whole; of a longer one each memory begins with a part of the
    object."""
    part = "  {\n    path: '/',\n    view: 'x',\n  },\n"
    two_windows = pieces_of(
        "a.ts", "const routes = [\n" + part * 9 + "]\n\nconst other = 1\n", window_lines=20
    )
    assert [(piece.start, piece.end) for piece in two_windows.values()] == [(0, 37), (39, 39)]
    pieces = pieces_of("a.ts", "const routes = [\n" + part * 40 + "]\n", window_lines=20)
    assert all(piece.text.startswith(("const", "  {")) for piece in pieces.values())
