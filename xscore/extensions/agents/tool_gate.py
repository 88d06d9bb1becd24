"""The hooks around a tool call of a coding agent: before it, deny once in a session what failed
before and cannot end otherwise; after it, note what succeeded.

It runs once per tool call while a failure is on record (`hook_guards` starts nothing otherwise), so
it has 25 ms: nothing of xscore but what is imported here is loaded, and settings are those that
were in force when the failure was noted. It denies only where nothing has changed: no file of the
tree, no other command that may change something, not the settings. It opens no store. Whatever goes
wrong, the exit code is 0 and the call goes ahead. Trade-off: a change outside the tree that no hook
has seen, such as a package that the user installs in another terminal, does not stop the one
denial, which says so.
"""

import json
import os
import signal
import time

from xscore.extensions.agents.data_fence import DATA_NOTE, FENCE
from xscore.extensions.agents.shell_words import command_words
from xscore.extensions.agents.tool_call import (
    BEFORE,
    NOTHING,
    Ending,
    Message,
    ToolCall,
    ending_of,
    read_call_message,
    read_hook_input,
    tool_call,
)
from xscore.platform.tree_state import file_state, tree_fingerprint
from xscore.store.failed_actions import (
    MOST_SESSIONS,
    ActionsLock,
    FailedAction,
    FailedActions,
    read_actions,
    session_digest,
    tree_with_failures,
    write_actions,
)

MODES = ("deny", "tell", "off")
MODE_VARIABLE = "XSCORE_AGENTS_FAILURES"
"""Environment variable of `agents.failures`."""
_LATEST_S = 3
"""Seconds after which the gate ends; an agent waits 5."""


def answer_tool_hook_or_return_failure(event: str, client: str) -> bytes:
    """Answer a hook around a tool call and end the process, unless the call has failed: then return
    the message, which `tool_failures` takes."""
    try:
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.alarm(_LATEST_S)
        data = read_hook_input() or b""
        message = read_call_message(data)
        answer = b""
        if event == BEFORE:
            answer = answer_before(message, client)
        elif has_failed(message, client):
            signal.alarm(0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            return data
        else:
            note_success(message, client)
        if client == "gemini":
            answer = answer or NOTHING
        os.write(1, answer)
    except BaseException:  # noqa: S110  the edge of a hook: the agent goes on, whatever happens here
        pass
    os._exit(0)


def is_in_ci() -> bool:
    """Whether this runs in continuous integration, where there is no user to ask."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def answer_before(message: Message, client: str) -> bytes:
    """Return what denies this call; empty to let it go ahead."""
    if is_in_ci():
        return b""
    call = tool_call(message, client)
    root = tree_with_failures(call.folder) if call else ""
    if call is None or call.is_background or not root:
        return b""
    record = read_actions(root)
    action = record.find(call.key)
    if action is None or not _is_denied(record, action, call):
        return b""
    session = session_digest(call.session)
    with ActionsLock(root) as lock:
        # Another hook of this session may have denied it meanwhile.
        record = read_actions(root)
        action = record.find(call.key)
        if not lock.held or action is None or session in action.denied:
            return b""
        action.denied = [*action.denied, session][-MOST_SESSIONS:]
        # What cannot be noted would be denied forever.
        if not write_actions(record, now=time.time()):
            return b""
    return denial(reason_of(action), client)


def _is_denied(record: FailedActions, action: FailedAction, call: ToolCall) -> bool:
    mode = os.environ.get(MODE_VARIABLE, record.mode)
    if mode != "deny" or file_state(record.settings_file) != record.settings_state:
        return False
    if not action.may_deny or action.changed or action.succeeded or not action.state:
        return False
    if session_digest(call.session) in action.denied:
        return False
    return current_state(record, action) == action.state


def current_state(record: FailedActions, action: FailedAction) -> str:
    """Return the fingerprint of what an action depends on: its file, or the whole tree."""
    if action.path:
        return file_state(action.path)
    return tree_fingerprint(record.root, record.git_files)


def reason_of(action: FailedAction) -> str:
    """Return why an action is denied. Its texts are quoted: they are data."""
    quoted = [f"Failed: {action.shown}", f"Its error: {action.error}"]
    if action.fixed:
        quoted.append(f"What helped: {action.fixed}")
    lines = [
        "xscore stopped this once: exactly this failed here before, and no file has changed"
        " since. Change something first. If something outside this folder has changed, or you"
        " want to run it anyway, run it again: it is stopped only once in a session.",
        DATA_NOTE,
        f"<{FENCE}>",
        *quoted,
        f"</{FENCE}>",
    ]
    return "\n".join(lines)


def denial(reason: str, client: str) -> bytes:
    """Return the output that denies a call, in a client's form."""
    output: dict[str, object] = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }
    if client == "gemini":
        output = {"decision": "deny", "reason": reason}
    if client == "cursor":
        output = {"permission": "deny", "user_message": reason, "agent_message": reason}
    return json.dumps(output).encode() + b"\n"


def has_failed(message: Message, client: str) -> bool:
    """Whether the call of a message failed, in a way that is worth noting."""
    ending: Ending = ending_of(message, client)
    return ending.failed and not is_in_ci()


def note_success(message: Message, client: str) -> None:
    """Note a call that succeeded, if that says something about an earlier failure."""
    call = tool_call(message, client)
    root = tree_with_failures(call.folder) if call else ""
    if call is None or not root or is_in_ci():
        return
    words = command_words(call.command)
    # Most commands only read: they change nothing on record.
    if not _concerns(read_actions(root), call, only_reads=words.only_reads):
        return
    with ActionsLock(root) as lock:
        record = read_actions(root)
        for action in record.actions:
            _note(action, call, kind=words.kind, only_reads=words.only_reads)
        record.actions = [action for action in record.actions if not _is_over(action)]
        if lock.held:
            write_actions(record, now=time.time())


def _concerns(record: FailedActions, call: ToolCall, *, only_reads: bool) -> bool:
    if only_reads or call.path:
        return record.find(call.key) is not None
    return any(not action.succeeded for action in record.actions)


def _note(action: FailedAction, call: ToolCall, *, kind: str, only_reads: bool) -> None:
    """Note in an action what this call, which has succeeded, says about it."""
    if action.key == call.key:
        action.succeeded = True
        if action.steps and not action.fixed:
            action.fixed = f"it succeeded after {', '.join(action.steps)}"
    elif call.command and not only_reads and not action.path:
        action.changed = True
        # Only the kind of a command is kept: the rest may hold a secret.
        action.add_step(f"`{kind}`" if kind else "")
        if action.is_usage and kind == action.kind and not action.fixed:
            # Loads what redacts, once for a failure.
            from xscore.extensions.agents.tool_quotes import shown_command

            action.fixed = f"{shown_command(call.command)} worked"


def _is_over(action: FailedAction) -> bool:
    """Whether nothing more is to be done about it: it succeeded, and there is nothing to store."""
    return action.succeeded and not action.fixed
