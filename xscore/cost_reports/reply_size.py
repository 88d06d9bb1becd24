"""How long a model's judging replies are: tokens a memory, as the latest calls show. One look into the ledger.

How many tokens a score takes is the model's own affair (its tokenizer, spaces in its JSON, thinking aloud), and how
many memories get a reason the user's; both are seen after one turn. Trade-off: only the latest calls of any kind are
looked at, so that the look takes a millisecond in a ledger of any size, and a model that was not asked lately is new.
"""

import sqlite3

from xscore.cost_reports.ledger_sums import MOST_TOKENS_BITS
from xscore.tokens import REPLY_FRAME

LATEST_CALLS = 1_000
LEAST_TOKENS, MOST_TOKENS = 3.0, 2_000.0
"""A score and its id take at least so many; beyond the most a host has misreported, or reasons past any estimate."""
_LATEST = f"""
    SELECT sum(output_tokens), sum(candidates), count(*) FROM (
        SELECT stage, outcome, host, model, estimated, output_tokens, candidates FROM call
        ORDER BY started_at DESC LIMIT {LATEST_CALLS}
    ) WHERE stage = 'judge' AND outcome = 'ok' AND NOT estimated AND host = ? AND model = ?
    AND typeof(output_tokens) = 'integer' AND output_tokens BETWEEN 0 AND {1 << MOST_TOKENS_BITS}
    AND typeof(candidates) = 'integer' AND candidates BETWEEN 0 AND {1 << MOST_TOKENS_BITS}
"""  # noqa: S608  figures are ours
"""A row that makes no sense is passed over; no sum of so few overflows."""


def tokens_a_memory(connection: sqlite3.Connection, *, host: str, model: str) -> float | None:
    """Return the output tokens a judged memory beside the frame; None: nothing lately that can be believed."""
    tokens, memories, calls = connection.execute(_LATEST, (host, model)).fetchone()
    if not memories:
        return None
    found = (tokens - REPLY_FRAME * calls) / memories
    return float(found) if LEAST_TOKENS <= found <= MOST_TOKENS else None
