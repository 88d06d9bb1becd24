"""Go, Rust, Java, C, C++, C#, Ruby, PHP, shell and others cut into entities."""

from importlib.util import find_spec

import pytest

from tests.indexer.conftest import pieces_of, unseen_lines
from xscore.indexer import grammars
from xscore.indexer.grammars import grammar_problem, without_grammar
from xscore.records.memory import Kind

GO = """package shop

import (
	"fmt"
	pay "example.com/shop/payment"
)

// Rate is what is taken off.
const Rate = 0.1

// Cart holds items.
type Cart struct {
	items []Item
}

type Visit func(Item) error

// Total sums the prices.
func (c *Cart) Total() float64 {
	return pay.Sum(c.items)
}

func newCart() *Cart { return &Cart{} }
"""
RUST = """use crate::money::{Price, sum};

/// Adds up.
pub trait Total {
    fn total(&self) -> Price;
}

pub struct Unit;

#[derive(Debug)]
pub struct Cart<T> {
    items: Vec<T>,
}

impl<T> Cart<T> {
    /// An empty cart.
    pub fn new() -> Self {
        Cart { items: Vec::new() }
    }
}

impl<T> Total for Cart<T> {
    fn total(&self) -> Price {
        sum(&self.items)
    }
}

mod inner {
    pub fn helper() -> u8 {
        7
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds_up() {
        assert_eq!(super::inner::helper(), 7);
    }
}
"""
CPP = """#include "shop/cart.h"
#include <vector>

namespace shop {

class SHOP_EXPORT Cart : public Base {
 public:
  int total() const {
    return sum(items_);
  }
};

template <typename T>
T largest(T a, T b) {
  return a > b ? a : b;
}

Cart::Cart(int size)
    : size_(size) {
  reserve(size);
}

void Cart::lock() SHOP_ACQUIRE(mutex_) {
  mutex_.lock();
}

}  // namespace shop

TEST(CartTest, AddsUp) {
  EXPECT_EQ(1, shop::largest(0, 1));
}
"""
SOURCES = {
    "shop/cart.go": (
        GO,
        "module:Rate | Cart | Visit | Cart.Total | newCart",
    ),
    "src/cart.rs": (
        RUST,
        (
            "module:imports | Total | Unit | Cart | impl<T> Cart<T> | Cart.new | impl<T> Total for"
            " Cart<T> | Cart.total | inner.helper | tests.adds_up"
        ),
    ),
    "src/cart.cc": (
        CPP,
        (
            "module:imports | shop.Cart | shop.Cart.total | shop.largest | shop.Cart.Cart |"
            " shop.Cart.lock | CartTest.AddsUp"
        ),
    ),
    "src/list.c": (
        """\
#include <stdio.h>

#define MAX(a, b) \\
  ((a) > (b) ? (a) : (b))

typedef struct node {
  int value;
} node;

/* Frees it. */
static node **
release(node *n) {
  free_all(n->next);
  return NULL;
}
""",
        "module:imports | MAX | node | release",
    ),
    "src/main/java/shop/Cart.java": (
        """\
package shop;

import shop.money.Price;

/** Holds items. */
public class Cart extends Base {
  @Override
  public Price total() {
    return Price.sum(items);
  }

  interface Visitor {
    void visit();
  }
}

record Pair(int a, int b) {
}
""",
        "module:imports | Cart | Cart.total | Cart.Visitor | Pair",
    ),
    "Shop/Cart.cs": (
        """\
using System;

namespace Shop
{
    public class Cart : Base
    {
        public int Total()
        {
            return Sum(items);
        }
    }
}
""",
        "module:imports | Shop.Cart | Shop.Cart.Total",
    ),
    "lib/cart.rb": (
        """\
require_relative 'money'

module Shop
  # Holds items.
  class Cart < Base
    def self.empty
      new([])
    end

    def total
      Money.sum(@items)
    end
  end
end
""",
        "module:imports | Shop | Shop.Cart | Shop.Cart.empty | Shop.Cart.total",
    ),
    "src/Cart.php": (
        """\
<?php

use Shop\\Money;

final class Cart extends Base
{
    public function total(): int
    {
        return $this->sum(Money::of($this->items));
    }
}

function helper()
{
    return 1;
}
""",
        "module:imports | Cart | Cart.total | helper",
    ),
    "run.sh": (
        """\
#!/bin/sh
# Runs it.
run_it() {
  prepare "$1"
}

run_it all
""",
        "run_it | module:after run_it",
    ),
    "src/Cart.kt": (
        """\
import shop.money

class Cart
internal constructor(val items: List<Int>) : Basket<Int>, Named {
    fun total(): Int {
        return money(items)
    }

    companion object {
        @JvmStatic public fun empty(): Cart = Cart(listOf())
    }
}

@Serializable
data object Open : State

@Serializable
enum class Size {
    SMALL, LARGE;
    fun price(): Int {
        return 1
    }
}

fun helper(): Int = 1
""",
        "module:imports | Cart | Cart.total | Cart.empty | Open | Size | Size.price | helper",
    ),
    "Cart.swift": (
        """\
import Foundation

struct Cart {
    let items: [Int]
}

extension Cart {
    func total() -> Int {
        return sum(items)
    }
}
""",
        "module:imports | Cart | extension Cart | Cart.total",
    ),
    "Cart.scala": (
        """\
import shop.money

class Cart(items: List[Int]) {
  def total: Int = {
    money.sum(items)
  }
}

object Cart {
  def empty: Cart = new Cart(Nil)
}
""",
        "module:imports | Cart | Cart.total | Cart#2 | Cart.empty",
    ),
    "cart.lua": (
        """\
local money = require("money")

function Cart.total(self)
  return money.sum(self.items)
end

local function helper()
  return 1
end
""",
        "module:imports | Cart.total | helper",
    ),
    "lib/cart.ex": (
        """\
defmodule Shop.Cart do
  alias Shop.Money

  def total(items) do
    Money.sum(items)
  end

  defp helper, do: 1
end
""",
        "Shop.Cart | Shop.Cart.total | Shop.Cart.helper",
    ),
}


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


