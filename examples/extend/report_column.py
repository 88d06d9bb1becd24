"""A report column: the turns of the ledger as a polars frame, with a column of your own, as CSV on
standard output. polars is the extra `frames`."""

import asyncio
import sys

import polars as pl

from xscore import Pipeline
from xscore.cost_reports.records import ReportQuery
from xscore.cost_reports.report import RepositoryLedger, build_report
from xscore.cost_reports.report_files import report_table


async def main() -> None:
    """Read the ledger, add the column, write the table."""
    async with Pipeline.open(".") as pipeline:
        store = pipeline.store
        ledger = RepositoryLedger(str(store.root.path), store.connection)
        report = build_report([ledger], ReportQuery(lines=None), now=store.clock())
    usd_per_kept = (pl.col("cost_usd") / pl.col("kept")).alias("usd_per_kept")
    table = report_table(report).with_columns(usd_per_kept)
    sys.stdout.write(
        table.select("turn", "task", "kept", "cost_usd", "usd_per_kept").write_csv()
    )


asyncio.run(main())
