"""Write the figures of a finished turn beside its receipt. Reports read them; nothing here adds them up."""

import json
from dataclasses import astuple
from sqlite3 import Connection

from xscore import money
from xscore.records import TurnFigures

_INSERT = """
    INSERT OR REPLACE INTO turn_figures (turn_id, command, judge, is_model, candidates, judged, cached,
        carried, unjudged, unjudged_by_cause, kept, near, threshold, scores,
        index_s, pool_s, cache_s, judge_s, select_s, primary_s, total_s,
        expected_calls, expected_input_tokens, expected_output_tokens, expected_cost)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def save_figures(connection: Connection, turn_id: str, figures: TurnFigures) -> None:
    """Keep the figures of a turn, within the caller's transaction."""
    expected = figures.expected
    cost = expected.cost_usd if expected else None
    connection.execute(
        _INSERT,
        (
            *(turn_id, figures.command, figures.judge, int(figures.is_model)),
            *astuple(figures.coverage),
            *(json.dumps(figures.unjudged_by_cause), figures.kept, figures.near, figures.threshold),
            json.dumps(figures.scores),
            *astuple(figures.latency),
            *((expected.calls, expected.input_tokens, expected.output_tokens) if expected else (None, None, None)),
            None if cost is None else money.picodollars(cost),
        ),
    )
