"""Hooks after a tool has run: files that it edited, and a call that failed."""

from pathlib import Path

from xscore.extensions.agents.hook_call import HookCall
from xscore.extensions.agents.tool_failures import note_edits, note_failure
from xscore.store.opening import has_store


def after_edit(call: HookCall) -> str:
    """Have the background process read the edited file, if it is one of this repository."""
    folder = Path(call.message.folder or call.root.path)
    inside = []
    for path in call.message.edited_paths:
        if (folder / path).resolve().is_relative_to(call.root.path):
            inside.append(path)
    if inside and has_store(call.root.store_dir):
        call.wake()
    if call.message.edited_paths:
        note_edits(call, inside)
    return ""


def after_failure(call: HookCall) -> str:
    """Note a tool call that failed, and say what helped when it did before. Raises StoreError."""
    return note_failure(call)
