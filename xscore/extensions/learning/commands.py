"""`memory consolidate | audit | feedback | suggest | mute` and `session close`: what is learned,
and keeping it tidy.

Pages and exit codes alone; what is merged, promoted or suggested is decided in modules of their
own. Nothing is sent to a model.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import DRY_RUN
from xscore.cli.session import current_session
from xscore.cli.settings_and_store import opened_store
from xscore.cli.text_layout import bold, faint, render_facts
from xscore.extensions.learning import audit, user_preferences
from xscore.extensions.learning.consolidate import (
    ClosedSession,
    close_branches,
    close_session,
    merged_branches,
)
from xscore.extensions.learning.consolidate import consolidate as consolidate_memories
from xscore.extensions.learning.draft import SCOPES, Consolidation
from xscore.extensions.learning.feedback import Signal, give_feedback
from xscore.extensions.learning.user_preferences import Suggestions
from xscore.pipeline.json_form import record_json
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import counted, one_line

if TYPE_CHECKING:
    from xscore.store.store import Store

USER_SIGNALS = (Signal.ACCEPT, Signal.REJECT, Signal.OVERRIDE)
"""Signals given by a person; adoption is observed."""
FINDINGS_SHOWN = 10
NEEDS_DOING = 1
"""Exit code of an audit."""
_HEADINGS = {
    "secret": ("suspected secrets", "xscore memory delete ID"),
    "stale": ("stale", "xscore memory update ID --cite PATH:LINES, or delete ID"),
    "drifted": ("name what no longer exists", "xscore memory update ID, or delete ID"),
    "duplicate": ("duplicates", "xscore memory consolidate, or delete all but the first"),
    "near_duplicate": (
        "near duplicates",
        "xscore memory consolidate, or delete all but the first",
    ),
    "outdated": ("outdated lines", "correct the file"),
    "contradicted": ("contradicted by the files", "correct the document, or the file"),
    "over_cap": (
        "over their caps",
        "xscore memory consolidate, or raise memory.max_rows, memory.max_bytes",
    ),
}


@command(DRY_RUN)
@click.option(
    "--scope",
    type=click.Choice([*SCOPES, "all"]),
    default="all",
    show_default=True,
    help="Whose memories: the session's, the project's, yours.",
)
def consolidate(scope: str, flags: Flags) -> None:
    """Tidy up the memories; run it nightly, or whenever you like.

    Lessons of closed sessions and the stack that manifests show become the project's; what several
    projects share becomes yours. Duplicates are merged, confidence fades, and what is long unused
    is archived or erased.
    """
    scopes = tuple(name for name in SCOPES if scope in (name, "all"))
    with opened_store(flags, make=False) as store:
        done = consolidate_memories(
            store, store.settings, now=store.clock(), scopes=scopes, dry_run=flags.dry_run
        )
    flags.terminal.notes([f"skipped {note}" for note in done.skipped])
    flags.terminal.print_result(done, _render_consolidation)


def _render_consolidation(done: Consolidation) -> str:
    considered = counted(done.considered, "memory", "memories")
    if not done.actions:
        return f"nothing to do · {considered} considered"
    lines: list[str] = []
    for action in done.actions:
        name = next(iter(action.memory_ids), "-")
        title = ""
        if action.title:
            title = f"  {one_line(action.title)}"
        lines.append(f"{action.kind:<9} {action.scope:<7} {name}{title}")
        lines.append(f"{'':17} {one_line(action.why)}")
    counts = " · ".join(f"{count:,} {kind}" for kind, count in done.counts.items())
    verb = "would do" if done.dry_run else "done"
    return "\n".join([*lines, f"{verb}  {counts} · {considered} considered"])


@command()
def audit_memories(flags: Flags) -> int:
    """Find duplicates, stale memories and the citation that changed, suspected secrets, layers over
    their caps; memories and lines of AGENTS.md, CLAUDE.md and decision records that name what no
    longer exists; statements of README and CONTRIBUTING that the files contradict.

    Exit code 1 if something needs attention. Nothing is sent or erased.
    """
    with opened_store(flags, make=False) as store:
        report = audit.audit_memories(store, store.settings, now=store.clock())
    shown = FINDINGS_SHOWN
    if flags.terminal.verbose:
        shown = len(report.findings)
    flags.terminal.print_result(report, _render_audit(report, shown=shown))
    if report.is_clean:
        return 0
    return NEEDS_DOING


def _render_audit(report: audit.MemoryAudit, *, shown: int) -> str:
    groups: dict[str, list[audit.AuditFinding]] = {}
    for finding in report.findings:
        groups.setdefault(finding.problem, []).append(finding)
    lines: list[str] = []
    for problem, findings in groups.items():
        heading, remedy = _HEADINGS[problem]
        lines.append(f"{bold(f'{heading}: {len(findings):,}')}  {faint(remedy)}")
        lines += map(_finding_line, findings[:shown])
        if len(findings) > shown:
            lines.append(f"  … and {len(findings) - shown:,} more (--verbose)")
    checked = counted(report.looked_at, "memory", "memories")
    lines.append(f"{checked} checked; {_attention(report)}.")
    return "\n".join(lines)


def _finding_line(finding: audit.AuditFinding) -> str:
    names: list[str] = []
    for memory_id, title in zip(finding.ids, finding.titles, strict=True):
        names.append(f"{memory_id} “{title}”")
    if not names:
        return one_line(f"  {finding.because}")
    return one_line(f"  {', '.join(names)}: {finding.because}")


def _attention(report: audit.MemoryAudit) -> str:
    count = len(report.findings)
    if not count:
        return "nothing needs attention"
    return f"{count:,} {'needs' if count == 1 else 'need'} attention"


@command()
@click.argument("memory_id", metavar="ID")
@click.argument(
    "signal", metavar="SIGNAL", type=click.Choice([str(signal) for signal in USER_SIGNALS])
)
def record_feedback(memory_id: str, signal: str, flags: Flags) -> None:
    """Adjust the confidence of memory ID: accept, reject, or override (known, but not followed
    this time).

    The amounts are `memory.feedback`; confidence stays between 0 and 1.
    """
    with opened_store(flags) as store:
        feedback = give_feedback(store, memory_id, Signal(signal), now=store.clock())
    change = f"confidence {feedback.before:.2f} -> {feedback.after:.2f} ({feedback.signal})"
    flags.terminal.print_result(
        feedback, f"{feedback.id}  {one_line(feedback.title)}\n{change}"
    )


@command()
@click.argument("key", required=False, default="")
@click.option("--list", "show", is_flag=True, help="List the muted keys.")
@click.option("--undo", is_flag=True, help="Suggest KEY again.")
def mute_key(key: str, show: bool, undo: bool, flags: Flags) -> None:
    """Stop suggesting KEY, in any project; `--undo` takes it back."""
    if show == bool(key) or (show and undo):
        raise UsageError(
            "give either a key or --list", hint="`xscore memory mute orm`, or `--list`."
        )
    with opened_store(flags) as store:
        if key:
            has_changed = user_preferences.set_muted(
                store, key, muted=not undo, now=store.clock()
            )
            # Muting a key twice is not an error; unmuting a key that is not muted is.
            if undo and not has_changed:
                raise NothingMatched(
                    f"{key} is not muted", hint="`xscore memory mute --list` shows what is."
                )
        muted = user_preferences.muted_keys(store)
    if show:
        words = "\n".join(map(one_line, muted))
    else:
        words = f"{one_line(key)} is {'suggested again' if undo else 'muted'}"
    flags.terminal.print_result({"muted": list(muted)}, words, none="nothing is muted")


@command()
def suggest_preferences(flags: Flags) -> None:
    """Suggest preferences that you have in other projects and not yet in this one.

    Nothing is added automatically: `xscore memory add` adds one, `xscore memory mute KEY` silences
    one.
    """
    with opened_store(flags, make=False) as store:
        suggestions = user_preferences.suggest_preferences(
            store, at_least=store.settings.inferred_confidence
        )
    flags.terminal.print_result(suggestions, _render_suggestions, none="nothing to suggest")


def _render_suggestions(suggestions: Suggestions) -> str:
    if not suggestions.suggestions:
        return ""
    rows = []
    for suggestion in suggestions.suggestions:
        where = ""
        if suggestion.projects:
            where = f", in {counted(suggestion.projects, 'project')}"
        rows.append(
            (
                one_line(suggestion.key),
                f"{one_line(suggestion.value)}  (confidence {suggestion.confidence:.2f}{where})",
            )
        )
    return f"{one_line(suggestions.text)}\n\n{render_facts(rows)}"


@command()
@click.option(
    "--branch", metavar="NAME", help="All open sessions of this branch, even if it is gone."
)
@click.option(
    "--merged",
    is_flag=True,
    help="All open sessions of the branches that the last merge brought in.",
)
def close_sessions(branch: str | None, merged: bool, flags: Flags) -> None:
    """End this branch's session: what it learned becomes the project's, its exchanges get one
    summary.

    The next turn begins another one. `--merged -q` is for a post-merge hook: it prints nothing, and
    it is not an error if there is nothing to close.
    """
    if merged and branch is not None:
        raise UsageError("--branch and --merged exclude each other", hint="Give one of them.")

    with opened_store(flags) as store:
        closed = _close_requested(store, branch, merged=merged)
    if not closed and not merged:
        where = "this branch"
        if branch is not None:
            where = f"the branch {branch}"
        raise NothingMatched(
            f"there is no open session on {where}", hint="`xscore session list` lists all."
        )
    is_one = branch is None and not merged
    if is_one:
        body = record_json(closed[0])
    else:
        body = {"closed": [*map(record_json, closed)]}
    if flags.terminal.as_json or not flags.terminal.quiet:
        none = "the last merge brought in no branch with an open session"
        flags.terminal.print_result(body, "\n".join(map(_closed_line, closed)), none=none)


def _close_requested(
    store: "Store", branch: str | None, *, merged: bool
) -> tuple[ClosedSession, ...]:
    if merged or branch is not None:
        if branch is None:
            branches = merged_branches(store.root.path)
        else:
            branches = (branch,)
        return close_branches(store, branches, now=store.clock())
    session = current_session(store)
    if session:
        return (close_session(store, session.thread, now=store.clock()),)
    return ()


def _closed_line(closed: ClosedSession) -> str:
    kept = ""
    if closed.carried:
        kept = f"{len(closed.carried)} kept for the project, "
    return f"closed {closed.thread}: {kept}{counted(closed.exchanges, 'exchange')} summed up"
