"""How much each layer holds beside the memories of the index, against its caps, and how much of it is ever used.

It counts; what is over a cap is archived by consolidation. Trade-off: bytes are those of titles, texts and particulars,
not of the file, whose pages, vectors and judgments are `xscore status`'s.
"""

import sqlite3

from xscore.memory.databases import Databases
from xscore.records import Layer, LayerStats
from xscore.settings import MemorySettings

_COUNTED = """
    SELECT status, count(*),
           sum(length(CAST(title AS BLOB)) + length(CAST(text AS BLOB)) + length(CAST(attrs AS BLOB))),
           min(created_at), max(updated_at), sum(access_count), sum(access_count = 0)
    FROM memory WHERE layer = ? AND source <> 'index' GROUP BY status ORDER BY status
"""


def layer_stats(store: Databases) -> list[LayerStats]:
    """Count the layers that people, programs and sessions fill; the user's where its store may be read."""
    own = store.user_connection()
    places: list[tuple[Layer, sqlite3.Connection | None]] = [
        (Layer.SESSION, store.connection),
        (Layer.PROJECT, store.connection),
        (Layer.USER, own),
        (Layer.GOVERNANCE, store.connection),
    ]
    return [_counted(layer, connection, store.settings) for layer, connection in places]


def _counted(layer: Layer, connection: sqlite3.Connection | None, settings: MemorySettings) -> LayerStats:
    found = [] if connection is None else connection.execute(_COUNTED, (layer,)).fetchall()
    return LayerStats(
        layer=layer,
        rows=sum(row[1] for row in found),
        bytes=sum(row[2] for row in found),
        max_rows=settings.max_rows.get(layer.value, 0),
        max_bytes=settings.max_bytes.get(layer.value, 0),
        by_status={row[0]: row[1] for row in found},
        oldest_at=min((row[3] for row in found), default=0.0),
        newest_at=max((row[4] for row in found), default=0.0),
        uses=sum(row[5] for row in found),
        never_used=sum(row[6] for row in found),
    )
