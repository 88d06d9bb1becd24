"""Hooks that remember an exchange: when it has ended, and before its context is compacted."""

import time

from xscore.extensions.agents.hook_call import HookCall
from xscore.extensions.agents.tool_failures import store_fixes
from xscore.extensions.sessions import importing
from xscore.store.opening import has_store
from xscore.store.store import Store


def before_compaction(call: HookCall) -> str:
    """Remember what the log has of the exchange and the state of the work, before the agent
    drops it. Raises StoreError."""
    if not has_store(call.root.store_dir):
        return ""
    is_told = call.settings.agents.memory != "off"
    log = call.message.log
    if is_told and log is not None and call.thread:
        # Only before a compaction.
        from xscore.extensions.agents.frontier_text import keep_frontier

        with Store.open_with(call.root, call.settings, create=False) as store:
            keep_frontier(store, log, origin=call.client, thread=call.thread, now=time.time())
    return _remember_exchange(call)


def at_stop(call: HookCall) -> str:
    """Remember the exchange that has just ended, and judge its edits again. Raises StoreError."""
    if call.message.stop_hook_active or not has_store(call.root.store_dir):
        return ""
    problem = _remember_exchange(call)
    call.wake(judges_changes=True)
    return problem


def _remember_exchange(call: HookCall) -> str:
    """Remember the exchange from the agent's message if it holds one, otherwise from its log;
    return why it could not."""
    message = call.message
    problem = ""
    now = time.time()
    log = message.log
    if not (message.prompt_response or log):
        return ""
    with Store.open_with(call.root, call.settings, create=False) as store:
        if message.prompt_response:
            importing.remember_exchange(
                store,
                message.prompt,
                message.prompt_response,
                origin=call.client,
                session=message.session_id,
                thread=call.thread,
                now=now,
            )
        elif log is not None:
            problem = importing.import_session(
                store, log, origin=call.client, thread=call.thread, now=now
            )
        store_fixes(store)
    return problem
