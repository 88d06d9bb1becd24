"""A small repository about baskets, a question of it, and a script for its models."""

import json
from pathlib import Path
from typing import Any

FILES = {
    "shop/basket.py": (
        '"""A basket of goods."""\n\n\n'
        "class Basket:\n"
        '    """Holds goods until they are paid for."""\n\n'
        "    def total(self) -> int:\n"
        '        """Sum the prices of the basket, in cents."""\n'
        "        return sum(item.price for item in self.items)\n\n\n"
        "def greet(name: str) -> str:\n"
        '    """Say hello."""\n'
        '    return f"hello {name}"\n'
    ),
    "shop/checkout.py": (
        '"""Pay for a basket."""\n\n'
        "from shop.basket import Basket\n\n\n"
        "def pay(basket: Basket) -> int:\n"
        '    """Charge the total of the basket to a card."""\n'
        "    return basket.total()\n"
    ),
    "README.md": "# Shop\n\nA shop sells goods.\n\n## Refunds\n\nRefunds take three days.\n",
}
SCRIPT: dict[str, Any] = {
    "default": 0.03,
    "answer": "It is summed in Basket.total.",
    "rules": [
        {"entity": "*total", "score": 0.95, "reason": "sums the prices"},
        {"entity": "pay", "score": 0.62, "reason": "calls it"},
    ],
}
TASK = "where is the total of a basket summed?"


def script_flags(path: Path, script: dict[str, Any]) -> tuple[str, ...]:
    """Write a script and name it as both models."""
    path.write_text(json.dumps(script))
    return ("--judge", f"scripted:{path}", "--model", f"scripted:{path}")
