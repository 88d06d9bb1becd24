"""One tool call of a coding agent, from the JSON that its hook receives: which action it is, and
how it ended.

Each client has its own names of tools and its own way to say that one failed; they are read here
and nowhere else. A message of another form is not a call. Trade-off: Codex does not say how a
command ended, nor in which folder it runs, so that is looked up at the end of its log.

It is used before a tool runs, so it imports nothing that takes time to load, and patterns are
compiled where they are used.
"""

import json
import os
import re
import stat
from _blake2 import blake2b  # `hashlib` would load OpenSSL first, which takes 2 ms

Message = dict[str, object]
"""A decoded message: nothing in it has been checked."""
CLIENTS = ("claude-code", "codex", "gemini", "cursor")
BEFORE, AFTER = "pre-tool", "post-tool"
"""Events of the hooks around a call."""
NOTHING = b"{}\n"
"""The empty answer to Gemini CLI, which parses every answer."""
MAX_MESSAGE_BYTES = 16 << 20
"""Largest message read, in bytes; one after an edit holds the whole file twice."""
_SHELL_TOOLS = frozenset(
    "Bash Shell run_shell_command shell shell_command exec_command local_shell".split()
)
_EDIT_TOOLS = frozenset(
    "Edit MultiEdit NotebookEdit Write replace write_file StrReplace edit_file".split()
)
FILE_ARGUMENTS = ("file_path", "notebook_path", "path", "absolute_path")
"""Arguments of an edit that name its file."""
_FOLDER_ARGUMENTS = ("working_directory", "workdir", "dir_path", "directory")
_NO_OPTIONS = frozenset(
    (*_FOLDER_ARGUMENTS, "command", "cmd", "description", "justification", "max_output_tokens")
)
"""Arguments of a shell that say nothing more of how a command ends."""
_EXIT_CODE = (
    r"\nExit Code: (\d+)\n(?:Signal: .*\n|Background .*\n|Process Group PGID: \d+\n?)*"
    r"(?:</untrusted_context>)?\s*\Z"
)
"""Matches an exit code as Gemini CLI writes it, after the output."""
_LEADING_CODE = r"Exit code (\d+)\n?"
"""Matches an exit code as Claude Code writes it, before the output."""
_CHUNK = 1 << 16
_LOG_BYTES = 1 << 18
_MOST_SECONDS = 86_400.0
_SIGNALLED = range(129, 193)
"""Exit codes of a shell whose command a signal ended (1 to 64). Codes above are a program's own:
254 of tox, 255 of PHP."""
_TRANSIENT = (
    r"\bE(?:CONN\w*|NOTFOUND|AI_AGAIN|ADDRINUSE|TIMEDOUT)\b|\b(?:index|HEAD|config|shallow)\.lock\b|"
    r"(?i:\btimed? ?out\b|address already in use|resolve host|temporary failure|"
    r"connection (?:refused|reset|aborted|closed)|network is unreachable|\brate.?limit|"
    r"too many requests|(?:HTTP|status)\D{0,10}(?:429|50[234])\b|temporarily unavailable|"
    r"could not get lock|\bis locked|deadlock|out of memory|no space left|interrupted by|"
    r"\bkilled\b|certificate|try again later|(?:denied|blocked) by|tool use was rejected|"
    r"operation not permitted|read-only file system|sandbox)"
)
"""Matches errors that say nothing about the action itself."""
_USAGE = (
    r"(?i)usage:|unrecogni[sz]ed|unknown (?:option|argument|command|flag|shorthand|subcommand)|"
    r"invalid (?:option|choice|argument|subcommand)|no such (?:option|command|subcommand)|"
    r"missing script|command not found|not found: |no module named|no rule to make target|"
    r"is not a \w+ command|did you mean|too (?:few|many) arguments|missing required|"
    r"requires (?:an|at least)|unexpected argument|not recognized"
)
"""Matches errors of a command that was called wrongly."""


class ToolCall:
    """A tool call whose repetition can be recognized."""

    def __init__(self, key: str, session: str, folder: str) -> None:
        self.key = key
        """Digest of the tool, its arguments and its folder."""
        self.session = session
        self.folder = folder
        """Folder where the call runs; absolute, links resolved."""
        self.command = ""
        """Command of a shell; empty for an edit."""
        self.path = ""
        """Absolute path of the file that an edit is for."""
        self.request = ""
        """The command, or the arguments of an edit."""
        self.is_background = False
        """Whether it is started and left running, so that how it ends is not known."""


