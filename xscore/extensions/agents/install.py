"""`xscore agent`: add xscore to a coding agent's own files, show what that would change, remove it,
list where it is.

All changes are planned before the first file is written. The agent's files keep everything else in
them. Nothing is written outside the home folder or the project, not even through a link, and no key
is ever written. `clients` says which files and entries, `config_edits` edits them. Trade-off: files
are replaced one at a time, so an interrupted installation has to be run again.
"""

import codecs
import difflib
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import click
from msgspec import Struct

from xscore.cli.options import Flags, command
from xscore.cli.text_layout import render_table
from xscore.extensions.agents.clients import (
    CLIENTS,
    SERVER,
    Client,
    hook_entries,
    is_our_hook,
    is_our_server,
    only_moved,
    server_entry,
    skill_text,
    subagent_text,
)
from xscore.extensions.agents.config_edits import (
    Entry,
    add_entries,
    add_table,
    has_entry,
    read_table,
    remove_entries,
    remove_table,
)
from xscore.extensions.agents.planted_environment import environment_warnings
from xscore.platform.errors import UsageError, install_hint
from xscore.platform.extras import has_package
from xscore.platform.files import is_there, read_input_file, write_atomically
from xscore.platform.paths import find_root
from xscore.platform.text import one_line

Scope = Literal["user", "project"]
SCOPES: tuple[Scope, ...] = ("user", "project")
NAME = "xscore"
"""The program, where it is found on the PATH."""
MAX_BYTES = 32_000_000
"""Largest file to edit, in bytes; Claude Code lists its servers in the file that also holds its
history."""
_TABLE = f"mcp_servers.{SERVER}"
_WITH_ENVIRONMENT = re.compile(rf'"{SERVER}"\s*:\s*\{{[^{{}}]*"env"\s*:'.encode())
_PRIVATE = 0o600
"""Mode of a new file in the home folder: the user may later add keys to it."""


class Target(Struct, frozen=True):
    """The agent and the scope that xscore is installed for."""

    client: Client
    scope: Scope
    base: Path
    """The home folder or the project's root."""

    def place(self, name: str) -> Path:
        """Return the path of a client's file.

        Raises UsageError if a link leads out of the base folder.
        """
        base = self.base
        folder = os.environ.get(self.client.folder_variable or " ", "").strip()
        if self.scope == "user" and folder:
            base = self._expanded(folder)
            name = name.removeprefix(f"{self.client.folder}/")
        path = base / name
        real = os.path.realpath(base)
        if not Path(os.path.realpath(path)).is_relative_to(real):
            raise UsageError(
                f"{path} leads out of {base} through a link", hint="Nothing was changed."
            )
        return path

    def _expanded(self, folder: str) -> Path:
        try:
            return Path(folder).expanduser().absolute()
        except RuntimeError as error:
            why = f"{self.client.folder_variable}: {folder} names an unknown user"
            raise UsageError(why, hint="Write the path without `~`.") from error

    @property
    def program(self) -> str:
        """The command that the agent runs.

        A user's files name the full path, since agents started from a desktop do not have a shell's
        PATH. A project's files are shared with other machines, where the path differs, so they name
        the program alone; but not where it is found only in shells in which its virtual environment
        is active: hooks would fail there in silence.
        """
        is_found = self.scope == "project" and is_on_every_path()
        beside = _program_beside_python()
        if beside is not None and not is_found:
            return str(beside)
        return NAME

    @property
    def programs(self) -> tuple[str, ...]:
        """Every name under which this environment's program may have been installed."""
        beside = _program_beside_python()
        if beside is None:
            return (NAME,)
        return (NAME, str(beside))


def is_on_every_path() -> bool:
    """Whether `xscore` is found on the PATH, also in shells in which no virtual environment is
    active."""
    program = shutil.which(NAME)
    return program is not None and not is_there(Path(program).parent.parent / "pyvenv.cfg")


def _program_beside_python() -> Path | None:
    """Return the `xscore` of the environment that runs; None if it has none."""
    beside = Path(sys.executable).with_name(NAME)
    if is_there(beside):
        return beside
    return None


class FileEdit(Struct, frozen=True):
    """One file before and after the change; None where it does not exist."""

    path: Path
    before: bytes | None
    after: bytes | None
    entries: tuple[str, ...]
    """Our entries in the file: those added, or those removed."""
    note: str = ""

    @property
    def action(self) -> str:
        """What happens to the file, in one word."""
        if self.before == self.after:
            return "unchanged"
        if self.before is None or self.after is None:
            if self.before is None:
                return "created"
            return "deleted"
        return "changed"


