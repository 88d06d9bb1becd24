"""What a text names that can be looked up, and what only looks like it."""

import time

import pytest

from xscore.store.named_things import MOST_NAMED, NamedKind, named_things


def named(text: str) -> list[tuple[str, str]]:
    """Return kind and name of what a text names; of a version also the number."""
    return [
        (thing.kind, f"{thing.name} {thing.version}".strip()) for thing in named_things(text)
    ]


@pytest.mark.parametrize(
    ("text", "things"),
    [
        ("Prices are in `shop/cart.py`.", [("file", "shop/cart.py")]),
        ("see docs/adr/0001-x.md, please", [("file", "docs/adr/0001-x.md")]),
        ("`cart.py::Cart.total`", [("file", "cart.py"), ("symbol", "Cart.total")]),
        ("round_cents rounds; total() sums", [("symbol", "total"), ("symbol", "round_cents")]),
        ("`RetryPolicy` and `MAX_TRIES`", [("symbol", "RetryPolicy"), ("symbol", "MAX_TRIES")]),
        ("run `make lint`", [("command", "make lint")]),
        ("use Django 4.2 here", [("version", "Django 4.2")]),
        ("Python >= 3.11", [("version", "Python 3.11")]),
        (
            "```sh\n$ npm test && make x  # y\n```",
            [("command", "npm test"), ("command", "make x")],
        ),
    ],
)
def test_names_are_seen(text: str, things: list[tuple[str, str]]) -> None:
    """Where they are marked, or have a form that prose has not."""
    assert named(text) == things


@pytest.mark.parametrize(
    "text",
    [
        "input/output and and/or, e.g. `main`, `true`",
        "https://example.com/a/b.py and [a.yml](https://example.com/a.yml)",
        "/etc/app/conf.toml, ~/.config/x.toml, *.py, ${HOME}/x.sh",
        "![with_it@2x](https://example.com/x)",
        "```python\nfoo_bar()\n```",
        "Modules begin with `from __future__ import annotations`.",
        "run with `const x = y` or `return total`",
        "",
    ],
)
def test_prose_and_other_places_are_not(text: str) -> None:
    """Neither words with a slash nor what lies elsewhere, nor code of other languages."""
    assert named(text) == []


def test_lines_are_counted_and_work_is_bounded() -> None:
    """Each name once, with its first line; a long text is read in time by its length."""
    things = named_things("a\n\n`x/a.py`\n`x/a.py`")
    assert [(thing.kind, thing.line) for thing in things] == [(NamedKind.FILE, 3)]
    assert len(named_things("\n".join(f"`x/f{n}.py`" for n in range(200)))) == MOST_NAMED
    for hostile in ("`" * 4_000, "a/" * 4_000, "a_" * 4_000, "a.b" * 3_000, "1.1" * 3_000):
        began = time.process_time()
        named_things("\n".join([hostile] * 20))
        assert time.process_time() - began < 1.0
