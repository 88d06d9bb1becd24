"""Write the JSON of the rules, which every turn reads. People edit the TOML next to it, which
takes 10 ms to parse.

The keys of vendors (`provider_keys.toml`) go into `secrets.json`. `python -m ci.rules` writes it; a
test compares.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

STORE = Path(__file__).parents[1] / "xscore" / "store"


def rule_files() -> dict[Path, str]:
    """Path -> text of every file."""
    rules = {name: _read(name) for name in NAMES}
    rules["secrets"]["token"] = _provider_keys()
    return {
        STORE / f"{name}.json": json.dumps(data, ensure_ascii=False) + "\n"
        for name, data in rules.items()
    }


def _provider_keys() -> list[dict[str, Any]]:
    """Return the forms of vendors' keys without what only people read."""
    keys: list[dict[str, Any]] = _read("provider_keys")["token"]
    return [{name: value for name, value in key.items() if name != "docs"} for key in keys]


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((STORE / f"{name}.toml").read_text("utf-8"))


NAMES = ("secrets", "pii", "words")


if __name__ == "__main__":
    for path, text in rule_files().items():
        path.write_text(text, "utf-8")
