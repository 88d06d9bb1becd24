"""A repository with a small history that was written to be mined."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.histories import NewCommit, write_commits

ORIGIN = {
    "shop/prices.py": (
        '"""Prices."""\n\nRATE = 0.1\n\n\nclass Cart:\n    """What is bought."""\n\n'
        "    def total(self, items):\n        return sum(items)\n\n\n"
        "def discount(amount):\n    return amount * (1 - RATE)\n"
    ),
    "tests/test_prices.py": (
        "from shop.prices import discount\n\n\ndef test_discount():\n    assert discount(10) == 9\n"
    ),
    "README.md": "# Shop\n",
}
FIX = (
    "Round what is taken off to whole cents (#12)\n\n"
    "`discount` in shop/prices.py left fractions of a cent, and Cart.total() added them up,\n"
    "see https://example.invalid/issues/12 and commit 0a1b2c3d4e.\n\n"
    "Signed-off-by: Ann <ann@example.invalid>\n"
)
FIXED = {
    "shop/prices.py": ORIGIN["shop/prices.py"].replace(
        "return amount * (1 - RATE)", "return round(amount * (1 - RATE), 2)"
    ),
    "tests/test_prices.py": ORIGIN["tests/test_prices.py"].replace("== 9", "== 9.0"),
}
REMARK = "Say in the comment of every price why the rate is what it is today\n"
REMARKED = {
    "shop/prices.py": FIXED["shop/prices.py"].replace(
        "def discount(amount):\n",
        'def discount(amount):\n    """Take off."""\n    # ten percent\n',
    )
}
GROWTH = "Let customers empty their basket again before they pay for everything\n"
GROWN = {
    "shop/prices.py": REMARKED["shop/prices.py"].replace(
        "        return sum(items)\n",
        "        return sum(items or [])\n\n    def clear(self):\n        return []\n",
    )
}
HISTORY: tuple[tuple[str, Mapping[str, str | None]], ...] = (
    ("Begin the shop with its prices and everything that belongs to them\n", ORIGIN),
    (FIX, FIXED),
    ("Fix typo\n", {"README.md": "# The shop\n"}),
    (REMARK, REMARKED),
    (GROWTH, GROWN),
)


def write_history(
    root: Path, commits: Sequence[tuple[str, Mapping[str, str | None]]] = HISTORY
) -> Path:
    """Commit these changes a day apart; None removes a file."""
    return write_commits(
        root,
        [
            NewCommit(message, files, datetime(2026, 3, day, 12, tzinfo=UTC).timestamp())
            for day, (message, files) in enumerate(commits, start=1)
        ],
    )
