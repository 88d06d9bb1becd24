"""`memory consolidate | audit | feedback | suggest | mute` and `session close`: what is learned, and keeping it tidy.

Pages and exit codes alone; what is merged, promoted or suggested is decided beside. Nothing is sent to a model.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import DRY_RUN, Flags, command, options
from xscore.cli.session import current_session
from xscore.cli.terminal import bold, faint, print_json, render_facts, write_stdout
from xscore.extensions.learning import suggestions
from xscore.extensions.learning.consolidate import consolidate as consolidate_memories
from xscore.extensions.learning.draft import SCOPES, Action, Consolidation
from xscore.extensions.learning.feedback import Signal, give_feedback
from xscore.extensions.learning.suggestions import Suggestion, Suggestions
from xscore.pipeline.json_form import SCHEMA, record_json, to_json
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import counted, one_line

if TYPE_CHECKING:
    from xscore.extensions.learning.audit import AuditFinding, MemoryAudit
    from xscore.extensions.learning.consolidate import ClosedSession
    from xscore.store.store import Store

USER_SIGNALS = (Signal.ACCEPT, Signal.REJECT, Signal.OVERRIDE)
"""Signals that a person gives; adoption is seen."""
FINDINGS_SHOWN = 10
NEEDS_DOING = 1
"""Exit code of an audit."""
_HEADINGS = {
    "secret": ("suspected secrets", "xscore memory delete ID"),
    "stale": ("stale", "xscore memory update ID --cite PATH:LINES, or delete ID"),
    "duplicate": ("the same twice", "xscore memory consolidate, or delete all but the first"),
    "near_duplicate": ("the same in other words", "xscore memory consolidate, or delete all but the first"),
    "over_cap": ("over their caps", "xscore memory consolidate, or raise memory.max_rows, memory.max_bytes"),
    "unused": ("never chosen", "good to know; consolidate retires them"),
    "doubtful": ("of low confidence", "good to know; xscore memory feedback ID accept|reject"),
}


@command()
@click.option(
    "--scope",
    type=click.Choice([*SCOPES, "all"]),
    default="all",
    show_default=True,
    help="Whose memories: the session's, the project's, yours.",
)
@options(DRY_RUN)
def consolidate(scope: str, flags: Flags) -> None:
    """Bring what is remembered into order; run it nightly, or whenever you like.

    What closed sessions learned becomes the project's, what holds in several projects yours; memories that say the
    same are merged; confidence fades, what is long unused is archived or erased. A second run does nothing.
    """
    scopes = tuple(each for each in SCOPES if scope in (each, "all"))
    dry_run = bool(flags.given["dry_run"])
    done = in_store(
        lambda store: consolidate_memories(store, store.settings, now=store.clock(), scopes=scopes, dry_run=dry_run),
        flags,
    )
    flags.terminal.notes([f"skipped {note}" for note in done.skipped])
    flags.terminal.print_result(done, render_consolidation)


def render_consolidation(done: Consolidation) -> str:
    """One line an action, then how many of each."""
    considered = counted(done.considered, "memory", "memories")
    if not done.actions:
        return f"nothing to do · {considered} considered"
    counts = " · ".join(f"{count:,} {kind}" for kind, count in done.counts.items())
    verb = "would do" if done.dry_run else "done"
    return "\n".join([*map(_action_line, done.actions), f"{verb}  {counts} · {considered} considered"])


def _action_line(action: Action) -> str:
    name = action.memory_ids[0] if action.memory_ids else "-"
    title = f"  {one_line(action.title)}" if action.title else ""
    return f"{action.kind:<9} {action.scope:<7} {name}{title}\n{'':17} {one_line(action.why)}"


@command()
@click.option(
    "--days",
    metavar="N",
    type=click.FloatRange(min=0),
    help="Name what no turn chose in N days; default: memory.drop_days.",
)
@options()
def audit_memories(days: float | None, flags: Flags) -> int:
    """Find duplicates, stale memories and the citation that changed, suspected secrets, layers over their caps.

    Exit code 1 where something needs doing. Nothing is sent, and nothing is erased.
    """
    found = in_store(lambda store: _audit(store, days), flags)
    shown = len(found.findings) if flags.terminal.verbose else FINDINGS_SHOWN
    flags.terminal.print_result(found, lambda one: render_audit(one, shown=shown), is_clean=found.is_clean)
    return 0 if found.is_clean else NEEDS_DOING


def _audit(store: "Store", days: float | None) -> "MemoryAudit":
    from xscore.extensions.learning import audit

    kept = store.settings
    caps = audit.LayerCaps(
        rows={str(layer): most for layer, most in kept.max_rows.items()},
        bytes={str(layer): most for layer, most in kept.max_bytes.items()},
    )
    unused = kept.drop_days if days is None else days
    return audit.audit_memories(store, now=store.clock(), caps=caps, unused_days=unused)


def render_audit(found: "MemoryAudit", *, shown: int = FINDINGS_SHOWN) -> str:
    """Show the findings by kind, what needs doing first, with the command that does it."""
    groups: dict[str, list[AuditFinding]] = {}
    for finding in found.findings:
        groups.setdefault(finding.problem, []).append(finding)
    lines = []
    for problem, findings in groups.items():
        heading, remedy = _HEADINGS[problem]
        lines.append(f"{bold(f'{len(findings):,} {heading}')}  {faint(remedy)}")
        lines += [_finding_line(finding) for finding in findings[:shown]]
        if len(findings) > shown:
            lines.append(f"  … and {len(findings) - shown:,} more (--verbose)")
    end = "nothing needs doing" if found.is_clean else "something needs doing"
    return "\n".join([*lines, f"{counted(found.looked_at, 'memory', 'memories')} checked: {end}."])


def _finding_line(finding: "AuditFinding") -> str:
    named = [f"{identifier} “{title}”" for identifier, title in zip(finding.ids, finding.titles, strict=True)]
    return one_line("  " + ", ".join(named) + (": " if named else "") + finding.because)


@command()
@click.argument("memory_id", metavar="ID")
@click.argument("signal", metavar="SIGNAL", type=click.Choice([str(signal) for signal in USER_SIGNALS]))
@options()
def record_feedback(memory_id: str, signal: str, flags: Flags) -> None:
    """Move the confidence of the memory ID: accept, reject, or override (known, but not followed this time).

    The amounts are `memory.feedback`; confidence stays between 0 and 1.
    """
    found = in_store(lambda store: give_feedback(store, memory_id, Signal(signal), now=store.clock()), flags)
    change = f"confidence {found.before:.2f} -> {found.after:.2f} ({found.signal})"
    flags.terminal.print_result(found, lambda one: f"{one.id}  {one_line(one.title)}\n{change}")


@command()
@click.argument("key", required=False, default="")
@click.option("--list", "show", is_flag=True, help="List the muted keys.")
@click.option("--undo", is_flag=True, help="Suggest KEY again.")
@options()
def mute_key(key: str, show: bool, undo: bool, flags: Flags) -> None:
    """Stop suggesting KEY, in any project; `--undo` takes it back."""
    if show == bool(key) or (show and undo):
        raise UsageError("give a key or --list, one of them", hint="`xscore memory mute orm`, or `--list`.")
    muted = in_store(lambda store: _muted(store, key, undo=undo), flags)
    if show and not muted and not flags.terminal.as_json:
        flags.terminal.note("nothing is muted")
        return
    words = "\n".join(map(one_line, muted)) if show else f"{one_line(key)} is {'suggested again' if undo else 'muted'}"
    flags.terminal.print_result({"muted": list(muted)}, lambda _: words)


def _muted(store: "Store", key: str, *, undo: bool) -> tuple[str, ...]:
    if key and undo and not suggestions.unmute_suggestion(store, key):
        raise NothingMatched(f"{key} is not muted", hint="`xscore memory mute --list` shows what is.")
    if key and not undo:
        suggestions.mute_suggestion(store, key, now=store.clock())
    return suggestions.muted_keys(store)


@command()
@options()
def suggest_preferences(flags: Flags) -> None:
    """Say what you usually do that nothing here speaks of yet; `xscore memory mute KEY` silences a key.

    Nothing is applied: `xscore memory add` what holds here too.
    """
    found = in_store(
        lambda store: suggestions.suggest_preferences(store, at_least=store.settings.inferred_confidence), flags
    )
    if found.suggestions or flags.terminal.as_json:
        flags.terminal.print_result(found, render_suggestions)
    else:
        flags.terminal.note("nothing to suggest")


def render_suggestions(found: Suggestions) -> str:
    """The sentence, then one line each."""
    return f"{one_line(found.text)}\n\n{render_facts(map(_suggestion, found.suggestions))}"


def _suggestion(each: Suggestion) -> tuple[str, str]:
    where = f", in {counted(each.projects, 'project')}" if each.projects else ""
    return one_line(each.key), f"{one_line(each.value)}  (confidence {each.confidence:.2f}{where})"


@command()
@click.option("--branch", metavar="NAME", help="All open sessions of this branch, even if it is gone.")
@click.option("--merged", is_flag=True, help="All open sessions of the branches that the last merge brought in.")
@options()
def close_sessions(branch: str | None, merged: bool, flags: Flags) -> None:
    """End this branch's session: what it learned becomes the project's, its exchanges get one summary.

    The next turn begins another one. `--merged -q` is for a post-merge hook: it prints nothing, and it is no error if
    there is nothing to close.
    """
    if merged and branch is not None:
        raise UsageError("--branch and --merged are two ways to name branches", hint="Give one of them.")

    def work(store: "Store") -> None:
        closed = _close_requested(store, branch, merged=merged)
        is_one = branch is None and not merged
        if not closed and not merged:
            where = f"the branch {branch}" if branch is not None else "this branch"
            raise NothingMatched(f"there is no open session on {where}", hint="`xscore session list` names all.")
        if flags.terminal.as_json:
            print_json(to_json(closed[0]) if is_one else {"schema": SCHEMA, "closed": [*map(record_json, closed)]})
        elif not flags.terminal.quiet:
            none = "the last merge brought in no branch with an open session"
            write_stdout("\n".join(map(_closed_line, closed)) or none)

    in_store(work, flags)


def _close_requested(store: "Store", branch: str | None, *, merged: bool) -> "tuple[ClosedSession, ...]":
    """Close what is asked for: by branch, by the last merge, or what goes on here."""
    from xscore.extensions.learning.consolidate import close_branches, close_session
    from xscore.platform.git import merged_branches

    if merged or branch is not None:
        branches = merged_branches(store.root.path) if branch is None else (branch,)
        return close_branches(store, branches, now=store.clock())
    found = current_session(store)
    return (close_session(store, found.thread, now=store.clock()),) if found else ()


def _closed_line(closed: "ClosedSession") -> str:
    kept = f"{len(closed.carried)} kept for the project, " if closed.carried else ""
    return f"closed {closed.thread}: {kept}{counted(closed.exchanges, 'exchange')} summed up"
