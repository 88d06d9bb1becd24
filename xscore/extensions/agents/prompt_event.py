"""The hook before a prompt: run a turn, and add what is relevant to it.

Where there is no index yet, the background process makes one. Trade-off: the turn has a deadline,
and what it does not judge in time is judged behind it.
"""

from xscore.cli.settings_and_store import earlier_statements
from xscore.extensions.agents.hook_call import INDEXING, HookCall
from xscore.extensions.agents.hook_protocols import spoken_task
from xscore.extensions.agents.hook_turn import run_hook_turn
from xscore.platform.errors import ExitCode
from xscore.platform.text import counted
from xscore.records.receipt import Answer
from xscore.store.opening import has_store
from xscore.store.store import Store

NOTHING_KEPT = "the store's folder cannot be written, and there is no index in it yet"
_NOTHING_JUDGED = (ExitCode.NOTHING_JUDGED, ExitCode.BUDGET)
"""Exit codes of a turn that judged nothing because no host or cap allowed it."""


def before_prompt(call: HookCall) -> str:
    """Run a turn for the prompt and add what is relevant. Raises XscoreError."""
    task = spoken_task(call.message)
    if not (task and call.is_watched):
        return ""
    answer = None
    earlier = ""
    if has_store(call.root.store_dir):
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
