"""Elixir: clauses of one function, and what a module shows of its functions."""

from tests.indexer.conftest import pieces_of, unseen_lines

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
