"""Tests that are calls rather than functions, in several languages."""

import pytest

from tests.indexer.conftest import pieces_of, unseen_lines
from xscore.records.memory import Kind

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
