"""`xscore agent install` and `agent list`: add xscore to an agent's files, remove it, and show where it is installed.

It reads the environment to find where agents keep their files. What goes into the files is decided in `install`.
"""

import difflib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import click

from xscore.cli.options import Flags, command
from xscore.cli.text_layout import render_table
from xscore.extensions.agents.clients import CLIENTS
from xscore.extensions.agents.install import (
    FileEdit,
    Scope,
    Target,
    installed_entries,
    plan_install,
    plan_removal,
    target,
    write_edits,
)
from xscore.platform.errors import UsageError
from xscore.platform.paths import find_root
from xscore.platform.text import one_line

SCOPES: tuple[Scope, ...] = ("user", "project")


@command()
@click.option("--client", required=True, type=click.Choice(list(CLIENTS)), help="The agent.")
@click.option("--scope", default="project", type=click.Choice(SCOPES), help="This project (default), or all of yours.")
@click.option(
    "--print", "mode", flag_value="print", default="print", help="Show the change and write nothing (default)."
)
@click.option("--write", "mode", flag_value="write", help="Make the change.")
@click.option("--remove", "mode", flag_value="remove", help="Remove it again; everything else in the files stays.")
def install(*, client: str, scope: str, mode: str, flags: Flags) -> None:
    """Add hooks, the MCP server and a skill to an agent's own files; everything else in them stays.

    The hooks add context to every prompt. No key is written: xscore reads keys from the environment.
    """
    chosen = _target(client, cast(Scope, scope))
    edits = plan_removal(chosen) if mode == "remove" else plan_install(chosen)
    if mode != "print":
        write_edits(edits, chosen.base)
    body = [{"path": str(one.path), "action": one.action, "entries": list(one.entries)} for one in edits]
    changed = [one for one in edits if one.action != "unchanged"]
    shown = _diff(changed) if mode == "print" else _summary(changed)
    none = "already installed: nothing to change" if mode != "remove" else "not installed: nothing to remove"
    flags.terminal.print_result({"mode": mode, "files": body}, shown, none=none)
    flags.terminal.notes([f"{one.path}: {one.note}" for one in edits if one.note])
    if mode == "print" and changed:
        flags.terminal.note("nothing was written; add --write to make the change")
    if scope == "project" and mode != "remove" and shutil.which("xscore") is None:
        flags.terminal.note(
            "`xscore` is not on your PATH, where the agent looks for it: put it there, or use --scope user"
        )
    other: Scope = "project" if scope == "user" else "user"
    if mode != "remove" and installed_entries(_target(client, other)):
        flags.terminal.note(f"also installed for --scope {other}: hooks run twice per prompt until you --remove one")


@command()
def list_agents(flags: Flags) -> None:
    """Show which agents have xscore installed, and in which files."""
    rows: list[tuple[str, str, str, str]] = []
    problems: list[str] = []
    for client in CLIENTS:
        for scope in SCOPES:
            try:
                found = installed_entries(_target(client, scope))
            except UsageError as error:
                problems.append(error.message)
                continue
            rows.extend((client, scope, str(path), ", ".join(labels)) for path, labels in found.items())
    names = ("client", "scope", "path", "entries")
    body = {"installed": [dict(zip(names, row, strict=True)) for row in rows]}
    text = render_table((), [tuple(map(one_line, row)) for row in rows])
    flags.terminal.print_result(body, text, none="no agent has xscore: run `xscore agent install --client …`")
    flags.terminal.notes(problems)


def _target(client: str, scope: Scope) -> Target:
    return target(client, scope, home=Path.home(), root=find_root(Path.cwd()).path, environ=os.environ)


def _diff(edits: Sequence[FileEdit]) -> str:
    """Return the change as a diff, with secrets redacted in the lines around it."""
    from xscore.store.redaction import redact

    lines: list[str] = []
    for edit in edits:
        before, after = ((text or b"").decode("utf-8", "replace").splitlines() for text in (edit.before, edit.after))
        old = "/dev/null" if edit.before is None else str(edit.path)
        lines += difflib.unified_diff(before, after, old, str(edit.path), n=2, lineterm="")
    return redact("\n".join(lines), prose=True).text


def _summary(edits: Sequence[FileEdit]) -> str:
    return "\n".join(f"{one.action}: {one_line(str(one.path))} ({', '.join(one.entries)})" for one in edits)