class _Form(Struct, frozen=True):
    """Our part of one of the agent's files: JSON entries, a TOML table, or the whole text."""

    path: Path
    entries: tuple[Entry, ...] = ()
    head: dict[str, int] = {}
    table: dict[str, Any] = {}
    text: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(entry.label for entry in self.entries) or (
            (_TABLE,) if self.table else ("whole file",)
        )

    def added(self, before: bytes | None) -> bytes:
        if self.text:
            if before is None or self.present(before):
                return self.text.encode()
            return before
        if self.table:
            if (
                before
                and self.present(before)
                and only_moved(read_table(before, _TABLE, self.path), self.table)
            ):
                before = remove_table(before, _TABLE, self.path) or None
            return add_table(before, _TABLE, toml_lines(self.table), self.path)
        return add_entries(before, self.entries, self.path, head=self.head)

    def removed(self, before: bytes) -> bytes | None:
        if before == self.added(None):
            return None
        if self.text:
            return before
        if self.table:
            if self.present(before):
                return remove_table(before, _TABLE, self.path)
            return before
        return remove_entries(before, self.entries, self.path)

    def present(self, data: bytes) -> list[str]:
        """Return the labels of our entries in a file."""
        if self.entries:
            return [entry.label for entry in self.entries if has_entry(data, entry, self.path)]
        if self.text:
            is_there = data.startswith(_OURS)
        else:
            is_there = is_our_server(read_table(data, _TABLE, self.path))
        if is_there:
            return list(self.labels)
        return []


def plan_install(target: Target) -> list[FileEdit]:
    """Plan the changes that install xscore.

    Raises UsageError for a file that cannot be edited, and where there is no program that the agent
    could run.
    """
    if _program_beside_python() is None and not is_on_every_path():
        raise UsageError(
            "there is no `xscore` program that the agent could run",
            hint="Install xscore, as docs/agents.md shows.",
        )
    edits = []
    for form in _forms(target, target.program):
        before = _read(form.path)
        after = form.added(before)
        kept = [label for label in form.labels if label not in form.present(after)]
        note = ""
        if kept:
            note = f"your own entry was kept in place of {', '.join(kept)}"
        if before is not None and _sets_environment(before, form):
            note = (
                "the server there sets environment variables, which can redirect your key: check"
                " that you wrote them"
            )
        edits.append(FileEdit(form.path, before, after, form.labels, note))
    return edits


def _sets_environment(before: bytes, form: _Form) -> bool:
    table = None
    if form.table:
        table = read_table(before, _TABLE, form.path)
    return (isinstance(table, dict) and "env" in table) or bool(
        form.entries and _WITH_ENVIRONMENT.search(before)
    )


def plan_removal(target: Target) -> list[FileEdit]:
    """Plan the changes that remove xscore; they restore the same bytes if nothing else changed.

    Raises UsageError for a file that cannot be edited.
    """
    edits = []
    # which name an installation wrote depends on what was on the PATH then
    by_each_name = zip(*(_forms(target, program) for program in target.programs), strict=True)
    for form, *other_forms in by_each_name:
        before = _read(form.path)
        if before is None:
            continue
        is_ours_alone = any(
            before == form_of_another.added(None) for form_of_another in other_forms
        )
        after = None if is_ours_alone else form.removed(before)
        changed = form.text and after is not None and before.startswith(_OURS)
        note = ""
        if changed:
            note = "edited since: delete it by hand"
        edits.append(FileEdit(form.path, before, after, form.labels, note))
    return edits


def installed_entries(target: Target) -> dict[Path, list[str]]:
    """Return the labels of our entries by file.

    Raises UsageError for a file that cannot be read.
    """
    entries: dict[Path, list[str]] = {}
    for form in _forms(target, NAME):
        data = _read(form.path)
        if data is not None:
            entries[form.path] = form.present(data)
    return {path: labels for path, labels in entries.items() if labels}


def write_edits(edits: Sequence[FileEdit], base: Path) -> None:
    """Write planned changes.

    Raises UsageError for a file that changed since, or that cannot be written.
    """
    new_mode = 0o666
    if base == Path.home():
        new_mode = _PRIVATE
    for edit in edits:
        if edit.action == "unchanged":
            continue
        if _read(edit.path) != edit.before:
            raise UsageError(
                f"{edit.path} was changed by another program", hint="Run the command again."
            )
        if edit.after is None:
            edit.path.unlink()
            _remove_empty_folders(edit.path.parent, base)
            continue
        mode = stat.S_IMODE(edit.path.stat().st_mode) if edit.before is not None else new_mode
        try:
            edit.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = f"cannot create {edit.path.parent}: {error.strerror}"
            raise UsageError(why, hint="Create the folder, or give the other --scope.") from error
        write_atomically(edit.path, edit.after, mode=mode)


