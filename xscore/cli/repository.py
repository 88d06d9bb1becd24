"""`xscore doctor`: whether models, keys, store and settings are fit for use.

`xscore graph`: what a file or entity depends on, what depends on it, what is tied to it.

It asks the store as it is and indexes nothing. Trade-off: after an edit the answer is that of the last index run.

`xscore index`: bring the memories of a repository up to date and say what was seen.

`xscore status`: what the store of this repository holds.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.failures import EXIT_CODES
from xscore.cli.opening import in_pipeline, in_store, read_settings
from xscore.cli.options import MODELS, OUTPUT, WORKING_FILE, Flags, decode_path_argument, options
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import bold, faint, print_json, write_stderr, write_stdout
from xscore.pipeline.json_form import to_json
from xscore.platform.errors import UsageError
from xscore.platform.text import counted, format_bytes, format_dollars, format_seconds, one_line
from xscore.records import Diagnosis, IndexReport, StoreStatus

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline
    from xscore.store.graph import LinkGraph, ReachedNode
    from xscore.store.store import Store


TO_MEND = 3
assert TO_MEND in EXIT_CODES


@click.command()
@click.option(
    "--probe", is_flag=True, help="Have the judge score two made-up functions, and ask the hosts for their models."
)
@options(MODELS, OUTPUT)
def doctor(probe: bool, flags: Flags) -> int:
    """Check models, keys, hosts, store and settings, and say what to mend.

    Ends with 3 where something is to be mended. Nothing is sent unless you say --probe, which may cost a fraction of a
    cent and sends nothing of the repository.
    """
    terminal = flags.terminal
    watch = TurnObserver(terminal)
    found = in_pipeline(lambda open_: open_.doctor(probe=probe), read_settings(flags), watch)
    if terminal.as_json:
        print_json(to_json(found))
    else:
        write_stdout(render_diagnosis(found))
    return 0 if all(finding.ok for finding in found.findings) else TO_MEND


def render_diagnosis(found: Diagnosis) -> str:
    """One line a finding, with its hint below where something is to be mended."""
    width = max((len(finding.name) for finding in found.findings), default=0)
    lines: list[str] = []
    for finding in found.findings:
        mark = "ok  " if finding.ok else bold("mend")
        lines.append(f"{mark}  {finding.name:<{width}}  {one_line(finding.detail)}")
        if finding.hint:
            lines.append(f"      {'':<{width}}  {one_line(finding.hint)}")
    return "\n".join(lines)


Ask = Callable[["LinkGraph", str, int | None], "tuple[ReachedNode, ...]"]

_INCOMING = {"calls": "calls it", "imports": "imports it", "tests": "tests it", "references": "names it"}
_OUTGOING = {"calls": "called", "imports": "imported", "tests": "tested", "references": "named"}
DEPTH = {"depth": click.option("--depth", metavar="N", type=click.IntRange(min=1), help="Steps at most.")}
PLACE = click.argument("path", metavar="PATH")


@click.group()
def graph() -> None:
    """Ask the links between files, entities and what is remembered of them.

    PATH is a file, `path::entity`, or the id of a memory. The answer is that of the last index run.
    """


@graph.command()
@PLACE
@options(DEPTH, OUTPUT)
def related(path: str, flags: Flags) -> None:
    """List what is tied to PATH in either direction, one step unless --depth says more."""
    _answer(path, flags, lambda links, name, depth: links.related_files(name, **_steps(depth)))


@graph.command()
@PLACE
@options(DEPTH, OUTPUT)
def deps(path: str, flags: Flags) -> None:
    """List what PATH calls, imports or tests, and what that does in turn, in five steps at most."""
    _answer(path, flags, lambda links, name, depth: links.dependency_chain(name, **_steps(depth)))


@graph.command()
@PLACE
@options(DEPTH, OUTPUT)
def affected(path: str, flags: Flags) -> None:
    """List what a change of PATH may break: what calls, imports or tests it, in five steps at most."""
    _answer(path, flags, lambda links, name, depth: links.affected_files(name, **_steps(depth)))


def _steps(depth: int | None) -> dict[str, int]:
    return {} if depth is None else {"depth": depth}


def _answer(path: str, flags: Flags, ask: Ask) -> None:
    in_store(lambda store: _query_graph(store, path, flags, ask), flags)


def _query_graph(store: "Store", path: str, flags: Flags, ask: Ask) -> None:
    from xscore.pipeline.json_form import SCHEMA, record_json

    links, terminal = store.graph, flags.terminal
    known = (form for form in _path_candidates(path, store.root.path) if links.names.start(form))
    name = next(known, decode_path_argument(path).removeprefix("./"))
    found = ask(links, name, flags.given["depth"])
    if terminal.as_json:
        print_json({"schema": SCHEMA, "of": name, "found": [record_json(one) for one in found]})
    elif found:
        write_stdout("\n".join(_link_line(one) for one in found))
    if not terminal.as_json and not terminal.quiet:
        write_stderr(faint(f"{one_line(name)}: {counted(len(found), 'tie')}"))


def _path_candidates(path: str, root: Path) -> list[str]:
    """What PATH may mean: from the working folder, from the root, as it stands."""
    place, colons, entity = path.partition("::")
    if place.startswith("m_") and not colons:
        return [path]
    real = Path(os.path.normpath(Path.cwd() / place))
    from_here = [os.path.relpath(real, root)] if place else []
    forms = [*from_here, os.path.normpath(place), place]
    return [decode_path_argument(form) + colons + entity for form in dict.fromkeys(forms)]


def _link_line(one: "ReachedNode") -> str:
    """One end: how far, what, by which tie."""
    words = _INCOMING if one.is_incoming else _OUTGOING
    name = f"{one.path}::{one.entity}" if one.path and one.entity else one.path or f"{one.kind} “{one.entity}”"
    ties = f" ×{one.ties}" if one.ties > 1 else ""
    known = f"  {one.id}" if not one.path else ""
    return f"{one.distance}  {bold(one_line(name))}  {faint(words.get(one.relation, one.relation) + ties + known)}"


GIT = {"no_git": WORKING_FILE["no_git"]}


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
    watch = TurnObserver(terminal)
    report = in_pipeline(lambda open_: open_.index(), read_settings(flags, start=path), watch, start=path)
    if terminal.as_json:
        print_json(to_json(report))
    else:
        write_stdout(render_index(report, verbose=terminal.verbose))


def render_index(report: IndexReport, *, verbose: bool) -> str:
    """Say what was seen, kept out and remembered."""
    files, memories = report.files, report.memories
    kept_out = sum(files.excluded.by_reason.values())
    lines = [
        f"files     {files.seen:,} seen · {files.indexed:,} indexed · {files.unchanged:,} unchanged"
        f" · {files.removed:,} removed · {kept_out:,} kept out",
        f"memories  {memories.total:,} · {memories.added:,} added · {memories.changed:,} changed"
        f" · {memories.removed:,} removed",
        f"kinds     {render_counts(memories.by_kind)}",
        f"edges     {render_counts(report.edges)}",
    ]
    if kept_out:
        lines.append(f"kept out  {render_counts(files.excluded.by_reason)}")
    if verbose:
        lines.extend(f"          {one_line(file.path)}: {file.reason}" for file in files.excluded.sample)
    if report.secrets_redacted:
        lines.append(f"secrets   {counted(report.secrets_redacted, 'value')} redacted before anything was stored")
    return "\n".join([*lines, f"took      {format_seconds(report.duration_s)}"])


def render_counts(counts: dict[str, int]) -> str:
    """`812 function · 41 class`, most first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return " · ".join(f"{count:,} {one_line(name)}" for name, count in ordered) or "none"


