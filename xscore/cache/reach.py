"""Which judgments a turn can use again: of contents that a memory shows, and of parts whose memory still needs them.

A memory too large for one pack is judged in parts, under hashes that no memory shows. They are of use until the turn
has judged the whole memory, and to spare then. Trade-off: a part does not say whose it is, so the parts of a turn are
kept as long as there is any memory it has not judged that is large enough to be cut.
"""

from sqlite3 import Connection

from xscore.records import Layer

LEAST_CUT_TOKENS = 200
"""No smaller memory is judged in parts: the smallest pack that can be set (`judge.pack_tokens`)."""
IS_PART = "memories = 0 AND substr(pack, 1, 18) = 'w_' || substr(hash, 1, 16)"
"""Of a row of `judgment` and its `content`: a part has a pack of its own, named by it (`scorer.draft`)."""
COUNTS = f"""
    WITH large AS MATERIALIZED (
        SELECT shown.id AS shown, told.id AS told FROM memory
        JOIN content AS shown ON shown.hash = content_hash JOIN content AS told ON told.hash = text_hash
        WHERE max(tokens, text_tokens) > {LEAST_CUT_TOKENS}
    ), counted AS (
        SELECT query_id AS query, count(*) AS judgments, total(memories > 0) AS shown, total({IS_PART}) AS parts
        FROM judgment LEFT JOIN content ON content.id = content_id GROUP BY query_id
    )
    SELECT query, judgments, shown, parts, parts > 0 AND EXISTS (
        SELECT 1 FROM large WHERE NOT EXISTS (
            SELECT 1 FROM judgment WHERE query_id = query AND content_id IN (large.shown, large.told)))
    FROM counted
"""  # noqa: S608  names are ours
"""Turn by a judge; its judgments, those of contents that a memory shows, those of parts, whether these are needed."""
_INDEXED = "SELECT EXISTS (SELECT 1 FROM file) OR EXISTS (SELECT 1 FROM memory WHERE layer IN (?, ?))"


def is_indexed(connection: Connection) -> bool:
    """Whether the repository was indexed here: before that no judgment's memory is known."""
    (found,) = connection.execute(_INDEXED, (Layer.GRAPH, Layer.VECTOR)).fetchone()
    return bool(found)
