"""Cline: `tasks/<id>/ui_messages.json` in the global storage of an editor's extension, or in
`~/.cline/data`.

One JSON array a task, rewritten at every step, so a changed file is read again and exchanges are
identified by task and time. The folder of a task is in `state/taskHistory.json`, or in the
environment of `api_conversation_history.json`. Trade-offs: files over 32 MiB are refused; a command
counts as failed only if its output states an exit code; the sessions of Cline's command line since
version 4 are not read.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xscore.extensions.sessions import session_lines
from xscore.extensions.sessions.session_lines import (
    SessionLine,
    UnreadableSession,
    parse_object,
    parse_record,
    required_text,
    required_time,
    text_field,
)
from xscore.extensions.sessions.session_reader import (
    AgentFolders,
    SessionFile,
    SessionReader,
    entries,
)

FILE = "ui_messages.json"
EXTENSION = "User/globalStorage/saoudrizwan.claude-dev"
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_SERVERS = (".vscode-server/data", ".vscode-server-insiders/data", ".cursor-server/data")
_FOLDER = re.compile(rb"Current Working Directory \(((?:[^()\\\n\"]|\\.|\([^()\n\"]*\))+)\)")
_EXIT = re.compile(r"[Ee]xit(?:ed with)? (?:code|status):? (-?\d{1,10})")
_ASKED = frozenset({"task", "user_feedback"})
_ANSWERED = frozenset({"text", "completion_result", "plan_mode_respond", "followup"})
_EDITS = frozenset({"editedExistingFile", "newFileCreated", "fileDeleted"})


def _storages(folders: AgentFolders) -> Iterator[Path]:
    home = folders.home
    environ = folders.environ
    base = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    if sys.platform == "darwin":
        base = home / "Library/Application Support"
    yield from (base / editor / EXTENSION for editor in _EDITORS)
    yield from (home / server / EXTENSION for server in _SERVERS)
    data_dir = environ.get("CLINE_DATA_DIR")
    yield (
        Path(data_dir)
        if data_dir
        else Path(environ.get("CLINE_DIR") or home / ".cline") / "data"
    )


def _listed_folders(storage: Path) -> dict[str, str]:
    """Return the folder of each task, as far as the list of tasks names it."""
    folders: dict[str, str] = {}
    try:
        with session_lines.open_session_file(storage / "state/taskHistory.json") as file:
            for line in session_lines.read_array(file):
                entry = parse_record(line) or {}
                folders[text_field(entry, "id")] = text_field(entry, "cwdOnTaskInitialization")
    except (OSError, UnreadableSession):
        pass
    return folders


def _recorded_folder(task: Path) -> str:
    match = _FOLDER.search(session_lines.read_head(task / "api_conversation_history.json"))
    try:
        if match:
            return str(json.loads(b'"' + match[1] + b'"'))
        return ""
    except ValueError:
        return ""


class ClineReader(SessionReader):
    """Reads one task."""

    origin = "cline"
    expected = "expected messages of Cline, with `say` or `ask`"
    _command = ""

    @staticmethod
    def find(folders: AgentFolders) -> Iterator[SessionFile]:
        """Yield every task of every editor, with the folder it began in."""
        for storage in _storages(folders):
            listed = _listed_folders(storage)
            for task in entries(storage / "tasks"):
                if not task.is_symlink() and (task / FILE).is_file():
                    cwd = listed.get(task.name) or _recorded_folder(task)
                    yield SessionFile(task / FILE, is_json_array=True, cwd=cwd)

    def read_record(self, record: dict[str, Any], line: SessionLine) -> None:
        """Read one message."""
        if record.get("partial") is True:
            return
        kind = text_field(record, required_text(record, "type", line, "a message"))
        at = required_time(record, "ts", line, "a message")
        text = text_field(record, "text")
        if kind in _ASKED or (kind == "text" and not self.is_known):
            self.is_known = True
            task = self.file.path.parent.name
            self.ask(
                text,
                identity=f"{task}:{int(at * 1000)}",
                session=task,
                at=at,
                cwd=self.file.cwd,
            )
        elif kind in _ANSWERED:
            fields = parse_object(text)  # questions and plans come as an object
            said_text = text_field(fields, "response") or text_field(fields, "question")
            self.answer(said_text or text.removesuffix("HAS_CHANGES"), at=at)
        elif kind:
            self._read_tool(kind, text)
        else:
            self.unknown(line)

    def _read_tool(self, kind: str, text: str) -> None:
        if kind == "tool":
            tool = parse_object(text)
            if text_field(tool, "tool") in _EDITS:
                self.add_paths(text_field(tool, "path"))
        elif kind == "command":
            self._command = text.removesuffix("REQ_APP").strip()
            self.command_started(self._command, self._command)
        elif kind == "command_output":
            code = _EXIT.search(text[-2000:])
            if code and self._command:
                self.command_ended(self._command, failed=int(code[1]) != 0, output=text)
