"""What is kept of an agent's failed tool call, and what helped in the end.

A failed command or edit goes into the working tree's file (`store.failed_actions`), by which
`tool_gate` recognizes its repetition. It becomes a memory, counted by signature, as well: here
for agents whose logs are not read, otherwise when the log is. What helped is what was done
until the same call succeeded; of a command that was called wrongly, the next one of its kind
that worked. Failures that say nothing about the call are left out: commands that only read,
timeouts, signals, the network. Everything is redacted and shortened before it is written.
Trade-off: what helped is taken from what hooks saw, not from what caused the failure.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from xscore.cli.start import STARTED_AT
from xscore.extensions.agents.agent_bundle import quoted
from xscore.extensions.agents.data_fence import DATA_NOTE, FENCE
from xscore.extensions.agents.hook_call import HookCall
from xscore.extensions.agents.shell_words import CommandWords, command_words, leaves_tree
from xscore.extensions.agents.tool_call import (
    Ending,
    ToolCall,
    ending_of,
    read_call_message,
    tool_call,
)
from xscore.extensions.agents.tool_gate import current_state, is_in_ci
from xscore.extensions.agents.tool_quotes import (
    COMMAND_CHARS,
    error_end,
    holds_secret,
    shown_command,
    shown_error,
)
from xscore.platform.git import tracked_files
from xscore.platform.paths import RepositoryRoot, user_config_file
from xscore.platform.tree_state import GIT_FILES, MOST_ENTRIES, file_state
from xscore.records.memory import Kind, Memory, MemoryDetails
from xscore.store.failed_actions import (
    ActionsLock,
    FailedAction,
    forget_gone_trees,
    read_actions,
    tree_with_failures,
    write_actions,
)
from xscore.store.failures import failure_id, record_failure, resolve_failure
from xscore.store.memory_rows import memory_with_id
from xscore.store.opening import has_store
from xscore.store.store import Store

CLOCK_STEP_S = 0.01
"""How much a file system's clock may be behind."""
_LOGS_READ = ("claude-code", "codex")
"""Clients whose logs are read when an exchange ends, their failed commands included."""


def note_failure(call: HookCall) -> str:
    """Note a tool call that failed, and say what helped when it did before. Raises StoreError."""
    mode = call.settings.agents.failures
    message = read_call_message(call.data)
    ending = ending_of(message, call.client)
    failed_call = tool_call(message, call.client)
    if mode == "off" or is_in_ci() or not ending.failed or failed_call is None:
        return ""
    if failed_call.is_background or not call.is_watched or call.root.read_only:
        return ""
    words = command_words(failed_call.command)
    if failed_call.command and words.only_reads:
        return ""
    memory_id = failure_id(_failure_text(failed_call, ending))
    forget_gone_trees()
    if not ending.is_transient:
        _put_on_record(call, failed_call, ending, words, memory_id)
    memory = _stored_failure(call, failed_call, ending, memory_id)
    if memory is not None and memory.details.resolution:
        call.answer(_what_helped(memory))
    return ""


def _put_on_record(
    call: HookCall, failed_call: ToolCall, ending: Ending, words: CommandWords, memory_id: str
) -> None:
    root = str(call.root.path)
    allow_pii = call.settings.memory.allow_pii
    # From its digest and the rest of the words a short secret could be guessed.
    is_secret = holds_secret(failed_call.request, allow_pii=allow_pii)
    with ActionsLock(root) as lock:
        if not lock.held:
            return
        record = read_actions(root)
        record.mode = call.settings.agents.failures
        record.settings_file = str(user_config_file())
        record.settings_state = file_state(record.settings_file)
        record.git_files = _git_files(call.root)
        for earlier in record.actions:
            # A command may have done a part of its work before it failed.
            if failed_call.command and not earlier.path:
                earlier.changed = True
        if is_secret:
            write_actions(record, now=time.time())
            return
        action = record.find(failed_call.key) or FailedAction(failed_call.key)
        action.kind = words.kind
        action.shown = shown_command(
            failed_call.command or _relative(failed_call.path, call.root.path),
            allow_pii=allow_pii,
        )
        action.error = shown_error(ending.error, allow_pii=allow_pii)
        action.path = failed_call.path
        action.at = time.time()
        action.times += 1
        action.is_usage = ending.is_usage
        command = failed_call.command
        is_elsewhere = leaves_tree(command, folder=failed_call.folder, root=root)
        action.may_deny = not (words.is_outside or is_elsewhere)
        action.succeeded = False
        # A file that was edited while it ran may be mended: the failure says nothing about it
        # now.
        action.changed = not action.path and _was_edited_meanwhile(call.root, ending)
        action.memory = memory_id
        action.state = current_state(record, action)
        record.put(action)
        write_actions(record, now=action.at)


