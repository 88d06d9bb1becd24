"""How JavaScript and TypeScript are cut."""

from textwrap import dedent

import pytest

from tests.indexer.conftest import pieces_of, unseen_lines
from xscore.records.memory import Kind

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
    """It is one on one row, with the comment above it, and in a namespace; not in a function,
    nor on a row of a test."""
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
