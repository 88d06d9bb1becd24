"""Which model judged last, out of the figures of turns: a replay that names no judge takes it.

Trade-off: a turn from before figures were kept, and whose receipt tells none, judged by nobody.
"""

from sqlite3 import Connection


def latest_judge(connection: Connection) -> str:
    """Name the model (`provider:model`) whose judgments the latest finished turn rests on; empty: there is none."""
    row = connection.execute(
        "SELECT turn_figures.judge FROM turn_figures JOIN turn ON turn.id = turn_id"
        " WHERE is_model = 1 AND judged + cached + carried > 0 ORDER BY started_at DESC, turn_id LIMIT 1"
    ).fetchone()
    provider, _, model = str(row[0]).partition(":") if row else ("", "", "")
    if provider == "scripted":  # its model is the file and the digest of what was in it
        model = model.rpartition("@")[0]
    return f"{provider}:{model}" if model else ""
