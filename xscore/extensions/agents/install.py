"""`xscore agent`: add xscore to a coding agent's own files, show what that would change, remove it,
list where it is.

The commands alone: `install_plan` says what changes. Without --write or --remove nothing is
written. Trade-off: a diff shows the lines around a change too, so secrets in it are redacted.
"""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import click

from xscore.cli.flags import Flags, command
from xscore.cli.text_layout import render_table
from xscore.extensions.agents.clients import (
    CLIENTS,
)
from xscore.extensions.agents.install_plan import (
    SCOPES,
    FileEdit,
    Scope,
    Target,
    installed_entries,
    is_on_every_path,
    plan_install,
    plan_removal,
    write_edits,
)
from xscore.extensions.agents.planted_environment import environment_warnings
from xscore.platform.errors import UsageError, install_hint
from xscore.platform.extras import has_package
from xscore.platform.paths import find_root
from xscore.platform.text import one_line
from xscore.store.redaction import redact


@command()
@click.option("--client", required=True, type=click.Choice(list(CLIENTS)), help="The agent.")
@click.option(
    "--scope",
    default="project",
    type=click.Choice(SCOPES),
    help="This project (default), or all your projects.",
)
@click.option(
    "--print",
    "only_print",
    is_flag=True,
    help="Write nothing; show the change, or the removal.",
)
@click.option("--write", is_flag=True, help="Make the change.")
@click.option(
    "--remove",
    is_flag=True,
    help="Remove it again, with or without --write; everything else in the files stays.",
)
def install(
    *, client: str, scope: str, only_print: bool, write: bool, remove: bool, flags: Flags
) -> None:
    """Add hooks, the MCP server and a skill to an agent's own files; everything else in them stays.

    The hooks add context to every prompt. No key is written: xscore reads keys from the
    environment.
    """
    if write and only_print:
        raise UsageError("--write and --print exclude each other", hint="Give one.")
    chosen = _target(client, cast(Scope, scope))
    edits = plan_removal(chosen) if remove else plan_install(chosen)
    is_preview = only_print or not (write or remove)
    if not is_preview:
        write_edits(edits, chosen.base)
    files = []
    for edit in edits:
        files.append(
            {"path": str(edit.path), "action": edit.action, "entries": list(edit.entries)}
        )
    changed = [edit for edit in edits if edit.action != "unchanged"]
    shown = _diff(changed) if is_preview else _summary(changed)
    none = "already installed: nothing to change"
    if remove:
        none = "not installed: nothing to remove"
    mode = "remove" if remove else "write"
    if is_preview:
        mode = "print"
    flags.terminal.print_result({"mode": mode, "files": files}, shown, none=none)
    flags.terminal.notes([f"{edit.path}: {edit.note}" for edit in edits if edit.note])
    if is_preview and changed:
        next_option = "add --write"
        if remove:
            next_option = "leave --print out"
        flags.terminal.note(f"nothing was written; {next_option} to make the change")
    if not remove:
        flags.terminal.notes(_warnings(client, cast(Scope, scope)))


def _warnings(client: str, scope: Scope) -> Iterator[str]:
    if not has_package("mcp"):
        yield f"the hooks work; the MCP server needs the extra `mcp`. {install_hint('mcp')}"
    # With either scope: hooks in the user's files run with the variables of each project, too.
    yield from environment_warnings(find_root(Path.cwd()).path, [CLIENTS[client]])
    if scope == "project" and not is_on_every_path():
        yield (
            "`xscore` is on the PATH only inside its virtual environment, so the project's files"
            " name its full path: on other machines, run this command again or use --scope user"
        )
    other_scope: Scope = "project" if scope == "user" else "user"
    if installed_entries(_target(client, other_scope)):
        yield (
            f"also installed for --scope {other_scope}: hooks run twice per prompt until you"
            " --remove one"
        )


@command()
def list_agents(flags: Flags) -> None:
    """Show which agents have xscore installed, and in which files."""
    rows: list[tuple[str, str, str, str]] = []
    problems: list[str] = []
    for client in CLIENTS:
        for scope in SCOPES:
            try:
                entries = installed_entries(_target(client, scope))
            except UsageError as error:
                problems.append(error.message)
                continue
            for path, labels in entries.items():
                rows.append((client, scope, str(path), ", ".join(labels)))
    names = ("client", "scope", "path", "entries")
    body = {"installed": [dict(zip(names, row, strict=True)) for row in rows]}
    text = render_table((), [tuple(map(one_line, row)) for row in rows])
    flags.terminal.print_result(
        body, text, none="no agent has xscore: run `xscore agent install --client …`"
    )
    flags.terminal.notes(problems)


def _target(client: str, scope: Scope) -> Target:
    base = Path.home() if scope == "user" else find_root(Path.cwd()).path
    return Target(CLIENTS[client], scope, base)


def _diff(edits: Sequence[FileEdit]) -> str:
    """Return the change as a diff, with secrets redacted in the lines around it."""
    lines: list[str] = []
    for edit in edits:
        before, after = _lines_of(edit.before), _lines_of(edit.after)
        old = "/dev/null" if edit.before is None else str(edit.path)
        lines += difflib.unified_diff(before, after, old, str(edit.path), n=2, lineterm="")
    return redact("\n".join(lines), prose=True).text


def _lines_of(content: bytes | None) -> list[str]:
    return (content or b"").decode("utf-8", "replace").splitlines()


def _summary(edits: Sequence[FileEdit]) -> str:
    lines: list[str] = []
    for edit in edits:
        entries = ", ".join(edit.entries)
        lines.append(f"{edit.action}: {one_line(str(edit.path))} ({entries})")
    return "\n".join(lines)
