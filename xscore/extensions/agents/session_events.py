"""Hooks at the start and the end of a session, and at the start of a sub-agent.

They say what was worked on here, and note that a session is over. Trade-off: each opens the store,
since a hook is a process of its own.
"""

import time

from msgspec.structs import replace

from xscore.cli.settings_and_store import earlier_statements
from xscore.extensions.agents.agent_bundle import size_of
from xscore.extensions.agents.hook_call import HookCall
from xscore.extensions.agents.session_recap import render_recap
from xscore.platform import database
from xscore.platform.text import counted
from xscore.records.memory import Kind
from xscore.store.extracted_facts import count_waiting, note_session_over
from xscore.store.hook_state import (
    SessionBrief,
    forget_session,
    read_hook_state,
    session_brief,
)
from xscore.store.memory_queries import has_keyed_memory
from xscore.store.opening import has_store
from xscore.store.store import Store

COMPACTED = "compact"
CLEARED = ("clear", COMPACTED)
"""Starts of a session whose context the agent has dropped."""
RESUMED = "resume"
"""Start of a session that still has its context: it knows what it was working on."""


def at_session_start(call: HookCall) -> str:
    """Say what was worked on here. Raises StoreError."""
    if not call.is_watched:
        return ""
    if call.message.source in CLEARED:
        forget_session(call.state_file, call.thread)
    earlier = earlier_statements(call.root, call.settings)
    with Store.open_with(call.root, call.settings, create=True) as store:
        if call.message.source != RESUMED:
            text = _frontier(call, store)
            if not text:
                text = "\n".join(
                    filter(None, [_recap(call, store), _usual_choices(call, store)])
                )
                call.brief = replace(_session_brief(call), start_bytes=size_of(text))
            call.answer(*filter(None, [text, earlier, _waiting_facts(call, store)]))
    call.wake()
    return ""


def _waiting_facts(call: HookCall, store: Store) -> str:
    """Say how many facts of past sessions wait for the user; nothing where none does."""
    if call.settings.memory.extract == "off" or call.settings.agents.memory == "off":
        return ""
    # A preference waits in the user's own store.
    waiting = sum(map(count_waiting, store.connections_of_a_turn()))
    if not waiting:
        return ""
    waits = counted(waiting, "fact from past sessions waits", "facts from past sessions wait")
    return f"xscore: {waits} for the user's review (`xscore memory review`)."


def _usual_choices(call: HookCall, store: Store) -> str:
    """Say what the user typically uses and this project does not mention."""
    if call.settings.agents.memory == "off":
        return ""
    *_, user = store.connections_of_a_turn()
    # Most users have stated no preference, or have no store of their own.
    if user is store.connection or not has_keyed_memory(user, (Kind.PREFERENCE, Kind.PATTERN)):
        return ""
    from xscore.extensions.agents.usual_choices import render_usual_choices  # few sessions

    return render_usual_choices(store)


def _frontier(call: HookCall, store: Store) -> str:
    """Return the state of the work, for a session whose context was compacted; otherwise
    nothing."""
    if call.message.source != COMPACTED or call.settings.agents.memory == "off":
        return ""
    # Only after a compaction.
    from xscore.extensions.agents.frontier_text import frontier_after_compaction

    return frontier_after_compaction(
        store, call.message.log, origin=call.client, thread=call.thread
    )


def at_subagent_start(call: HookCall) -> str:
    """Say the same to a sub-agent, which begins without the session's context, and what the
    session was told with its first prompt. Raises StoreError."""
    if call.is_watched and has_store(call.root.store_dir):
        # Only at the start of a sub-agent.
        from xscore.extensions.agents.brief import render_again

        with Store.open_with(call.root, call.settings, create=False) as store:
            texts = [_recap(call, store), render_again(store, _session_brief(call))]
            # `add` is not used: what the session was told, a sub-agent has not seen.
            call.say("\n".join(filter(None, texts)))
    return ""


def _session_brief(call: HookCall) -> SessionBrief:
    """Return what this session has been told of earlier work."""
    return session_brief(read_hook_state(call.state_file), call.thread)


def _recap(call: HookCall, store: Store) -> str:
    if call.settings.agents.memory == "off":
        return ""
    return render_recap(store, git=call.settings.index.git)


def at_session_end(call: HookCall) -> str:
    """Note that the session is over, so that its facts are extracted. Raises StoreError."""
    is_off = call.settings.memory.extract == "off"
    if is_off or not (call.thread and has_store(call.root.store_dir)):
        return ""
    opened = Store.open_with(call.root, call.settings, create=False)
    with opened as store, database.transaction(store.connection) as connection:
        note_session_over(connection, call.thread, now=time.time())
    call.wake()
    return ""
