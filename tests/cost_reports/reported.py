"""A report over one ledger that a test has filled."""

from sqlite3 import Connection

from tests.cost_reports.ledger_rows import DAY
from xscore.cost_reports.report import RepositoryLedger, build_report
from xscore.records.cost_report import CostReport, ReportQuery

NOW = DAY + 10 * 86_400


def reported(connection: Connection, **asked: object) -> CostReport:
    """Report over one ledger."""
    return build_report([RepositoryLedger("/shop", connection)], ReportQuery(**asked), now=NOW)  # type: ignore[arg-type]  # by name
