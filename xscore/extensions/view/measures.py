"""The report of this repository, as `report -o FILE.html` writes it, and the gate, as `report
--check` prints it. Adds up nothing itself."""

from msgspec.structs import replace

from xscore.cost_reports.commands import BASELINE, DETAILED, PAGE_LINES
from xscore.cost_reports.page import render_page
from xscore.cost_reports.records import CostReport, ReportQuery
from xscore.cost_reports.report import RepositoryLedger, build_report
from xscore.cost_reports.report_files import baseline_for_page, check_report, gate_table
from xscore.extensions.view.messages import HTML, PageResponse
from xscore.extensions.view.site import OWN_POLICY, Site


def report_page(site: Site) -> PageResponse:
    """Return the report."""
    report = _report(site, lines=PAGE_LINES, details=DETAILED)
    page = render_page(
        replace(report, turns=report.turns[:PAGE_LINES]),
        baseline=baseline_for_page(site.folder / BASELINE),
        home=site.root,
    )
    return PageResponse(body=page, content_type=HTML, policy=OWN_POLICY)


def gate_page(site: Site) -> PageResponse:
    """Return the comparison with the baseline, or what to do where there is none.

    Raises UsageError for one that cannot be read.
    """
    if not (site.folder / BASELINE).exists():
        return site.render("no_gate.html.j2", baseline=str(BASELINE))
    report = _report(site, lines=0, details=0)
    gate = check_report(
        report, baseline=site.folder / BASELINE, gates=site.loaded.settings.gates
    )
    return site.render(
        "gate.html.j2", table=gate_table(gate), failed=len(gate.failed), baseline=str(BASELINE)
    )


def _report(site: Site, *, lines: int, details: int) -> CostReport:
    with site.opened() as store:
        ledger = RepositoryLedger(str(store.root.path), store.connection)
        query = ReportQuery(lines=lines, details=details)
        return build_report([ledger], query, now=store.clock())
