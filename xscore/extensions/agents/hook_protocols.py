"""The hook protocols of coding agents: what comes on standard input, and what goes to standard output.

Claude Code, Codex and Gemini CLI share field names and wrap what is added in `hookSpecificOutput`; Cursor has flat
fields of its own. An agent adds at most 10,000 characters to a prompt (Claude Code, Cursor) or 2,500 tokens counted as
4 bytes of UTF-8 each (Codex); what is longer it replaces by a preview. Exit code 2 would veto a prompt, any other but 0
discards the output. Trade-off: a client is recognised by fields that it alone sends, which may change; then `--client`
names it.
"""

import json
import os
import re
import sys
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Struct

from xscore.platform.errors import UsageError
from xscore.platform.hashing import digest
from xscore.platform.json_lines import without_values
from xscore.prompts.fences import shorten_middle
from xscore.prompts.injected_text import spoken_text

CLIENTS = ("claude-code", "codex", "gemini", "cursor")
MAX_MESSAGE_BYTES = 16 << 20
"""A message after an edit holds the whole file, twice."""
_CHUNK = 1 << 16
TASK_CHARS = 8_000
"""Of a longer prompt, which is mostly a pasted log, both ends are judged."""
SESSION_CHARS = 64
_WHO_WRITES = "Agents run this command and write one JSON object to its standard input."
_EVENTS = {
    "prompt": {"gemini": "BeforeAgent", "cursor": "beforeSubmitPrompt", "": "UserPromptSubmit"},
    "session-start": {"cursor": "sessionStart", "": "SessionStart"},
}
"""Event -> client -> its name for it, where the message does not say."""
_GEMINI = ("BeforeAgent", "AfterAgent", "AfterTool", "BeforeTool")
_EDITED = ("file_path", "notebook_path", "path", "absolute_path")
_PATCHED = re.compile(r"^\*\*\* (?:(?:Update|Add|Delete) File|Move to): (.+)$", re.MULTILINE)
_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*(?:\s|$)")
"""`/loop 5m check it` and other commands; not a path such as `/etc/hosts is wrong`."""
_GO_ON = frozenset(
    """
    a again ahead all alright and are as continue correct do done exactly fine go good great i it keep lgtm me n nah
    next nice no nope not now ok okay on one perfect please proceed resume retry right same so stop sure thank thanks
    that the then this try up wait well y yeah yep yes you
    """.split()  # noqa: SIM905  read as a list of words
)
"""Words of a prompt that only says to go on."""


class HookMessage(Struct, frozen=True):
    """What an agent says on standard input; fields it does not send are empty."""

    session_id: str = ""
    conversation_id: str = ""
    hook_event_name: str = ""
    transcript_path: str | None = None
    cwd: str | None = None
    workspace_roots: list[str] | None = None
    prompt: str = ""
    source: str | None = None
    """Of a session start: `startup`, `resume`, `clear`, `compact`."""
    stop_hook_active: bool = False
    tool_input: Any = None
    file_path: str | None = None
    turn_id: str | None = None
    cursor_version: str | None = None
    agent_id: str | None = None
    """Set within a sub-agent."""

    @property
    def client(self) -> str:
        """The agent that sends such fields."""
        if self.cursor_version is not None or self.workspace_roots is not None or self.conversation_id:
            return "cursor"
        if self.hook_event_name in _GEMINI:
            return "gemini"
        if self.turn_id is not None or PurePath(self.transcript_path or "").name.startswith("rollout-"):
            return "codex"
        return "claude-code"

    @property
    def folder(self) -> str:
        """The folder that the agent works in; empty: unknown."""
        return next(filter(None, (self.cwd, *(self.workspace_roots or ()))), "")

    @property
    def edited_paths(self) -> tuple[str, ...]:
        """Files that the tool changed, as the agent names them."""
        given = self.tool_input if isinstance(self.tool_input, dict) else {}
        named = [self.file_path, *(given.get(name) for name in _EDITED)]
        patch = given.get("command") or given.get("input") or ""
        named += _PATCHED.findall(patch) if isinstance(patch, str) else []
        return tuple(dict.fromkeys(path for path in named if isinstance(path, str) and path))


def read_message(data: bytes) -> HookMessage:
    """Read one JSON object. Raises UsageError."""
    try:
        return msgspec.json.decode(data, type=HookMessage)
    except (ValueError, RecursionError) as error:
        why = without_values(error)
        raise UsageError(f"standard input is no message of an agent's hook: {why}", hint=_WHO_WRITES) from error


def thread_name(client: str, session_id: str) -> str:
    """Name the thread of an agent's session: safe characters, bounded, different for different sessions."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", session_id)
    if safe != session_id or len(safe) > SESSION_CHARS:
        safe = f"{safe[: SESSION_CHARS - 13]}-{digest('session', session_id)[:12]}"
    return f"{client}-{safe}"


def session_thread(message: HookMessage, client: str) -> str:
    """Name the thread of a message's session; empty if it names none."""
    session = message.session_id or message.conversation_id
    return thread_name(client, session) if session else ""


def spoken_task(message: HookMessage) -> str:
    """Return what a person asks; empty for a prompt that a machine made, or that only says to go on."""
    typed = message.prompt.strip()
    if message.agent_id or _COMMAND.match(typed):
        return ""
    words = spoken_text(typed)
    return "" if _says_nothing(words) or _COMMAND.match(words) else shorten_middle(words, TASK_CHARS)


def _says_nothing(text: str) -> bool:
    words = re.findall(r"\w+(?:['’]\w+)*", text.casefold())
    if len(words) < 2:  # languages without spaces write a sentence as one word
        return len("".join(words)) <= 3 or text.isascii()
    return len(words) <= 6 and _GO_ON.issuperset(words)


def read_input() -> bytes:
    """Read one JSON object from standard input, also from an agent that leaves it open. Raises UsageError."""
    if sys.stdin.isatty():
        raise UsageError("nobody wrote to standard input", hint=_WHO_WRITES)
    found = bytearray()
    while chunk := os.read(sys.stdin.fileno(), _CHUNK):
        found += chunk
        if len(found) > MAX_MESSAGE_BYTES:
            raise UsageError(f"standard input has more than {MAX_MESSAGE_BYTES >> 20} MiB", hint=_WHO_WRITES)
        if chunk.rstrip().endswith(b"}") and _is_whole(found):
            break
    return bytes(found)


def _is_whole(data: bytearray) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True


def addition(text: str, *, event: str, client: str, message: HookMessage) -> bytes:
    """Return what adds a text to the agent's context; empty adds nothing."""
    if not text:
        return b"{}\n" if client == "gemini" else b""
    name = message.hook_event_name
    if not re.fullmatch(r"[A-Za-z]{1,40}", name):
        named = _EVENTS[event]
        name = named.get(client, named[""])
    said: dict[str, object] = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}
    if client == "cursor":
        said = {"continue": True} if event == "prompt" else {}
        said["additional_context"] = text
    return json.dumps(said, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
