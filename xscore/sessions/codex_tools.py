"""What Codex did during an exchange: commands with how they ended, files that were patched; from any of its logs.

The same command may be told by an event, an item and the wire; `Conversation.end` counts the first telling alone.
Trade-off: a command's end on the wire is read off the words `Exit code: N`, as the model is shown them.
"""

import json
import re
from typing import Any

from xscore.sessions.conversation import Conversation, patched
from xscore.sessions.json_lines import object_in, objects_in, text_in

_EXIT = re.compile(r"[Ee]xit(?:ed with)? code:? (-?\d{1,10})")
_SHELLS = frozenset({"shell", "shell_command", "exec_command", "local_shell", "container.exec"})


def note_event(talk: Conversation, payload: dict[str, Any]) -> None:
    """Read `exec_command_begin`, `exec_command_end` or `patch_apply_end`."""
    match text_in(payload, "type"):
        case "exec_command_begin":
            talk.run(text_in(payload, "call_id"), command_of(payload))
        case "exec_command_end":
            _ended(talk, text_in(payload, "call_id"), payload)
        case "patch_apply_end" if payload.get("success") is not False:
            for path in object_in(payload, "changes"):
                talk.touch(path)


def note_item(talk: Conversation, name: str, item: dict[str, Any]) -> None:
    """Read a completed item; `name` is its type in small letters."""
    if name == "commandexecution":
        _ended(talk, text_in(item, "id"), item)
    elif name == "filechange":
        for change in objects_in(item, "changes"):
            talk.touch(text_in(change, "path"))
        for path in object_in(item, "changes"):
            talk.touch(path)


def note_response(talk: Conversation, payload: dict[str, Any]) -> None:
    """Read a call of a tool on the wire, or what it returned."""
    call = text_in(payload, "call_id")
    match text_in(payload, "type"):
        case "function_call" if text_in(payload, "name") in _SHELLS:
            _run(talk, call, command_of(_arguments(payload)))
        case "local_shell_call":
            _run(talk, call, command_of(object_in(payload, "action")))
        case "function_call" | "custom_tool_call" if text_in(payload, "name") == "apply_patch":
            text = text_in(payload, "input") or text_in(_arguments(payload), "input")
            for path in patched(text):
                talk.touch(path)
        case "function_call_output" | "custom_tool_call_output":
            _returned(talk, call, payload.get("output"))


def command_of(given: dict[str, Any]) -> str:
    """The command as a person would type it: without the shell that runs it."""
    command = given.get("command", given.get("cmd"))
    if isinstance(command, str):
        return command
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if len(words) >= 3 and words[0].rpartition("/")[2] in ("bash", "sh", "zsh") and words[1] in ("-lc", "-c"):
        return words[2]
    return " ".join(words)


def _run(talk: Conversation, call: str, command: str) -> None:
    """A patch may go through the shell; it is no command worth remembering."""
    files = patched(command) if "*** Begin Patch" in command else []
    for path in files:
        talk.touch(path)
    if not files:
        talk.run(call, command)


def _ended(talk: Conversation, call: str, told: dict[str, Any]) -> None:
    talk.run(call, command_of(told))
    code = told.get("exit_code", told.get("exitCode"))
    output = text_in(told, "aggregated_output") or text_in(told, "aggregatedOutput")
    output = output or f"{text_in(told, 'stdout')}\n{text_in(told, 'stderr')}".strip()
    if isinstance(code, int):
        talk.end(call, failed=code != 0, output=output)


def _returned(talk: Conversation, call: str, output: object) -> None:
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    code: object = None
    if text.startswith("{"):
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            told = {}
        text = text_in(told, "output") or text
        code = object_in(told, "metadata").get("exit_code")
    found = _EXIT.search(text[:400])
    if isinstance(code, int):
        talk.end(call, failed=code != 0, output=text)
    elif found:
        talk.end(call, failed=int(found[1]) != 0, output=text)


def _arguments(payload: dict[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(text_in(payload, "arguments") or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
