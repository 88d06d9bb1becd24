"""`xscore memory consolidate`: bring what is remembered into order, or show what would be done and why.

`xscore memory feedback`: say of a memory that it is right, wrong, or that you did otherwise.

`xscore memory mute`: suggest nothing of a key any more.

`xscore memory suggest`: what you usually do and this project has said nothing of.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import print_json, write_stdout
from xscore.extensions.learning import suggestions
from xscore.extensions.learning.consolidate import consolidate as put_in_order
from xscore.extensions.learning.draft import SCOPES, Action, Consolidation
from xscore.extensions.learning.feedback import Signal, give_feedback
from xscore.extensions.learning.suggestions import Suggestion, Suggestions
from xscore.extensions.learning.suggestions import suggest_preferences as look
from xscore.pipeline.json_form import SCHEMA, to_json
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import counted, one_line

if TYPE_CHECKING:
    from xscore.store.store import Store


@click.command()
@click.option(
    "--scope",
    type=click.Choice([*SCOPES, "all"]),
    default="all",
    show_default=True,
    help="Whose memories: the session's, the project's, yours.",
)
@click.option("--dry-run", is_flag=True, help="Show each action and why, and change nothing.")
@options(OUTPUT)
def consolidate(scope: str, dry_run: bool, flags: Flags) -> None:
    """Bring what is remembered into order; run it nightly, or whenever you like.

    What closed sessions learned becomes the project's, what holds in several projects yours; memories that say the
    same are merged; confidence fades, what is long unused is archived or erased. A second run does nothing.
    """
    terminal = flags.terminal
    scopes = tuple(each for each in SCOPES if scope in (each, "all"))
    done = in_store(
        lambda store: put_in_order(store, store.settings, now=store.clock(), scopes=scopes, dry_run=dry_run), flags
    )
    for note in done.skipped:
        terminal.note(f"skipped {note}")
    if terminal.as_json:
        print_json(to_json(done))
    else:
        write_stdout(render_consolidation(done))


def render_consolidation(done: Consolidation) -> str:
    """One line an action, then how many of each."""
    if not done.actions:
        return f"nothing to do · {counted(done.considered, 'memory', 'memories')} looked at"
    lines = [_action_line(action) for action in done.actions]
    counts = " · ".join(f"{count:,} {kind}" for kind, count in done.counts.items())
    verb = "would do" if done.dry_run else "done"
    return "\n".join([*lines, f"{verb}  {counts} · {counted(done.considered, 'memory', 'memories')} looked at"])


def _action_line(action: Action) -> str:
    name = action.memory_ids[0] if action.memory_ids else "-"
    title = f"  {one_line(action.title)}" if action.title else ""
    return f"{action.kind:<9} {action.scope:<7} {name}{title}\n{'':17} {one_line(action.why)}"


USER_SIGNALS = (Signal.ACCEPT, Signal.REJECT, Signal.OVERRIDE)
"""Signals that a person gives; adoption is seen."""


@click.command()
@click.argument("memory_id", metavar="ID")
@click.argument("signal", metavar="SIGNAL", type=click.Choice([str(signal) for signal in USER_SIGNALS]))
@options(OUTPUT)
def record_feedback(memory_id: str, signal: str, flags: Flags) -> None:
    """Move the confidence of the memory ID: it was right, wrong, or known and overridden.

    The amounts are `memory.feedback`; confidence stays between 0 and 1.
    """
    terminal = flags.terminal
    found = in_store(lambda store: give_feedback(store, memory_id, Signal(signal), now=store.clock()), flags)
    if terminal.as_json:
        print_json(to_json(found))
    else:
        write_stdout(
            f"{found.id}  {one_line(found.title)}\nconfidence {found.before:.2f} -> {found.after:.2f} ({found.signal})"
        )


@click.command()
@click.argument("key", required=False, default="")
@click.option("--list", "show", is_flag=True, help="List the muted keys.")
@click.option("--undo", is_flag=True, help="Suggest KEY again.")
@options(OUTPUT)
def mute_key(key: str, show: bool, undo: bool, flags: Flags) -> None:
    """Suggest nothing of KEY any more, in any project; `--undo` takes it back."""
    if show == bool(key) or (show and undo):
        raise UsageError("a key or --list is needed, one of them", hint="`xscore memory mute orm`, or `--list`.")
    muted = in_store(lambda store: _muted(store, key, undo=undo), flags)
    if flags.terminal.as_json:
        print_json({"schema": SCHEMA, "muted": list(muted)})
    elif show and muted:
        write_stdout("\n".join(map(one_line, muted)))
    elif show:
        flags.terminal.note("nothing is muted")
    else:
        write_stdout(f"{one_line(key)} is {'suggested again' if undo else 'muted'}")


def _muted(store: "Store", key: str, *, undo: bool) -> tuple[str, ...]:
    if key and undo and not suggestions.unmute_suggestion(store, key):
        raise NothingMatched(f"{key} is not muted", hint="`xscore memory mute --list` shows what is.")
    if key and not undo:
        suggestions.mute_suggestion(store, key, now=store.clock())
    return suggestions.muted_keys(store)


@click.command()
@options(OUTPUT)
def suggest_preferences(flags: Flags) -> None:
    """Say what you usually do that nothing here speaks of yet; `xscore memory mute KEY` silences a key.

    Nothing is applied: `xscore memory add` what holds here too.
    """
    terminal = flags.terminal
    found = in_store(lambda store: look(store, at_least=store.settings.inferred_confidence), flags)
    if terminal.as_json:
        print_json(to_json(found))
    elif found.suggestions:
        write_stdout(render_suggestions(found))
    else:
        terminal.note("nothing to suggest")


def render_suggestions(found: Suggestions) -> str:
    """The sentence, then one line each."""
    return "\n".join([one_line(found.text), "", *map(_suggestion_line, found.suggestions)])


def _suggestion_line(each: Suggestion) -> str:
    where = f", in {counted(each.projects, 'project')}" if each.projects else ""
    return f"{one_line(each.key):<20} {one_line(each.value)}  (confidence {each.confidence:.2f}{where})"