def _was_edited_meanwhile(root: RepositoryRoot, ending: Ending) -> bool:
    """Whether a file that git tracks has changed since a command began: what it failed on may be
    mended. False where the client does not say how long it ran."""
    if not (ending.lasted_s and root.is_git):
        return False
    began_ago_s = time.monotonic() - STARTED_AT + ending.lasted_s + CLOCK_STEP_S
    began_ns = time.time_ns() - int(began_ago_s * 1e9)
    for path in tracked_files(root.path)[:MOST_ENTRIES]:
        with suppress(OSError, ValueError):  # removed, at an unknown time
            if (root.path / path).lstat().st_ctime_ns >= began_ns:
                return True
    return False


def _stored_failure(
    call: HookCall, failed_call: ToolCall, ending: Ending, memory_id: str
) -> Memory | None:
    """Return the memory of this failure, made now for an agent whose log is not read."""
    if not has_store(call.root.store_dir):
        return None
    with Store.open_with(call.root, call.settings, create=False) as store:
        memory = memory_with_id(store.connection, memory_id)
        if call.client not in _LOGS_READ and not ending.is_transient:
            paths = (_relative(failed_call.path, call.root.path),) if failed_call.path else ()
            record_failure(
                store,
                text=_failure_text(failed_call, ending),
                details=MemoryDetails(
                    imported_from=call.client, session=failed_call.session, paths=paths
                ),
            )
    return memory


def note_edits(call: HookCall, paths: Sequence[str]) -> None:
    """Note that files were edited, in what failed before. paths: those in the working tree."""
    root = call.root.path
    tree = str(root)
    # Gemini CLI has one event for an edit that was made and one that failed.
    has_failed = ending_of(read_call_message(call.data), call.client).failed
    if has_failed or tree_with_failures(tree) != tree:
        return
    with ActionsLock(tree) as lock:
        record = read_actions(tree)
        for action in record.actions:
            # Its repetition need not look through the tree then.
            action.changed = action.changed or not action.path
            for path in paths:
                action.add_step(f"an edit of {shown_command(_relative(path, root))}")
        if lock.held:
            write_actions(record, now=time.time())


def store_fixes(store: Store) -> None:
    """Store what helped against failures that have a memory, and forget the actions that succeeded.
    Raises StoreError."""
    root = str(store.root.path)
    if tree_with_failures(root) != root:
        return
    with ActionsLock(root) as lock:
        record = read_actions(root)
        for action in record.actions:
            memory = memory_with_id(store.connection, action.memory) if action.fixed else None
            is_failure = memory is not None and memory.kind is Kind.FAILURE
            if memory and is_failure and not memory.details.resolution:
                resolve_failure(store, memory.id, action.fixed)
        record.actions = [action for action in record.actions if not action.succeeded]
        if lock.held:
            write_actions(record, now=time.time())


def _failure_text(failed_call: ToolCall, ending: Ending) -> str:
    """Return the failure as importers of logs word it, so that both count as one."""
    subject = failed_call.command or f"edit of {failed_call.path.rpartition('/')[2]}"
    return f"{subject}\n{error_end(ending.error)}"


def _what_helped(memory: Memory) -> str:
    times = "once"
    if memory.details.occurrences > 1:
        times = f"{memory.details.occurrences} times"
    helped = quoted(memory.details.resolution, 3 * COMMAND_CHARS)
    return (
        f"xscore: this failure has happened {times} before. {DATA_NOTE}\n<{FENCE}>\n"
        f"[{memory.id}] What helped then: {helped}\n</{FENCE}>"
    )


def _git_files(root: RepositoryRoot) -> list[str]:
    if root.git_dir is None:
        return []
    folders = {root.git_dir, root.store_dir.parent}
    return [str(folder / name) for folder in sorted(folders) for name in GIT_FILES]


def _relative(path: str, root: Path) -> str:
    place = Path(path)
    return str(place.relative_to(root)) if place.is_relative_to(root) else path
