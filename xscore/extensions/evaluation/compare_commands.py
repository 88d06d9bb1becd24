"""`xscore eval compare`: what a change of judge, prompt, packs or settings changes, case by case.

Files of results are read, variants are run one after the other under one cap; what they cost is
said before anything is sent. It measures nothing itself.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from xscore.cli.flags import Flags, command
from xscore.cli.options import FILE, INPUT_FILE, JUDGE, JUDGING, LIMITS, SCOPE, SELECTION
from xscore.cli.phrases import describe_tokens
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.settings_and_store import read_overridden
from xscore.cli.start import STARTED_AT
from xscore.cost_reports.report_files import check_outputs, form_of_file
from xscore.extensions.evaluation.cases import CaseFile, read_cases
from xscore.extensions.evaluation.comparing import (
    VariantRun,
    forecast_variant,
    run_variant,
    variant_settings,
)
from xscore.extensions.evaluation.comparison import CaseComparison, ResultSet, compare
from xscore.extensions.evaluation.comparison_text import render_comparisons
from xscore.extensions.evaluation.recording import Recording
from xscore.extensions.evaluation.results import read_results
from xscore.extensions.evaluation.variants import Variant, parse_variant
from xscore.platform.errors import ExitCode, UsageError
from xscore.platform.figures import format_dollars
from xscore.platform.files import is_there, write_atomically
from xscore.platform.paths import find_root
from xscore.platform.text import counted, one_line
from xscore.settings import LoadedSettings

FOLDER = click.Path(file_okay=False, path_type=Path)


class ComparisonReport(Struct, frozen=True, kw_only=True):
    """All comparisons of one command."""

    comparisons: tuple[CaseComparison, ...]
    """Comparisons of B and every further variant with A."""
    spent_usd: Decimal | None
    """Dollars spent on the variants that were run; None: unpriced."""
    warnings: tuple[str, ...] = ()


@command(SCOPE, SELECTION, JUDGE, LIMITS, JUDGING)
@click.argument("a")
@click.argument("b", nargs=-1, required=True)
@click.option(
    "--cases", type=INPUT_FILE, metavar="FILE", help="The cases that variants are run on."
)
@click.option(
    "--repositories", type=FOLDER, metavar="DIR",
    help="The folder with the clones of the repositories that cases name.",
)  # fmt: skip
@click.option("--record", type=FOLDER, metavar="DIR", help="Keep every reply of a model here.")
@click.option(
    "--replay", type=FOLDER, metavar="DIR", help="Answer from this recording; send nothing."
)
@click.option("-o", "--output", type=FILE, metavar="PAGE.html", help="Write a page with plots.")
def compare_results(
    *,
    a: str,
    b: tuple[str, ...],
    cases: Path | None,
    repositories: Path | None,
    record: Path | None,
    replay: Path | None,
    output: Path | None,
    flags: Flags,
) -> int:
    """Compare A with each B, case by case: results in files, or variants of the settings.

    A file is what `xscore eval run CASES --json` printed. A variant is `now`, or settings such as
    `pack=8`, `judge=openai:gpt-6-luna`, `wire=chat`, `draws=1`, `boosts=off`, `words=off`,
    `rubric=general`, several of them with commas; it is run on --cases, after its cost was shown.
    Judgments are kept, so a second run costs nothing. Intervals are drawn by repository.
    """
    if output is not None:
        _check_page(output)
    sides = [_side(text) for text in (a, *b)]
    recording = _recording(record, replay)
    run = _Runner(flags, cases, repositories, recording).run_all(sides)
    terminal = flags.terminal
    if len(run.results) < len(sides) or not all(results.cases for results in run.results):
        # A variant that was cut short before its first case has nothing to compare.
        terminal.notes(run.warnings)
        terminal.note("there is nothing to compare: a variant has no judged case")
        return run.exit_code or ExitCode.NOTHING_JUDGED
    comparisons = tuple(compare(run.results[0], results) for results in run.results[1:])
    report = ComparisonReport(
        comparisons=comparisons,
        spent_usd=run.spent_usd,
        warnings=run.warnings,
    )
    terminal.print_result(
        report, lambda shown: render_comparisons(shown.comparisons, verbose=terminal.verbose)
    )
    for comparison in comparisons:
        terminal.notes(comparison.warnings)
    terminal.notes(report.warnings)
    if output is not None:
        from xscore.extensions.evaluation.comparison_page import render_comparison_page  # Jinja

        write_atomically(output, render_comparison_page(comparisons).encode())
        terminal.note(f"the page is {one_line(str(output))}")
    return run.exit_code


def _check_page(output: Path) -> None:
    """Raise UsageError before anything is spent if the page cannot be written."""
    if form_of_file(output) != "html":
        raise UsageError(
            f"--output: {output} is not a page", hint="Name a file that ends in .html."
        )
    check_outputs([output], None, writes=False)


def _side(text: str) -> ResultSet | Variant:
    """Return the results of a file, or the variant of this name."""
    path = Path(text)
    if is_there(path) or path.suffix in (".json", ".jsonl") or text == "-":
        return read_results(path)
    return parse_variant(text)


def _recording(record: Path | None, replay: Path | None) -> Recording | None:
    if record is not None and replay is not None:
        raise UsageError(
            "--record and --replay both name a recording",
            hint="--record alone also uses what is recorded already.",
        )
    if replay is not None:
        return Recording.open(replay, sends=False)
    if record is not None:
        return Recording.open(record, sends=True)
    return None


class _AllRuns(Struct, frozen=True, kw_only=True):
    results: tuple[ResultSet, ...]
    spent_usd: Decimal | None
    exit_code: int
    warnings: tuple[str, ...]


class _Runner(Struct):
    """Runs the variants of one command, under one cap."""

    flags: Flags
    cases_file: Path | None
    clones: Path | None
    recording: Recording | None

    def run_all(self, sides: Sequence[ResultSet | Variant]) -> _AllRuns:
        """Run what is a variant; the others are results already."""
        variants = [side for side in sides if isinstance(side, Variant)]
        if not variants:
            results = tuple(side for side in sides if isinstance(side, ResultSet))
            return _AllRuns(results=results, spent_usd=Decimal(0), exit_code=0, warnings=())
        if self.cases_file is None:
            raise UsageError(
                f"`{variants[0].name}` is a variant, and there are no cases to run it on",
                hint="Give --cases FILE; `xscore eval mine` makes one from this repository.",
            )
        cases = read_cases(self.cases_file)
        settings = {variant.name: self._settings(variant) for variant in variants}
        self._announce(variants, settings, cases)
        return self._run(sides, settings, cases)

    def _settings(self, variant: Variant) -> LoadedSettings:
        overrides = {**self.flags.overrides, **variant.overrides}
        names = {**self.flags.names, **variant.written}
        loaded = read_overridden(find_root(Path().resolve()).path, overrides, names)
        return variant_settings(variant, loaded, self.recording)

    def _announce(
        self,
        variants: Sequence[Variant],
        settings: dict[str, LoadedSettings],
        cases: CaseFile,
    ) -> None:
        """Say what each variant will take, before any of them is run."""
        terminal = self.flags.terminal
        if self.recording is not None and not self.recording.sends:
            terminal.note("replay: every reply comes from the recording, and nothing is sent")
            return
        for variant in variants:
            work = partial(
                forecast_variant,
                variant=variant,
                cases=cases,
                scope=self.flags.scope,
                clones=self.clones,
                recording=self.recording,
            )
            forecast = run_with_pipeline(self.flags, work, settings=settings[variant.name])
            tokens = describe_tokens(forecast.input_tokens, forecast.output_tokens)
            # A few of the commits represent all, also for what is cached.
            is_sampled = any(case.parent for case in cases.cases)
            sampled = " (estimated from a few commits)" if is_sampled else ""
            recorded = ""
            if self.recording is not None and self.recording.replies:
                recorded = ", less what is recorded"
            terminal.note(
                f"{one_line(variant.name)}: {counted(forecast.calls, 'call')}, {tokens},"
                f" {format_dollars(forecast.cost_usd, estimated=True)}, {forecast.cached:,} of"
                f" {forecast.candidates:,} judgments cached{recorded}{sampled}"
            )

    def _run(
        self,
        sides: Sequence[ResultSet | Variant],
        settings: dict[str, LoadedSettings],
        cases: CaseFile,
    ) -> _AllRuns:
        results: list[ResultSet] = []
        warnings: list[str] = []
        spent: Decimal | None = Decimal(0)
        exit_code = 0
        for side in sides:
            if isinstance(side, ResultSet):
                results.append(side)
                continue
            loaded = _with_rest_of_cap(settings[side.name], spent or Decimal(0))
            run = self._run_one(side, loaded, cases)
            results.append(run.results)
            warnings += [f"{one_line(side.name)}: {line}" for line in run.evaluation.warnings]
            cost = run.evaluation.cost_usd
            spent = None if spent is None or cost is None else spent + cost
            if run.evaluation.ended:
                warnings.append(_ended_early(side, run))
            exit_code = exit_code or run.evaluation.exit_code
            # Ctrl-C ends the whole command, not only the variant that ran.
            if exit_code == ExitCode.INTERRUPTED:
                break
        return _AllRuns(
            results=tuple(results),
            spent_usd=spent,
            exit_code=exit_code,
            warnings=tuple(dict.fromkeys(warnings)),
        )

    def _run_one(self, variant: Variant, loaded: LoadedSettings, cases: CaseFile) -> VariantRun:
        work = partial(
            run_variant,
            variant=variant,
            cases=cases,
            scope=self.flags.scope,
            started=STARTED_AT,
            clones=self.clones,
            recording=self.recording,
        )
        noun = f"The variant {one_line(variant.name)}"
        return run_with_pipeline(self.flags, work, settings=loaded, noun=noun)


def _with_rest_of_cap(loaded: LoadedSettings, spent: Decimal) -> LoadedSettings:
    """Return the settings with what the earlier variants left of the cap on the command."""
    cap = loaded.settings.budget.max_usd
    if cap is None:
        return loaded
    budget = replace(loaded.settings.budget, max_usd=max(Decimal(0), cap - spent))
    return replace(loaded, settings=replace(loaded.settings, budget=budget))


def _ended_early(variant: Variant, run: VariantRun) -> str:
    evaluation = run.evaluation
    return (
        f"{one_line(variant.name)} ended early ({evaluation.ended}):"
        f" {evaluation.asked} of {counted(evaluation.of, 'case')}, for"
        f" {format_dollars(evaluation.cost_usd, estimated=evaluation.estimated)}; run it again to"
        " go on, what was judged is kept"
    )
