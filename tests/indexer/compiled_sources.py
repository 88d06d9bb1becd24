"""A small file in each compiled language, by its path, with the memories that it is cut into."""

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
