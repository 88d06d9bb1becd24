"""`xscore index | status | doctor | graph | config`: a repository's memories, store, setup, links
and settings.

`config` changes no setting; a key shows only its last characters, and a URL no user or password.
`graph` reads the store and indexes nothing. Trade-off: after an edit its answer is that of the last
index run.
"""

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from xscore.cli.opening import opened_store, read_settings, run_turn
from xscore.cli.options import ANSWERER, COUNT, JUDGE, NO_GIT, Flags, command
from xscore.cli.phrases import describe_kept_out, format_age, list_kept_out
from xscore.cli.start import STARTED_AT
from xscore.cli.text_layout import bold, faint, render_counts, render_facts, render_table
from xscore.pipeline.json_form import record_json
from xscore.platform.errors import ExitCode, UsageError, install_hint
from xscore.platform.figures import format_bytes, format_dollars, format_seconds
from xscore.platform.paths import decode_path_argument, find_root, refuse_wide_folder, user_data_dir
from xscore.platform.text import counted, format_place, mask_key, one_line
from xscore.records.memory import IndexReport
from xscore.store import opening

if TYPE_CHECKING:
    # An index run reports none of these: it starts without them.
    from xscore.records.reports import (
        BackgroundStatus,
        Diagnosis,
        EffectiveSetting,
        HookFailure,
        StoreStatus,
    )
    from xscore.settings import LoadedSettings
    from xscore.store.graph import ReachedNode

SHORT_COMMIT = 10
_INCOMING = {"calls": "calls", "imports": "imports", "tests": "tests", "references": "names"}
_OUTGOING = {"calls": "called", "imports": "imported", "tests": "tested", "references": "named"}
_NOTHING = {
    "related": "the index knows no link from or to {}",
    "deps": "the index knows nothing that {} calls, imports or tests",
    "affected": "the index knows nothing that calls, imports or tests {}",
    "callers": "no call to {} is in the index; it may be called through a value or an interface",
    "callees": "no call from {} is in the index; it may call through a value or an interface",
}


@command(JUDGE, ANSWERER)
@click.option(
    "--probe",
    is_flag=True,
    help="Have the judge score two made-up functions; ask hosts for their models.",
)
def doctor(probe: bool, flags: Flags) -> int:
    """Check models, keys, hosts, store and settings, and say what to fix.

    Exit code 3 if something needs fixing. Nothing is sent unless you say --probe, which may cost a
    fraction of a cent and sends nothing of the repository.
    """
    diagnosis = run_turn(flags, lambda open_: open_.doctor(probe=probe), make=False)
    flags.terminal.print_result(diagnosis, _render_diagnosis)
    if all(finding.ok for finding in diagnosis.findings):
        return 0
    return ExitCode.NOTHING_JUDGED


def _render_diagnosis(diagnosis: "Diagnosis") -> str:
    rows = []
    shown = {""}
    for finding in diagnosis.findings:
        rows.append(("ok" if finding.ok else bold("fix"), finding.name, one_line(finding.detail)))
        rows += [] if finding.hint in shown else [("", "", one_line(finding.hint))]
        shown.add(finding.hint)
    return render_table((), rows)


@command()
@click.argument(
    "question", metavar="related|deps|affected|callers|callees", type=click.Choice(list(_NOTHING))
)
@click.argument("path", metavar="NAME")
@click.option(
    "--depth",
    metavar="N",
    type=COUNT,
    help="Follow at most N links; default 5 for deps and affected, else 1.",
)
def graph(question: str, path: str, depth: int | None, flags: Flags) -> None:
    """Follow the links of NAME: a file, `path:lines`, `path::entity`, `Class.method`, or the ID of
    a memory.

    related: what is linked to it in either direction. deps: what it calls, imports or tests.
    affected: what a change to it may break. callers: the functions and tests that call it. callees:
    the functions that it calls.
    """
    from xscore.store.graph import ends_named, entity_names, follow_links
    from xscore.store.naming import name_forms

    with opened_store(flags, make=False) as store:
        name = decode_path_argument(path).removeprefix("./")
        for form in name_forms(path, store.root.path):
            if ends_named(store.connection, form):
                name = form
                break
        reached = follow_links(store.connection, question, name, depth=depth)
        starts = ends_named(store.connection, name, question)
        # With one start the line says "it"; with several, which of them.
        names = entity_names(store.connection, starts) if len(starts) > 1 else {}
    body = {"of": name, "found": [record_json(reached_node) for reached_node in reached]}
    names |= {reached_node.id: reached_node.entity or reached_node.path for reached_node in reached}
    # Where everything is one step away, saying so on each line tells nothing.
    shows_steps = any(node.distance > 1 for node in reached)
    lines = []
    for reached_node in reached:
        lines.append(
            _link_line(reached_node, via=names.get(reached_node.via, ""), shows_steps=shows_steps)
        )
    flags.terminal.print_result(
        body, "\n".join(lines), none=_NOTHING[question].format(one_line(name))
    )
    if reached:
        flags.terminal.lines(faint(f"{one_line(name)}: {len(reached):,} found"))


