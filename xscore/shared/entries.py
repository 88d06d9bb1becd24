"""Judgments as a server keeps them: beside each its seal, looked at whenever it comes back.

A seal (`hashing.judgment_seals`, over turn and judge as well) tells damage and a row of another turn, not forgery: who
may write to the server can plant scores. The reason is sealed with its judgment.
"""

import json
import struct
from collections.abc import Iterable, Sequence
from zlib import crc32

from xscore.cache.keys import Names
from xscore.errors import StoreDamaged
from xscore.hashing import judgment_seals, turn_seal
from xscore.records import Judgment


def sealed(names: Names, judgments: Sequence[Judgment]) -> list[tuple[str, str]]:
    """Return content hash and text of each."""
    rows = [(j.content_hash, j.score + 0.0, j.prior + 0.0, j.pack, j.position) for j in judgments]
    seals = judgment_seals(turn_seal(*names), rows)
    return [
        (row[0], json.dumps([*row[1:], j.reason, crc32(j.reason.encode("utf-8", "surrogatepass"), seal)]))
        for j, row, seal in zip(judgments, rows, seals, strict=True)
    ]


def unsealed(names: Names, entries: Iterable[tuple[str, str | bytes]]) -> dict[str, Judgment]:
    """Turn content hashes with their texts into judgments, by content hash. Raises StoreDamaged."""
    try:
        rows = [(content, *json.loads(text)) for content, text in entries]
        seals = judgment_seals(turn_seal(*names), rows)
        found = []
        for (content, score, prior, pack, position, reason, told), seal in zip(rows, seals, strict=True):
            if crc32(reason.encode("utf-8", "surrogatepass"), seal) != told:
                raise ValueError("a judgment does not fit its seal")
            found.append(Judgment(content, score, reason, pack, position, prior))
    except (ValueError, TypeError, AttributeError, IndexError, RecursionError, struct.error) as error:
        raise StoreDamaged(
            f"what the shared server holds of a turn is damaged: {error}",
            hint="Delete the tenant's keys there, or set shared.url to empty; your own store is not touched.",
        ) from error
    return {judgment.content_hash: judgment for judgment in found}