@click.command()
@options(OUTPUT)
def status(flags: Flags) -> None:
    """Show what the store of this repository holds: files, memories, judgments, turns, dollars spent."""
    terminal = flags.terminal
    watch = TurnObserver(terminal)
    found = in_pipeline(_read_status, read_settings(flags), watch, make=False)
    if terminal.as_json:
        print_json(to_json(found))
    else:
        write_stdout(render_status(found))


async def _read_status(pipeline: "Pipeline") -> StoreStatus:
    return pipeline.status()


def render_status(found: StoreStatus) -> str:
    """Show counts by layer, kind, language and relation, and what was spent."""
    trusted = " (not there yet)" if not found.bytes else "" if found.trusted else " (not trusted)"
    lines = [
        f"root       {one_line(found.root)}",
        f"store      {one_line(found.store)}  {format_bytes(found.bytes)}{trusted}",
        f"files      {found.files:,}",
        f"memories   {found.memories:,}",
        f"layers     {render_counts(found.by_layer)}",
        f"kinds      {render_counts(found.by_kind)}",
        f"languages  {render_counts(found.by_language)}",
        f"edges      {render_counts(found.edges)}",
        f"judgments  {found.judgments:,}",
        f"turns      {found.turns:,}" + (f", last {found.last_turn}" if found.last_turn else ""),
        f"spent      {format_dollars(found.spent_usd, estimated=found.spent_estimated)}",
    ]
    if not found.files:
        lines.append("\nNothing is indexed yet: run `xscore index`.")
    return "\n".join(lines)
