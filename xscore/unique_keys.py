"""JSON whose objects name each key once: what a reviewer reads in a diff is then what a program holds.

Parsers take the last of two equal keys, people often the first. It checks that alone, of text that is JSON already and
not nested beyond reason. Trade-off: the text is parsed once more.
"""

import json
from collections.abc import Sequence


def refuse_repeated_keys(text: str) -> None:
    """Raise ValueError that names a key which one object has twice. text: valid JSON."""
    json.loads(text, object_pairs_hook=_once)


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {json.dumps(key[:80])} stands twice in one object")
        found[key] = value
    return found
