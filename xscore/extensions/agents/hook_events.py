"""The work of each hook event: before a prompt, at the start of a session or of a sub-agent, before
a compaction, at the end of an exchange, after an edit.

An event adds its text as soon as it has it; streams, time and failures are the guard's. What cannot
be done in time is left to the background process. Trade-off: each event opens the store, since
a hook is a process of its own.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from xscore.cli.opening import earlier_statements
from xscore.extensions.agents.hook_call import INDEXING, HookCall
from xscore.extensions.agents.hook_protocols import spoken_task
from xscore.platform import database
from xscore.platform.errors import ExitCode
from xscore.platform.text import counted
from xscore.records.memory import Kind
from xscore.records.receipt import Answer
from xscore.store.hook_state import (
    SessionBrief,
    forget_session,
    read_hook_state,
    session_brief,
)
from xscore.store.memory_queries import has_keyed_memory
from xscore.store.opening import has_store
from xscore.store.store import Store

NOTHING_KEPT = "the store's folder cannot be written, and there is no index in it yet"
COMPACTED = "compact"
CLEARED = ("clear", COMPACTED)
"""Starts of a session whose context the agent has dropped."""
RESUMED = "resume"
"""Start of a session that still has its context: it knows what it was working on."""
_NOTHING_JUDGED = (ExitCode.NOTHING_JUDGED, ExitCode.BUDGET)
"""Exit codes of a turn in which no host or cap allowed judging."""


def before_prompt(call: HookCall) -> str:
    """Run a turn for the prompt and add what is relevant. Raises XscoreError."""
    task = spoken_task(call.message)
    if not (task and call.is_watched):
        return ""
    answer = None
    earlier = ""
    if has_store(call.root.store_dir):
        # Nothing but a prompt runs a turn.
        from xscore.extensions.agents.hook_turn import run_hook_turn

        answer = run_hook_turn(call, task)
    elif call.root.read_only:
        return NOTHING_KEPT
    else:
        earlier = earlier_statements(call.root, call.settings)
        Store.open_with(call.root, call.settings, create=True).close()
    if answer is None:
        call.say("\n".join(filter(None, [INDEXING, earlier])))
    if answer is None or answer.partial:
        call.wake()
    if answer:
        return turn_problem(answer)
    return ""


def turn_problem(answer: Answer) -> str:
    """Return why no host or cap allowed judging, as `xscore status` names it; empty where one
    did."""
    if not (answer.ranked_by or answer.exit_code in _NOTHING_JUDGED):
        return ""
    # The lexical judge has no host that could fail: what its turn warns of is not the reason.
    if answer.judge.by_model and answer.warnings:
        return answer.warnings[0]
    causes = ", ".join(answer.unjudged.by_cause)
    return f"{counted(answer.coverage.unjudged, 'memory', 'memories')} unjudged ({causes})"


def at_session_start(call: HookCall) -> str:
    """Say what was worked on here. Raises StoreError."""
    if not call.is_watched:
        return ""
    if call.message.source in CLEARED:
        forget_session(call.state_file, call.thread)
    # Only at the start of a session.
    from xscore.extensions.agents.agent_bundle import size_of

    earlier = earlier_statements(call.root, call.settings)
    with Store.open_with(call.root, call.settings, create=True) as store:
        if call.message.source != RESUMED:
            text = _frontier(call, store)
            if not text:
                text = "\n".join(filter(None, [_recap(call, store), _usual_choices(call, store)]))
                call.brief = replace(_session_brief(call), start_bytes=size_of(text))
            call.add(*filter(None, [text, earlier, _waiting_facts(call, store)]))
    call.wake()
    return ""


def _waiting_facts(call: HookCall, store: Store) -> str:
    """Say how many facts of past sessions wait for the user; nothing where none does."""
    if call.settings.memory.extract == "off" or call.settings.agents.memory == "off":
        return ""
    from xscore.store.extracted_facts import count_waiting  # only at the start of a session

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
    """Return where the work stood, for a session whose context was compacted; else nothing."""
    if call.message.source != COMPACTED or call.settings.agents.memory == "off":
        return ""
    # Only after a compaction.
    from xscore.extensions.agents.frontier_text import frontier_after_compaction

    return frontier_after_compaction(
        store, call.message.log, origin=call.client, thread=call.thread
    )


def at_subagent_start(call: HookCall) -> str:
    """Say the same to a sub-agent, which begins without the session's context, and what the
    session got with its first prompt. Raises StoreError."""
    if call.is_watched and has_store(call.root.store_dir):
        # Only at the start of a sub-agent.
        from xscore.extensions.agents.brief import render_again

        with Store.open_with(call.root, call.settings, create=False) as store:
            texts = [_recap(call, store), render_again(store, _session_brief(call))]
            # Not `add`: a sub-agent has not seen what the session got.
            call.say("\n".join(filter(None, texts)))
    return ""


def _session_brief(call: HookCall) -> SessionBrief:
    """Return what this session has got of earlier work."""
    return session_brief(read_hook_state(call.state_file), call.thread)


def _recap(call: HookCall, store: Store) -> str:
    if call.settings.agents.memory == "off":
        return ""
    # Only at the start of a session or sub-agent.
    from xscore.extensions.agents.session_recap import render_recap

    return render_recap(store, git=call.settings.index.git)


def before_compaction(call: HookCall) -> str:
    """Remember what the log has of the exchange and where the work stands, before the agent drops
    it. Raises StoreError."""
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


def at_session_end(call: HookCall) -> str:
    """Note that the session is over, so that its facts are extracted. Raises StoreError."""
    is_off = call.settings.memory.extract == "off"
    if is_off or not (call.thread and has_store(call.root.store_dir)):
        return ""
    from xscore.store.extracted_facts import note_session_over  # only at the end of a session

    opened = Store.open_with(call.root, call.settings, create=False)
    with opened as store, database.transaction(store.connection) as connection:
        note_session_over(connection, call.thread, now=time.time())
    call.wake()
    return ""


def _remember_exchange(call: HookCall) -> str:
    """Remember the exchange from the agent's message if it holds one, else from its log; return why
    it could not."""
    message = call.message
    problem = ""
    now = time.time()
    log = message.log
    if not (message.prompt_response or log):
        return ""
    from xscore.extensions.sessions import importing  # another extension; only at a stop

    with Store.open_with(call.root, call.settings, create=False) as store:
        from xscore.extensions.agents.tool_failures import store_fixes  # only at a stop

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
        from xscore.extensions.agents.tool_failures import note_edits  # few hooks follow an edit

        note_edits(call, inside)
    return ""


def after_failure(call: HookCall) -> str:
    """Note a tool call that failed, and say what helped when it did before. Raises StoreError."""
    from xscore.extensions.agents.tool_failures import note_failure  # few hooks follow a failure

    return note_failure(call)


EVENTS: Mapping[str, Callable[[HookCall], str]] = {
    "prompt": before_prompt,
    "session-start": at_session_start,
    "subagent-start": at_subagent_start,
    "pre-compact": before_compaction,
    "stop": at_stop,
    "session-end": at_session_end,
    "post-edit": after_edit,
    "post-tool": after_failure,
    "tool-failed": after_failure,
}
"""Each returns what it could not do; that is not an error, since the agent got its answer."""