class Ending:
    """How a tool call ended."""

    def __init__(self, *, error: str = "", failed: bool = False, lasted_s: float = 0.0) -> None:
        self.failed = failed
        self.error = error
        """What the call printed, or the client's message."""
        self.lasted_s = lasted_s
        """How long the call ran; 0 if the client does not say."""

    @property
    def is_transient(self) -> bool:
        """Whether the same call may succeed a moment later."""
        return re.search(_TRANSIENT, self.error[-4_000:]) is not None

    @property
    def is_usage(self) -> bool:
        """Whether the command was called wrongly."""
        return re.search(_USAGE, self.error[-4_000:]) is not None


def read_hook_input() -> bytes | None:
    """Read one JSON object from standard input, whose end some agents leave open; None if it is
    longer than a message may be."""
    content = bytearray()
    while chunk := os.read(0, _CHUNK):
        content += chunk
        if len(content) > MAX_MESSAGE_BYTES:
            return None
        # Almost always whole: an agent writes it at once.
        if chunk.rstrip().endswith(b"}") and _is_whole(bytes(content)):
            break
    return bytes(content)


def _is_whole(data: bytes) -> bool:
    try:
        json.loads(data)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def read_call_message(data: bytes) -> Message:
    """Decode an agent's message; empty if it is not a JSON object."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def tool_call(message: Message, client: str) -> ToolCall | None:
    """Return the call that a message is about; None if it is neither a shell command nor an edit,
    or its folder is unknown."""
    tool, arguments = message.get("tool_name"), message.get("tool_input")
    if isinstance(arguments, str):  # Cursor may send it as JSON
        arguments = read_call_message(arguments.encode("utf-8", "replace"))
    cwd = _text(message.get("cwd")) or _first_text(message.get("workspace_roots"))
    session = _text(message.get("session_id")) or _text(message.get("conversation_id"))
    if not (isinstance(tool, str) and isinstance(arguments, dict) and session):
        return None
    if not cwd.startswith("/") or "\0" in cwd:
        return None
    if tool in _SHELL_TOOLS:
        return _shell_call(message, arguments, client, cwd=cwd, session=session)
    if tool in _EDIT_TOOLS:
        return _edit_call(tool, arguments, cwd=cwd, session=session)
    return None


def _shell_call(
    message: Message, arguments: Message, client: str, *, cwd: str, session: str
) -> ToolCall | None:
    command = arguments.get("command")
    if isinstance(command, list):
        command = " ".join(filter(None, map(_text, command)))
    command = _text(command).strip()
    if client == "codex":
        logged = _logged_arguments(message)
        if logged is None:
            return None
        arguments = {**logged, **arguments}
    folder = next(filter(None, (_text(arguments.get(name)) for name in _FOLDER_ARGUMENTS)), "")
    if not command or "\0" in folder:
        return None
    place = os.path.realpath(os.path.join(cwd, folder))  # noqa: PTH118  `pathlib` takes 3 ms to load
    # Others may lift a sandbox or wait longer, so that the same command may end otherwise.
    options = {name: value for name, value in arguments.items() if name not in _NO_OPTIONS}
    key = _key("shell", place, command, json.dumps(options, sort_keys=True))
    call = ToolCall(key, session, place)
    call.command = call.request = command
    call.is_background = arguments.get("run_in_background") is True
    return call


def _edit_call(tool: str, arguments: Message, *, cwd: str, session: str) -> ToolCall | None:
    path = next(filter(None, (_text(arguments.get(name)) for name in FILE_ARGUMENTS)), "")
    if not path or "\0" in path:
        return None
    place = os.path.join(os.path.realpath(cwd), path)  # noqa: PTH118  `pathlib` takes 3 ms to load
    request = json.dumps(arguments, sort_keys=True)
    call = ToolCall(_key(tool, place, request), session, cwd)
    call.path, call.request = place, request
    return call


def ending_of(message: Message, client: str) -> Ending:
    """Return how the call of a message ended that came after it."""
    name = _text(message.get("hook_event_name"))
    if name.lower() == "posttoolusefailure":
        error = message.get("error", message.get("error_message"))
        # Cursor says which failures are the tool's own.
        is_own = _text(message.get("failure_type")) in ("", "error")
        if message.get("is_interrupt") is True or not is_own or not isinstance(error, str):
            return Ending()
        ending = _with_code(re.match(_LEADING_CODE, error), error)
        ending.lasted_s = _seconds(message)
        return ending
    if client == "gemini":
        return _gemini_ending(message)
    if client == "cursor":
        return _cursor_ending(message)
    if client == "codex":
        return _codex_ending(message)
    return Ending()


def _with_code(code: "re.Match[str] | None", error: str) -> Ending:
    if code and int(code[1][:6]) in _SIGNALLED:
        return Ending()
    return Ending(failed=True, error=error[code.end() :] if code else error)


def _gemini_ending(message: Message) -> Ending:
    response = message.get("tool_response")
    if not isinstance(response, dict):
        return Ending()
    error = response.get("error")
    if isinstance(error, dict):
        return Ending(failed=True, error=_text(error.get("message")))
    output = _text(response.get("llmContent"))
    code = re.search(_EXIT_CODE, output[-8_000:])
    if code is None or int(code[1][:6]) in (0, *_SIGNALLED):
        return Ending()
    shown = _text(response.get("returnDisplay"))
    return Ending(failed=True, error=shown or output)


def _cursor_ending(message: Message) -> Ending:
    output = message.get("tool_output")
    if isinstance(output, str):
        output = read_call_message(output.encode("utf-8", "replace"))
    if not isinstance(output, dict):
        return Ending()
    code = output.get("exitCode")
    if not isinstance(code, int) or code <= 0 or code in _SIGNALLED:
        return Ending()
    texts = (_text(output.get(name)) for name in ("stdout", "output", "stderr"))
    error = "\n".join(filter(None, texts))
    return Ending(failed=True, error=error, lasted_s=_seconds(message))


def _codex_ending(message: Message) -> Ending:
    call_id = _text(message.get("tool_use_id"))
    for record in _log_records(message, call_id):
        payload = record.get("payload")
        item = payload.get("item") if isinstance(payload, dict) else None
        code = item.get("exit_code") if isinstance(item, dict) else None
        if isinstance(item, dict) and item.get("id") == call_id and isinstance(code, int):
            failed = code > 0 and code not in _SIGNALLED
            error = _text(message.get("tool_response"))
            return Ending(failed=failed, error=error, lasted_s=_seconds(item))
    return Ending()


def _logged_arguments(message: Message) -> Message | None:
    """Return the arguments of a call of Codex, with folder and sandbox; None if the log does not
    say."""
    call_id = _text(message.get("tool_use_id"))
    for record in _log_records(message, call_id):
        payload = record.get("payload")
        arguments = payload.get("arguments") if isinstance(payload, dict) else None
        if isinstance(arguments, str):
            return read_call_message(arguments.encode("utf-8", "replace"))
    return None


def _log_records(message: Message, call_id: str) -> list[Message]:
    """Return the records of Codex's log that name a call, among its last ones."""
    path = _text(message.get("transcript_path"))
    if not call_id or not path.rpartition("/")[2].startswith("rollout-"):
        return []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return []
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            return []
        data = os.pread(descriptor, _LOG_BYTES, max(0, info.st_size - _LOG_BYTES))
    except OSError:
        return []
    finally:
        os.close(descriptor)
    name = call_id.encode("utf-8", "replace")
    lines = (line for line in data.split(b"\n") if name in line)
    return [record for record in map(read_call_message, lines) if record]


def _key(*fields: str) -> str:
    data = "\0".join(fields).encode("utf-8", "surrogatepass")
    return str(blake2b(data, digest_size=16).hexdigest())


def _seconds(fields: Message) -> float:
    """Return how long a call ran; 0 where that is not said. Cursor's name has no unit."""
    for name in ("duration_ms", "durationMs", "duration"):
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return min(max(value / 1000, 0.0), _MOST_SECONDS)
    return 0.0


def _text(value: object) -> str:
    if not isinstance(value, str):
        return ""
    # Half an emoji, which an agent has cut, is in no path and cannot be written.
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _first_text(values: object) -> str:
    return _text(values[0]) if isinstance(values, list) and values else ""
