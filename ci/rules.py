"""Write the JSON of the rules, which every turn reads. People edit the TOML beside it, which takes 10 ms to parse.

`python -m ci.rules` writes it; a test compares.
"""

import json
import tomllib
from pathlib import Path

STORE = Path(__file__).parents[1] / "xscore" / "store"


def rule_files() -> dict[Path, str]:
    """Path -> text of every file."""
    read = {STORE / f"{name}.json": tomllib.loads((STORE / f"{name}.toml").read_text("utf-8")) for name in NAMES}
    return {path: json.dumps(data, ensure_ascii=False) + "\n" for path, data in read.items()}


NAMES = ("secrets", "pii", "words")


if __name__ == "__main__":
    for path, text in rule_files().items():
        path.write_text(text, "utf-8")
