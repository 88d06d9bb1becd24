"""Methods are linked by the class of their object, and calls without one by the class around
them."""

import pytest

from tests.indexer.conftest import Index, arrows
from tests.indexer.receiver_cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_a_method_is_found_by_the_class_of_its_object(name: str, index: Index) -> None:
    """Constructors, factories, members, bases, closures, containers and chains lead to the class;
    nothing else does."""
    files, expected = CASES[name]
    index.of(files)
    assert index.edges("calls") == expected


LIBRARY = {
    "err.rb": (
        "class Err\n"
        "  def to_s\n"
        "    1\n"
        "  end\n\n"
        "  def respond_to?(name)\n"
        "    true\n"
        "  end\n\n"
        "  def paint\n"
        "    2\n"
        "  end\n"
        "end\n\n"
        "def show(value)\n"
        "  value.to_s\n"
        "  value.respond_to?(:x)\n"
        "  value.paint\n"
        "  Err.new.to_s\n"
        "end\n"
    ),
    "p/Err.java": (
        "package p;\n\nclass Err {\n  int equals(Err e) {\n    return 1;\n  }\n\n"
        "  int paint() {\n    return 1;\n  }\n}\n\n"
        "class Use {\n  void show(T v, Err e) {\n    v.equals(e);\n    v.paint();\n  }\n\n"
        "  void typed(Err e) {\n    e.equals(e);\n  }\n}\n"
    ),
    "err.py": (
        "class Err:\n"
        "    def popitem(self):\n"
        "        return 1\n\n"
        "    def paint(self):\n"
        "        return 2\n\n\n"
        "def show(value, err: Err):\n"
        "    value.popitem()\n"
        "    value.paint()\n\n\n"
        "def typed(err: Err):\n"
        "    err.popitem()\n"
    ),
    "err.js": (
        "class Err {\n"
        "  hasOwnProperty(a) {\n"
        "    return a\n"
        "  }\n\n"
        "  paint() {\n"
        "    return 1\n"
        "  }\n"
        "}\n\n"
        "function show(value) {\n"
        "  value.hasOwnProperty(1)\n"
        "  value.paint()\n"
        "}\n\n"
        "function typed() {\n"
        "  const e = new Err()\n"
        "  e.hasOwnProperty(1)\n"
        "}\n"
    ),
    "Err.cs": (
        "class Err\n{\n  public int GetHashCode()\n  {\n    return 1;\n  }\n\n"
        "  public void Typed(Err e, dynamic d)\n  {\n    e.GetHashCode();\n  }\n\n"
        "  public void Show(dynamic d)\n  {\n    d.GetHashCode();\n  }\n}\n"
    ),
}


def test_what_every_object_has_is_no_method_of_one_class(index: Index) -> None:
    """A method of the language's own classes is linked where the type of its object is known, not
    by its name."""
    index.of(LIBRARY)
    assert index.edges("calls") == arrows(
        "err.rb:show -> err.rb:Err.paint err.rb:Err.to_s",
        "Err.java:Use.typed -> Err.java:Err.equals",
        "err.py:show -> err.py:Err.paint",
        "err.py:typed -> err.py:Err.popitem",
        "err.js:show -> err.js:Err.paint",
        "err.js:typed -> err.js:Err err.js:Err.hasOwnProperty",
        "Err.cs:Err.Typed -> Err.cs:Err.GetHashCode",
    )


LOOPS = {
    "a.go": (
        "package a\n\ntype One = Two\n\ntype Two = One\n\nfunc first() One {\n\treturn second()\n"
        "}\n\n"
        "func second() Two {\n\treturn first()\n}\n\nfunc use() {\n\tfirst().run()\n}\n"
    ),
    "b.py": (
        "def first():\n    return second()\n\n\ndef second():\n    return first()\n\n\n"
        "class Loop(Loop):\n    def __init__(self):\n        self.next = self.next.next\n\n"
        "    def go(self):\n        x = first()\n        x = x.next\n        x.run()\n"
        "        self.next.run()\n"
    ),
}


def test_types_that_lead_to_themselves_come_to_an_end(index: Index) -> None:
    """Aliases, results, members and bases in a circle have no method, and linking ends."""
    index.of(LOOPS)
    assert index.edges("calls") == arrows(
        "a.go:first -> a.go:second",
        "a.go:second -> a.go:first",
        "a.go:use -> a.go:first",
        "b.py:first -> b.py:second",
        "b.py:second -> b.py:first",
        "b.py:Loop.go -> b.py:first",
    )


def test_a_long_chain_costs_no_more_than_its_links(index: Index) -> None:
    """Only the last steps of a chain of a thousand calls are kept, and each is looked at a
    bounded number of times."""
    chain = "".join(f".step{number}(a, b)" for number in range(1_000))
    report = index.run(index.make({"a.py": f"def build(x):\n    return x{chain}\n"}))
    assert report.notes == ()
