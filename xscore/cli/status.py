"""`xscore status`: what the store of a repository holds. It opens no pipeline."""

import time
from collections.abc import Iterator, Sequence

from xscore.cli.flags import Flags, command
from xscore.cli.phrases import (
    describe_commits,
    describe_files_left,
    describe_kept_out,
    format_age,
)
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.cli.text_layout import render_counts, render_facts
from xscore.pipeline.store_status import read_store_status
from xscore.platform.errors import install_hint
from xscore.platform.figures import format_bytes, format_dollars, format_seconds
from xscore.platform.text import counted, one_line
from xscore.records.reports import BackgroundStatus, HookFailure, SliceLine, StoreStatus

SHORT_COMMIT = 10
_NONE_STORED = " (the lexical judge stores none)"


@command()
def status(flags: Flags) -> None:
    """Show what the store of this repository holds: files, memories, judgments, turns, dollars
    spent."""
    loaded = read_settings(flags)
    flags.terminal.notes(loaded.warnings)
    settings = loaded.settings
    with opened_store(flags, make=False, settings=settings) as store:
        report = read_store_status(store, settings)
    flags.terminal.print_result(report, _render_status)


def _describe_background(background: BackgroundStatus) -> str:
    if background.pid is None:
        return "none"
    doing = "idle"
    if background.doing:
        doing = f"{one_line(background.doing)} for {format_seconds(background.for_s)}"
    return f"{doing} (process {background.pid}{', xscore watch' if background.watches else ''})"


def _describe_hook_failure(failed: HookFailure) -> str:
    return (
        f"{one_line(failed.event)} failed {format_age(failed.at, time.time())}:"
        f" {one_line(failed.problem)}"
    )


def _as_text(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Say which languages are read as text, why, and what to do about it."""
    from xscore.indexer import grammars, languages  # few stores have such files

    problems = {}
    for name in names:
        problems[name] = grammars.grammar_problem(languages.language_named(name))
    missing = [name for name, problem in problems.items() if problem == grammars.NOT_INSTALLED]
    if missing:
        hint = install_hint("languages")
        yield "as text", f"{', '.join(missing)}: {grammars.NOT_INSTALLED}. {hint}"
    for name, problem in problems.items():
        if not problem:
            yield (
                "as text",
                f"{name}: the grammar can be used now. `xscore index` reads its files again.",
            )
        elif problem != grammars.NOT_INSTALLED:
            package = languages.language_named(name).grammar.partition(":")[0].replace("_", "-")
            yield (
                "as text",
                f"{name}: {one_line(problem)}. `pip install --force-reinstall {package}`",
            )


def _slice_rows(slices: Sequence[SliceLine]) -> Iterator[tuple[str, str]]:
    """Name the largest groups of files, the first on the line of their label."""
    for place, slice_ in enumerate(slices):
        folder = one_line(slice_.folder) or "."
        line = f"{folder}, around {one_line(slice_.hub)}: {counted(slice_.files, 'file')}"
        yield ("" if place else "slices"), line
        if slice_.purpose:
            yield "", f"  {one_line(slice_.purpose)}"


def _remarks(report: StoreStatus) -> Iterator[tuple[str, str]]:
    """Yield what the user may want to look at."""
    for calibration in report.calibrations:
        measured = format_age(calibration.at, time.time())
        figures = f"{one_line(calibration.judge)}: {one_line(calibration.says)}, {measured}"
        yield "calibrated", figures
    if report.purposes:
        described = counted(
            report.purposes, "file, class or folder", "files, classes and folders"
        )
        yield "purposes", f"of {described}"
    yield from _slice_rows(report.slices)
    for suggested in report.suggested:
        name = one_line(suggested.name)
        yield "depends on", f"{name}, also indexed on this machine: `xscore ask --repo {name}`"
    if report.facts_waiting:
        waiting = counted(report.facts_waiting, "fact waits", "facts wait")
        yield "review", f"{waiting}: `xscore memory review`"
    if report.background.problem:
        yield "", f"went wrong last: {one_line(report.background.problem)}"
    if report.hook_failure:
        yield "last hook", _describe_hook_failure(report.hook_failure)


def _render_status(report: StoreStatus) -> str:
    if report.branch and report.branch == report.commit:
        branch = "detached at"
    else:
        branch = one_line(report.branch)
    root = [
        ("root", one_line(report.root)),
        ("head", f"{branch} {report.commit[:SHORT_COMMIT]}".strip()),
    ]
    if not report.bytes:  # a note has said that there is no store
        return render_facts(root)
    trusted = "" if report.trusted else " (not trusted)"
    unread = f", {describe_files_left(report.files_left)}" if report.files_left else ""
    rows = [
        *root,
        ("store", f"{one_line(report.store)}  {format_bytes(report.bytes)}{trusted}"),
        ("files", f"{report.files:,}{unread}"),
        ("", describe_kept_out(report.kept_out)),
        ("memories", f"{report.memories:,}"),
        ("layers", render_counts(report.by_layer)),
        ("kinds", render_counts(report.by_kind)),
        ("languages", render_counts(report.by_language)),
        ("commits", describe_commits(report.commits)),
    ]
    if report.without_grammar:
        rows += _as_text(report.without_grammar)
    none_stored = _NONE_STORED if report.turns and not report.judgments else ""
    last_turn = f", last {report.last_turn}" if report.last_turn else ""
    rows += [
        ("edges", render_counts(report.edges)),
        ("judgments", f"{report.judgments:,}{none_stored}"),
        ("turns", f"{report.turns:,}{last_turn}"),
        ("spent", format_dollars(report.spent_usd, estimated=report.spent_estimated)),
        ("background", _describe_background(report.background)),
    ]
    facts = render_facts([*rows, *_remarks(report)])
    if report.files or report.background.doing:
        return facts
    return f"{facts}\n\nNothing is indexed" + (
        "." if report.kept_out else " yet: run `xscore index`."
    )
