"""The hook protocols of coding agents: what arrives on standard input, and what goes to standard
output.

Claude Code, Codex and Gemini CLI share field names and expect the added text in
`hookSpecificOutput`; Cursor has flat fields of its own. An agent adds at most 10,000 characters to
a prompt (Claude Code, Cursor), or 2,500 tokens counted as 4 bytes of UTF-8 each (Codex), and
replaces a longer text by a preview. Exit code 2 would veto the prompt; any other code but 0
discards the output. Trade-off: a client is recognized by fields that only it sends. If those
change, the user has to name it with `--client`.
"""

import json
import re
import sys
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct

from xscore.extensions.agents.tool_call import (
    FILE_ARGUMENTS,
    MAX_MESSAGE_BYTES,
    NOTHING,
    read_hook_input,
)
from xscore.platform.errors import UsageError
from xscore.platform.hashing import digest
from xscore.platform.json_lines import decode_agent_json, without_values
from xscore.prompts.fences import shorten_middle
from xscore.prompts.injected_text import spoken_text

TASK_CHARS = 8_000
"""Longest prompt judged whole. A longer one is mostly a pasted log: it is judged by its first
and last part."""
SESSION_CHARS = 64
_WHO_WRITES = "Agents run this command and write one JSON object to its standard input."
_EVENTS = {
    "prompt": {"gemini": "BeforeAgent", "cursor": "beforeSubmitPrompt", "": "UserPromptSubmit"},
    "session-start": {"cursor": "sessionStart", "": "SessionStart"},
    "subagent-start": {"": "SubagentStart"},
    "post-tool": {"gemini": "AfterTool", "": "PostToolUse"},
    "tool-failed": {"": "PostToolUseFailure"},
}
"""Event -> client -> the client's name for it, with "" for all other clients. Only events to
which an answer can add text."""
_GEMINI = ("BeforeAgent", "AfterAgent", "AfterTool", "BeforeTool")
_PATCHED = r"(?m)^\*\*\* (?:(?:Update|Add|Delete) File|Move to): (.+)$"
_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*(?:\s|$)")
"""Matches a command such as `/loop 5m check it`, but not a path such as `/etc/hosts is wrong`."""
_GO_ON = frozenset(
    """
    a again ahead all alright and are as continue correct do done exactly fine go good great i it
    keep lgtm me n nah next nice no nope not now ok okay on one perfect please proceed resume retry
    right same so stop sure thank thanks that the then this try up wait well y yeah yep yes you
    """.split()
)
"""Words of prompts that only tell the agent to go on."""


class HookMessage(Struct, frozen=True):
    """What an agent writes to standard input; fields that it does not send are empty."""

    session_id: str = ""
    conversation_id: str = ""
    """What Cursor sends in place of a session's id."""
    hook_event_name: str = ""
    transcript_path: str | None = None
    cwd: str | None = None
    workspace_roots: list[str] | None = None
    prompt: str = ""
    prompt_response: str = ""
    """The agent's last words, which Gemini CLI sends with the prompt when a turn ends."""
    source: str | None = None
    """Why a session starts: `startup`, `resume`, `clear` or `compact`."""
    stop_hook_active: bool = False
    tool_input: Any = None
    file_path: str | None = None
    turn_id: str | None = None
    cursor_version: str | None = None
    agent_id: str | None = None
    """Id of the sub-agent; None outside one."""

    @property
    def client(self) -> str:
        """The agent, recognized by the fields that it sent."""
        if (
            self.cursor_version is not None
            or self.workspace_roots is not None
            or self.conversation_id
        ):
            return "cursor"
        if self.hook_event_name in _GEMINI:
            return "gemini"
        if self.turn_id is not None or PurePath(self.transcript_path or "").name.startswith(
            "rollout-"
        ):
            return "codex"
        return "claude-code"

    @property
    def folder(self) -> str:
        """The folder that the agent works in; empty if unknown."""
        return next(filter(None, (self.cwd, *(self.workspace_roots or ()))), "")

    @property
    def edited_paths(self) -> tuple[str, ...]:
        """Files that the tool changed, as the agent names them."""
        arguments = self.tool_input if isinstance(self.tool_input, dict) else {}
        named = [self.file_path, *(arguments.get(name) for name in FILE_ARGUMENTS)]
        patch = arguments.get("command") or arguments.get("input") or ""
        named += re.findall(_PATCHED, patch) if isinstance(patch, str) else []
        paths = dict.fromkeys(path for path in named if isinstance(path, str) and path)
        return tuple(_checked_path(path, "file") for path in paths)

    @property
    def log(self) -> Path | None:
        """The agent's log; None if it named none. Raises UsageError for what is not a path."""
        if not self.transcript_path:
            return None
        return Path(_checked_path(self.transcript_path, "log"))


def _checked_path(path: str, kind: str) -> str:
    """Return a path of the agent's message. Raises UsageError for one that no file can have."""
    if "\0" in path:
        raise UsageError(
            f"the agent's {kind} {path[:40]!r} is not a path: it holds a NUL character",
            hint="The agent sent it; nothing was read.",
        )
    return path


def read_message(data: bytes) -> HookMessage:
    """Decode an agent's message. Raises UsageError if it is not one."""
    try:
        return decode_agent_json(data, HookMessage)
    except (ValueError, RecursionError) as error:
        why = without_values(error)
        raise UsageError(
            f"standard input is not an agent's hook message: {why}", hint=_WHO_WRITES
        ) from error


def thread_name(client: str, session_id: str) -> str:
    """Name the thread of an agent's session: safe characters, bounded length, one name per
    session."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", session_id)
    if safe != session_id or len(safe) > SESSION_CHARS:
        safe = f"{safe[: SESSION_CHARS - 13]}-{digest('session', session_id)[:12]}"
    return f"{client}-{safe}"


def spoken_task(message: HookMessage) -> str:
    """Return what the user asks; "" for a prompt that a program wrote, or that only says to go
    on."""
    typed = message.prompt.strip()
    if message.agent_id or _COMMAND.match(typed):
        return ""
    words = spoken_text(typed)
    if _says_nothing(words) or _COMMAND.match(words):
        return ""
    return shorten_middle(words, TASK_CHARS)


def _says_nothing(text: str) -> bool:
    words = re.findall(r"\w+(?:['’]\w+)*", text.casefold())
    if len(words) < 2:  # in a language without spaces, a whole sentence is one word
        return len("".join(words)) <= 3 or text.isascii()
    return len(words) <= 6 and _GO_ON.issuperset(words)


def read_input() -> bytes:
    """Read one JSON object from standard input; do not wait for its end, which some agents leave
    open.

    Raises UsageError if nothing is connected to it, or if it is too long.
    """
    if sys.stdin.isatty():
        raise UsageError("nothing was written to standard input", hint=_WHO_WRITES)
    content = read_hook_input()
    if content is None:
        raise UsageError(
            f"standard input has more than {MAX_MESSAGE_BYTES >> 20} MiB", hint=_WHO_WRITES
        )
    return content


def addition(text: str, *, event: str, client: str) -> bytes:
    """Return the output that adds a text to the agent's context; an empty text adds nothing, nor
    does any where the event takes none."""
    if not text or event not in _EVENTS:
        if client == "gemini":
            return NOTHING
        return b""
    name = _EVENTS[event].get(client, _EVENTS[event][""])
    output: dict[str, object] = {
        "hookSpecificOutput": {"hookEventName": name, "additionalContext": text}
    }
    if client == "cursor":
        output = {"continue": True} if event == "prompt" else {}
        output["additional_context"] = text
    return json.dumps(output, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