def _link_line(node: "ReachedNode", *, via: str, shows_steps: bool) -> str:
    """Say where a node is and how it is linked.

    via: the one nearer to the start that it is linked to, or empty for the start.
    """
    if node.is_incoming:
        link = f"{_INCOMING.get(node.relation, node.relation)} {via or 'it'}"
    else:
        link = f"{_OUTGOING.get(node.relation, node.relation)} by {via or 'it'}"
    name = node.path or f"{node.kind} “{node.entity}”"
    if node.path and node.entity:
        name = f"{format_place(node.path, node.start_line, node.end_line)}  {node.entity}"
    ties = f" ×{node.ties}" if node.ties > 1 and not via else ""
    identifier = f"  {node.id}" if not node.path else ""
    steps = ""
    if shows_steps:
        steps = counted(node.distance, "step").ljust(len("2 steps")) + "  "
    return f"{steps}{bold(one_line(name))}  {faint(one_line(link) + ties + identifier)}"


@command([NO_GIT])
@click.argument(
    "path", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path()
)
def index(path: Path, flags: Flags) -> None:
    """Bring the memories of the repository around PATH up to date (default: this folder).

    Only what changed is read and parsed. `ask` and `context` do this by themselves, but in a home
    folder only after this command was given its PATH.
    """
    if not path.is_dir():  # click lets a device pass
        raise UsageError(f"{path} is not a folder", hint="Name a folder of the repository.")
    if (
        click.get_current_context().get_parameter_source("path")
        is not click.core.ParameterSource.DEFAULT
    ):
        _accept_folder(path, flags)
    report = run_turn(flags, lambda open_: open_.index(), start=path, late_loop=True)
    if flags.terminal.as_json or not flags.terminal.quiet:
        flags.terminal.print_result(
            report, lambda one: _render_index(one, verbose=flags.terminal.verbose)
        )


def _accept_folder(path: Path, flags: Flags) -> None:
    """Create the store of a home folder, or of one above it, which no other command does."""
    root = find_root(path.resolve())
    try:
        refuse_wide_folder(root)
    except UsageError:
        chosen = read_settings(flags, start=path).settings.store
        user_data = user_data_dir(chosen.user_data_dir)
        opening.open_store(root.store_dir, user_data_dir=user_data, trust=chosen.trust).close()


def _render_index(report: IndexReport, *, verbose: bool) -> str:
    files = report.files
    memories = report.memories
    kept_out = sum(files.excluded.by_reason.values())
    read = f"{files.seen:,} seen · {files.indexed:,} indexed · {files.unchanged:,} unchanged"
    changes = (
        f"{memories.added:,} added · {memories.changed:,} changed · {memories.removed:,} removed"
    )
    rows = [
        ("files", f"{read} · {files.removed:,} removed · {kept_out:,} kept out"),
        ("memories", f"{memories.total:,} · {changes}"),
        ("kinds", render_counts(memories.by_kind)),
        ("edges", render_counts(report.edges)),
        ("kept out", render_counts(files.excluded.by_reason) if kept_out else ""),
    ]
    if verbose:
        rows += [("", line) for line in list_kept_out(files.excluded)]
    if report.secrets_redacted:
        secrets = counted(report.secrets_redacted, "value")
        rows.append(("secrets", f"{secrets} redacted before anything was stored"))
    if report.files_left:
        rows.append(("left", _still_left(report.files_left)))
    rows.append(("took", format_seconds(time.monotonic() - STARTED_AT)))
    return render_facts(rows)


@command()
def status(flags: Flags) -> None:
    """Show what the store of this repository holds: files, memories, judgments, turns, dollars
    spent."""
    from xscore.pipeline.store_status import read_store_status

    loaded = read_settings(flags)
    flags.terminal.notes(loaded.warnings)
    settings = loaded.settings
    with opened_store(flags, make=False, settings=settings) as store:
        report = read_store_status(store, settings)
    flags.terminal.print_result(report, _render_status)


def _describe_background(background: "BackgroundStatus") -> str:
    if background.pid is None:
        return "none"
    doing = "idle"
    if background.doing:
        doing = f"{one_line(background.doing)} for {format_seconds(background.for_s)}"
    return f"{doing} (process {background.pid}{', xscore watch' if background.watches else ''})"


def _describe_hook_failure(failed: "HookFailure") -> str:
    return (
        f"{one_line(failed.event)} failed {format_age(failed.at, time.time())}:"
        f" {one_line(failed.problem)}"
    )


