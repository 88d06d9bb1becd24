"""What installing xscore changes in a coding agent's own files, and what removing it changes back.

All changes are planned before the first file is written. The agent's files keep everything else in
them. Nothing is written outside the home folder or the project, not even through a link, and no key
is ever written. `clients` says which files and entries, `config_edits` edits them. Trade-off: files
are replaced one at a time, so an interrupted installation has to be run again.
"""

import codecs
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from xscore.extensions.agents.clients import (
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
from xscore.platform.errors import UsageError
from xscore.platform.files import is_there, read_input_file, write_atomically

Scope = Literal["user", "project"]
SCOPES: tuple[Scope, ...] = ("user", "project")
NAME = "xscore"
"""Name under which the program is found on the PATH."""
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
        program = _program_next_to_python()
        if program is not None and not is_found:
            return str(program)
        return NAME

    @property
    def programs(self) -> tuple[str, ...]:
        """Every name under which this environment's program may have been installed."""
        program = _program_next_to_python()
        if program is None:
            return (NAME,)
        return (NAME, str(program))


def is_on_every_path() -> bool:
    """Whether `xscore` is found on the PATH, also in shells in which no virtual environment is
    active."""
    program = shutil.which(NAME)
    return program is not None and not is_there(Path(program).parent.parent / "pyvenv.cfg")


def _program_next_to_python() -> Path | None:
    """Return the `xscore` of the environment that runs; None if it has none."""
    program = Path(sys.executable).with_name(NAME)
    if is_there(program):
        return program
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
        if self.before is None:
            return "created"
        if self.after is None:
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
        if self.entries:
            # An event may have several.
            return tuple(dict.fromkeys(entry.label for entry in self.entries))
        return (_TABLE,) if self.table else ("whole file",)

    def added(self, before: bytes | None) -> bytes:
        if self.text:
            if before is None or self.present(before):
                return self.text.encode()
            return before
        if self.table:
            if before and self._is_of_another_place(before):
                before = remove_table(before, _TABLE, self.path) or None
            return add_table(before, _TABLE, toml_lines(self.table), self.path)
        return add_entries(before, self.entries, self.path, head=self.head)

    def _is_of_another_place(self, before: bytes) -> bool:
        """Whether the table there is ours, and only its program has moved since."""
        if not self.present(before):
            return False
        return only_moved(read_table(before, _TABLE, self.path), self.table)

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
            labels = [
                entry.label for entry in self.entries if has_entry(data, entry, self.path)
            ]
            return list(dict.fromkeys(labels))
        if self.text:
            is_ours = data.startswith(_OURS)
        else:
            is_ours = is_our_server(read_table(data, _TABLE, self.path))
        return list(self.labels) if is_ours else []


def plan_install(target: Target) -> list[FileEdit]:
    """Plan the changes that install xscore.

    Raises UsageError for a file that cannot be edited, and where there is no program that the agent
    could run.
    """
    if _program_next_to_python() is None and not is_on_every_path():
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
    if form.table:
        table = read_table(before, _TABLE, form.path)
        return isinstance(table, dict) and "env" in table
    return bool(form.entries and _WITH_ENVIRONMENT.search(before))


def plan_removal(target: Target) -> list[FileEdit]:
    """Plan the changes that remove xscore; they restore the same bytes if nothing else changed.

    Raises UsageError for a file that cannot be edited.
    """
    edits = []
    # Which name an installation wrote depends on what was on the PATH then.
    by_each_name = zip(*(_forms(target, program) for program in target.programs), strict=True)
    for form, *other_forms in by_each_name:
        before = _read(form.path)
        if before is None:
            continue
        is_ours_alone = any(before == other.added(None) for other in other_forms)
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
        labels = [] if data is None else form.present(data)
        if labels:
            entries[form.path] = labels
    return entries


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
            raise UsageError(
                why, hint="Create the folder, or give the other --scope."
            ) from error
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
    for entry in hook_entries(client, program, forgiving=forgiving):
        is_ours = partial(is_our_hook, hook=entry.hook)
        hooks.append(Entry(("hooks", entry.event), "", entry.value, is_ours))
    if target.scope == "user":
        servers_file = client.user_servers_file
    else:
        servers_file = client.project_servers_file
    server = server_entry(client, program)
    servers = [
        Entry(
            ("mcpServers",), SERVER, server, is_our_server, partial(only_moved, current=server)
        )
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