def _remove_empty_folders(folder: Path, base: Path) -> None:
    with suppress(OSError):  # not empty: it holds other files
        while folder != base and folder.is_relative_to(base):
            folder.rmdir()
            folder = folder.parent


_OURS = f"---\nname: {SERVER}\n".encode()


def _forms(target: Target, program: str) -> list[_Form]:
    client = target.client
    forgiving = target.scope == "project"
    hooks = []
    for event, entry in hook_entries(client, program, forgiving=forgiving).items():
        hooks.append(Entry(("hooks", event), "", entry, is_our_hook))
    if target.scope == "user":
        servers_file = client.user_servers_file
    else:
        servers_file = client.project_servers_file
    server = server_entry(client, program)
    servers = [
        Entry(("mcpServers",), SERVER, server, is_our_server, partial(only_moved, current=server))
    ]
    hooks_path = target.place(client.hooks_file)
    servers_path = target.place(servers_file)
    head = {"version": client.hooks_version} if client.hooks_version else {}
    if servers_path == hooks_path:
        forms = [_Form(hooks_path, (*hooks, *servers), head)]
    else:
        servers_form = _Form(servers_path, tuple(servers))
        if servers_file.endswith(".toml"):
            servers_form = _Form(servers_path, table=server)
        forms = [_Form(hooks_path, tuple(hooks), head), servers_form]
    forms.append(_Form(target.place(client.skill_file), text=skill_text()))
    if client.subagent_file:
        forms.append(_Form(target.place(client.subagent_file), text=subagent_text()))
    return forms


def toml_lines(entry: Mapping[str, object]) -> str:
    """Return the lines of a TOML table of strings and lists of strings."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())


def _read(path: Path) -> bytes | None:
    """Return what a file holds; None if there is no file, or nothing is in it."""
    if not os.path.lexists(path):
        return None
    data = read_input_file(path, max_bytes=MAX_BYTES, hint="Nothing was changed.")
    if data.removeprefix(codecs.BOM_UTF8).strip():
        return data
    return None


@command()
@click.option("--client", required=True, type=click.Choice(list(CLIENTS)), help="The agent.")
@click.option(
    "--scope",
    default="project",
    type=click.Choice(SCOPES),
    help="This project (default), or all of yours.",
)
@click.option(
    "--print", "only_print", is_flag=True, help="Write nothing; show the change, or the removal."
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
    body = []
    for edit in edits:
        body.append({"path": str(edit.path), "action": edit.action, "entries": list(edit.entries)})
    changed = [edit for edit in edits if edit.action != "unchanged"]
    shown = _diff(changed) if is_preview else _summary(changed)
    none = "already installed: nothing to change"
    if remove:
        none = "not installed: nothing to remove"
    mode = "remove" if remove else "write"
    if is_preview:
        mode = "print"
    flags.terminal.print_result({"mode": mode, "files": body}, shown, none=none)
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
            rows.extend(
                (client, scope, str(path), ", ".join(labels)) for path, labels in entries.items()
            )
    names = ("client", "scope", "path", "entries")
    body = {"installed": [dict(zip(names, row, strict=True)) for row in rows]}
    text = render_table((), [tuple(map(one_line, row)) for row in rows])
    flags.terminal.print_result(
        body, text, none="no agent has xscore: run `xscore agent install --client …`"
    )
    flags.terminal.notes(problems)


def _target(client: str, scope: Scope) -> Target:
    return Target(
        CLIENTS[client], scope, Path.home() if scope == "user" else find_root(Path.cwd()).path
    )


def _diff(edits: Sequence[FileEdit]) -> str:
    """Return the change as a diff, with secrets redacted in the lines around it."""
    from xscore.store.redaction import redact

    lines: list[str] = []
    for edit in edits:
        before, after = (
            (text or b"").decode("utf-8", "replace").splitlines()
            for text in (edit.before, edit.after)
        )
        old = "/dev/null" if edit.before is None else str(edit.path)
        lines += difflib.unified_diff(before, after, old, str(edit.path), n=2, lineterm="")
    return redact("\n".join(lines), prose=True).text


def _summary(edits: Sequence[FileEdit]) -> str:
    return "\n".join(
        f"{edit.action}: {one_line(str(edit.path))} ({', '.join(edit.entries)})" for edit in edits
    )