ELIXIR = """\
defmodule Shop.Cart do
  @moduledoc \"\"\"
  What is bought.
  \"\"\"

  @doc "The sum."
  @impl true
  def total(items \\\\ [])

  # Nothing costs nothing.
  def total([]), do: 0

  def total([first | rest]) do
    first + total(rest)
  end

  @doc false
  def total(items, rate), do: total(items) * rate

  defp size(items), do: length(items)
  defguard is_cart(items) when is_list(items)
end

defimpl Shop.Priced, for: Shop.Cart do
  def price(cart), do: Shop.Cart.total(cart)
end
"""


def test_the_clauses_of_a_function_are_one_memory() -> None:
    """Clauses of an Elixir function with nothing but comments between are one; a new
    documentation begins another."""
    pieces = pieces_of("lib/cart.ex", ELIXIR)
    assert [(name, piece.start + 1, piece.end + 1) for name, piece in pieces.items()] == [
        ("Shop.Cart", 1, 22),
        ("Shop.Cart.total", 6, 15),
        ("Shop.Cart.total#2", 17, 18),
        ("Shop.Cart.size", 20, 20),
        ("Shop.Cart.is_cart", 21, 21),
        ("Shop.Priced.Shop.Cart", 24, 26),
        ("Shop.Priced.Shop.Cart.price", 25, 25),
    ]
    assert unseen_lines("lib/cart.ex", ELIXIR) == []


def test_clauses_without_end_are_several_memories() -> None:
    """A function of hundreds of clauses is no single memory that fits no budget."""
    clauses = "".join(f"  def code({n}), do: :c{n}\n" for n in range(150))
    pieces = pieces_of("lib/codes.ex", f"defmodule Codes do\n{clauses}end\n")
    assert list(pieces) == ["Codes", "Codes.code", "Codes.code#2", "Codes.code#3"]


def test_a_module_shows_its_functions_without_their_bodies() -> None:
    """The memory of an Elixir module has heads for functions, and its documentation as title."""
    module = pieces_of("lib/cart.ex", ELIXIR)["Shop.Cart"]
    assert module.title == "Shop.Cart: What is bought."
    assert module.text.split("\n")[5:] == [
        "  def total(items \\\\ []) ...",
        "",
        "  def total(items, rate) ...",
        "",
        "  defp size(items) ...",
        "  defguard is_cart(items) when is_list(items)",
        "end",
    ]


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


SPECS = {
    "test/CartSpec.scala": (
        """\
class CartSpec extends FunSuite {
  val cart = new Cart

  test("adds up") {
    assert(cart.total == 3)
  }

  "A cart" should "be empty" in {
    assert(cart.isEmpty)
  }

  "without items" - {
    "costs nothing" in {
      assert(cart.total == 0)
    }
  }
}

object WalkTests extends TestSuite {
  def tests = Tests {
    test("list") - prep { wd =>
      os.list(wd)
    }
  }
}
""",
        "CartSpec | CartSpec.adds up | CartSpec.be empty | CartSpec.without items"
        " | CartSpec.without items > costs nothing"
        " | WalkTests | WalkTests.tests | WalkTests.tests > list",
    ),
    "src/test/CartSpec.kt": (
        """\
class CartSpec : DescribeSpec({
    describe("a cart") {
        it("adds up") {
            total() shouldBe 3
        }
    }
})
""",
        "CartSpec | CartSpec.a cart | CartSpec.a cart > adds up",
    ),
    "Tests/CartSpec.swift": (
        """\
class CartSpec: QuickSpec {
  override class func spec() {
    describe("a cart") {
      it("adds up") {
        expect(total()) == 3
      }
    }
  }
}
""",
        "CartSpec | CartSpec.spec | CartSpec.spec > a cart | CartSpec.spec > a cart > adds up",
    ),
    "spec/cart_spec.lua": (
        """\
describe("a cart", function()
  it("adds up", function()
    assert.same(3, total())
  end)
end)
""",
        "a cart | a cart > adds up",
    ),
    "tests/CartTest.php": (
        """\
<?php

describe('a cart', function () {
    it('adds up', function () {
        expect(total())->toBe(3);
    });
});

test("is empty", fn () => expect(total())->toBe(0));
""",
        "a cart | a cart > adds up | is empty",
    ),
}


@pytest.mark.parametrize("path", SPECS)
def test_tests_that_are_calls_are_cut_one_by_one(path: str) -> None:
    """Tests of munit, ScalaTest, uTest, Kotest, Quick, busted and Pest are memories with their
    titles, and no line is lost."""
    text, expected = SPECS[path]
    pieces = pieces_of(path, text)
    assert " | ".join(pieces) == expected
    assert {piece.kind for piece in pieces.values()} == {Kind.TEST}
    assert unseen_lines(path, text) == []
