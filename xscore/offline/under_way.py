"""What jobs under way are having judged, so that nothing is asked of two jobs.

It goes by turn key and content, so another list, or the same question under another name, is met as well. Trade-off: a
live turn does not wait for a batch; whoever asks live what a job asks pays for it, and the first judgment stands.
"""

import sqlite3
from collections.abc import Iterable, Mapping

_UNDER_WAY = """
    SELECT turn_key, coalesce(json_extract(piece.value, '$[1]'), json_extract(piece.value, '$[0]'))
    FROM job CROSS JOIN job_question ON job_question.job = job.id
    CROSS JOIN job_request ON job_request.job = job.id AND question = job_question.number
    CROSS JOIN job_ask ON job_ask.job = job.id AND job_ask.number = ask, json_each(pieces) AS piece
    WHERE job.id = ? AND job_request.state IN ('planned', 'sent')
"""


def under_way(connection: sqlite3.Connection, job_ids: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return which contents (of whole memories) these jobs are having judged, by turn key."""
    found: dict[str, set[str]] = {}
    for job_id in job_ids:
        for key, memory in connection.execute(_UNDER_WAY, (job_id,)):
            found.setdefault(key, set()).add(memory)
    return {key: frozenset(memories) for key, memories in found.items()}