def _as_text(languages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Say which languages are read as text, why, and what to do about it."""
    from xscore.indexer.grammars import NOT_INSTALLED, grammar_problem
    from xscore.indexer.languages import language_named

    problems = {name: grammar_problem(language_named(name)) for name in languages}
    missing = [name for name, problem in problems.items() if problem == NOT_INSTALLED]
    if missing:
        yield "as text", f"{', '.join(missing)}: {NOT_INSTALLED}. {install_hint('languages')}"
    for name, problem in problems.items():
        if not problem:
            yield (
                "as text",
                f"{name}: the grammar can be used now. `xscore index` reads its files again.",
            )
        elif problem != NOT_INSTALLED:
            package = language_named(name).grammar.partition(":")[0].replace("_", "-")
            yield (
                "as text",
                f"{name}: {one_line(problem)}. `pip install --force-reinstall {package}`",
            )


def _still_left(files: int) -> str:
    return f"{files:,} still to be read: `xscore index`"


_NONE_STORED = " (the lexical judge stores none)"


def _render_status(report: "StoreStatus") -> str:
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
    unread = f", {_still_left(report.files_left)}" if report.files_left else ""
    rows = [
        *root,
        ("store", f"{one_line(report.store)}  {format_bytes(report.bytes)}{trusted}"),
        ("files", f"{report.files:,}{unread}"),
        ("", describe_kept_out(report.kept_out)),
        ("memories", f"{report.memories:,}"),
        ("layers", render_counts(report.by_layer)),
        ("kinds", render_counts(report.by_kind)),
        ("languages", render_counts(report.by_language)),
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
    if report.background.problem:
        rows.append(("", f"went wrong last: {one_line(report.background.problem)}"))
    if report.hook_failure:
        rows.append(("last hook", _describe_hook_failure(report.hook_failure)))
    facts = render_facts(rows)
    if report.files or report.background.doing:
        return facts
    return f"{facts}\n\nNothing is indexed" + (
        "." if report.kept_out else " yet: run `xscore index`."
    )


_AFTER_SCHEME = re.compile(r"://\S*")
_QUERY_VALUE = re.compile(r"([?&][^=&#?\s]*=|#)[^&#\s]+")


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str, flags: Flags) -> None:
    """Print the completion script of SHELL.

    bash: eval "$(xscore config completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish:
    save it as ~/.config/fish/completions/xscore.fish.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(click.get_current_context().find_root().command, {}, "xscore", "_XSCORE_COMPLETE")
    flags.terminal.data(
        ShellComplete.source(script)
    )  # the class's own checks the installed bash; the script does not need it


@command()
@click.option("--origin", is_flag=True, help="Also show where each value came from.")
def show_config(origin: bool, flags: Flags) -> None:
    """Show every effective setting; keys are masked but for their last four characters.

    Set one in your own config.toml, in .xscore.toml of the repository (some only), as
    XSCORE_SECTION_NAME or by an option: docs/reference/settings.md.
    """
    loaded = read_settings(flags)
    settings_in_force = effective_settings(loaded)
    flags.terminal.notes(loaded.warnings)

    def render(_: object) -> str:
        rows = []
        for setting_row in settings_in_force:
            rows.append(
                (
                    setting_row.name,
                    one_line(setting_row.origin),
                    one_line(setting_row.value) or "(unset)",
                )
            )
        return render_table((), [row if origin else row[::2] for row in rows])

    flags.terminal.print_result(
        {"settings": [asdict(setting) for setting in settings_in_force]}, render
    )


def effective_settings(loaded: "LoadedSettings") -> "list[EffectiveSetting]":
    """Return every setting with its formatted value and origin; keys and what is secret in URLs are
    masked."""
    # An index run starts without it.
    from xscore.records.reports import EffectiveSetting

    settings_in_force = []
    for name, origin in loaded.origins.items():
        section, field = name.split(".", 1)
        value = getattr(getattr(loaded.settings, section), field)
        shown = value.reveal() if name == "shared.url" else format_setting(value)
        if name == "shared.url" and shown and "://" not in shown:
            shown = "(unreadable)"
        settings_in_force.append(
            EffectiveSetting(name, _without_credentials(shown) if "://" in shown else shown, origin)
        )
    return settings_in_force


def _without_credentials(text: str) -> str:
    """Mask the user, password and query values of each URL in a text, and anything else that looks
    like a key."""
    from xscore.store.redaction import redact

    return redact(_QUERY_VALUE.sub(r"\1…", _AFTER_SCHEME.sub(_without_user, text))).text


def _without_user(match: re.Match[str]) -> str:
    user, at, rest = match[0].rpartition("@")
    if user and at:
        return f"://…@{rest}"
    return match[0]


def format_setting(value: object) -> str:
    """Format a value as it would be typed; empty if unset."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case tuple():
            return ", ".join(map(str, value))
        case dict():
            return ", ".join(f"{key}={part:g}" for key, part in value.items())
        case float():
            return f"{value:.4g}"
    return mask_key(value.reveal()) if hasattr(value, "reveal") else str(value)
