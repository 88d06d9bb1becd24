"""Go, Rust, Java, C, C++, C#, Ruby, PHP, shell and others cut into entities."""

from importlib.util import find_spec

import pytest

from tests.indexer.compiled_sources import CPP, GO, RUST, SOURCES
from tests.indexer.conftest import pieces_of
from xscore.indexer import grammars
from xscore.indexer.grammars import grammar_problem, without_grammar
from xscore.records.memory import Kind


@pytest.mark.parametrize("path", SOURCES)
def test_each_language_is_cut_into_its_entities(path: str) -> None:
    """Functions, methods by type, types, tests and the import block, in the language's own
    names."""
    text, expected = SOURCES[path]
    assert " | ".join(pieces_of(path, text)) == expected


def test_a_method_belongs_to_the_type_of_its_receiver() -> None:
    """Go's receivers, Rust's impl blocks and C++ definitions outside the class are methods of the
    type."""
    for path, name in [
        ("shop/cart.go", "Cart.Total"),
        ("src/cart.rs", "Cart.total"),
        ("src/cart.cc", "shop.Cart.lock"),
    ]:
        assert pieces_of(path, SOURCES[path][0])[name].kind is Kind.METHOD


def test_rows_stay_where_a_constructor_has_its_own() -> None:
    """Kotlin's constructor below its class moves no row, and the text of the memory is the
    file's."""
    pieces = pieces_of("src/Cart.kt", SOURCES["src/Cart.kt"][0])
    assert pieces["Cart.total"].text.startswith(
        "    fun total(): Int {\n        return money(items)"
    )
    assert (
        "internal constructor(val items: List<Int>) : Basket<Int>, Named {"
        in pieces["Cart"].text
    )
    assert pieces["Size"].text.startswith("@Serializable\nenum class Size {")


def test_what_is_said_of_an_entity_is_read() -> None:
    """Doc comments, signatures without macros, calls and base classes are recorded."""
    total = pieces_of("shop/cart.go", GO)["Cart.Total"]
    assert total.facts.docstring == "Total sums the prices."
    assert total.facts.signature == "func (c *Cart) Total() float64"
    assert total.facts.dependencies == ("pay.Sum",)
    assert [(use.name, use.hint) for use in total.uses] == [
        ("Sum", "mod:example.com/shop/payment")
    ]
    cart = pieces_of("src/cart.cc", CPP)["shop.Cart"]
    assert [(use.name, use.is_reference) for use in cart.uses] == [("Base", True)]
    rust_pieces = pieces_of("src/cart.rs", RUST)
    assert rust_pieces["Cart.new"].facts.docstring == "An empty cart."
    assert rust_pieces["tests.adds_up"].kind is Kind.TEST
    assert ("Total", True) in [
        (use.name, use.is_reference) for use in rust_pieces["impl<T> Total for Cart<T>"].uses
    ]


def test_a_language_without_its_grammar_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only languages whose grammar is not installed are reported."""
    grammar_problem.cache_clear()
    monkeypatch.setattr(
        grammars, "find_spec", lambda name: None if "kotlin" in name else find_spec(name)
    )
    assert without_grammar(["kotlin", "go", "fish"]) == ["kotlin"]
    grammar_problem.cache_clear()


def test_functions_without_a_body_are_named() -> None:
    """A Kotlin function that each platform defines is a memory; a block of C prototypes has the
    name of the first."""
    kotlin = """\
/** The days between. */
public expect fun Date.until(other: Date): Int

/** Today. */
public expect fun today(): Date

class A {
    fun a() = 1
}
"""
    pieces = pieces_of("src/Date.kt", kotlin)
    assert list(pieces) == ["Date.until", "today", "A", "A.a"]
    assert pieces["today"].facts.docstring == "Today."
    header = """\
struct stream {
    int size;
};
EXTERN int EXPORT inflate(struct stream *s);
/* Inflates. */
EXTERN const char *version(void);
"""
    assert list(pieces_of("lib.h", header)) == ["stream", "module:inflate"]
