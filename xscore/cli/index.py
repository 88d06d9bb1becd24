"""`xscore index`: bring the memories of a repository up to date and say what was seen."""

from pathlib import Path

import click

from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import MOMENT, OUTPUT, Flags, options
from xscore.cli.progress import Watch
from xscore.cli.terminal import echo, print_json
from xscore.errors import UsageError
from xscore.pipeline.receipt import to_json
from xscore.records import IndexReport
from xscore.safe_text import one_line
from xscore.wording import counted, seconds

GIT = {"no_git": MOMENT["no_git"]}


@click.command()
@click.argument("path", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path())
@options(GIT, OUTPUT)
def index(path: Path, flags: Flags) -> None:
    """Bring the memories of the repository around PATH up to date (default: this folder).

    Only what changed is read and parsed. `ask` and `context` do this by themselves.
    """
    if not path.is_dir():  # click lets a device pass
        raise UsageError(f"{path} is not a folder", hint="Name a folder of the repository.")
    terminal = flags.terminal
    watch = Watch(terminal)
    report = in_pipeline(lambda open_: open_.index(), read_settings(flags, start=path), watch, start=path)
    if terminal.as_json:
        print_json(to_json(report))
    else:
        echo(page(report, verbose=terminal.verbose))


def page(report: IndexReport, *, verbose: bool) -> str:
    """Say what was seen, kept out and remembered."""
    files, memories = report.files, report.memories
    kept_out = sum(files.excluded.by_reason.values())
    lines = [
        f"files     {files.seen:,} seen · {files.indexed:,} indexed · {files.unchanged:,} unchanged"
        f" · {files.removed:,} removed · {kept_out:,} kept out",
        f"memories  {memories.total:,} · {memories.added:,} added · {memories.changed:,} changed"
        f" · {memories.removed:,} removed",
        f"kinds     {by_count(memories.by_kind)}",
        f"edges     {by_count(report.edges)}",
    ]
    if kept_out:
        lines.append(f"kept out  {by_count(files.excluded.by_reason)}")
    if verbose:
        lines.extend(f"          {one_line(file.path)}: {file.reason}" for file in files.excluded.sample)
    if report.secrets_redacted:
        lines.append(f"secrets   {counted(report.secrets_redacted, 'value')} redacted before anything was stored")
    return "\n".join([*lines, f"took      {seconds(report.duration_s)}"])


def by_count(counts: dict[str, int]) -> str:
    """`812 function · 41 class`, most first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return " · ".join(f"{count:,} {one_line(name)}" for name, count in ordered) or "none"
