"""Evaluations in the store: one row each, written here and nowhere else. It measures nothing and compares nothing."""

import secrets
from dataclasses import astuple, replace
from sqlite3 import Connection

from xscore import database
from xscore.records.cost_report import EvaluationLine


def record(connection: Connection, line: EvaluationLine) -> str:
    """Keep an evaluation in a transaction of its own and return the id that it was dealt (`v_…`)."""
    named = replace(line, id="v_" + secrets.token_hex(8))
    with database.transaction(connection):
        connection.execute(
            "INSERT INTO evaluation (id, at, questions, judge, cases, k, recall, precision, hit, reciprocal_rank, ndcg,"
            " candidates, unjudged) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            astuple(named),
        )
    return named.id
