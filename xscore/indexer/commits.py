"""Bring the memories of commits up to date: one for each whose message says something.

In most runs HEAD is where it was, and a file of git says so. After a commit only what is new is
read; after a rewritten history or another branch all is listed again, what no worktree reaches any
more goes, and the rest stays. `history` reads and writes; it is loaded for that alone. Trade-off:
worktrees of one repository share these memories, so each has those of the others' branches.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.platform.database import transaction
from xscore.platform.git import commit_named
from xscore.platform.git_folder import head_commit
from xscore.records.indexing import CommitCounts
from xscore.store import commit_rows
from xscore.store.commit_rows import CommitsMade, CommitState

if TYPE_CHECKING:
    from xscore.indexer.index_run import IndexRun

RULES = "1"
"""Version of the rules. Increase it when the same commit would become another memory: all are
made again."""


def update_commits(run: "IndexRun") -> CommitCounts:
    """Add the commits that are new, and remove those that are no longer reached.

    Raises StoreError, StoreDamaged.
    """
    connection = run.connection
    state = commit_rows.read_state(connection)
    latest = commit_rows.read_made(connection)
    limit = run.settings.commits if run.settings.git else 0
    head = _head_of(run) if limit else ""
    if not head:
        if state.head or (latest.memories and not limit):
            _forget(run, is_switched_off=not limit)
        return CommitCounts()
    rules = f"{RULES} {run.allow_pii}"
    # Counted because a rebuilt store may lack them, and one may have been erased.
    is_sound = (
        latest.rules == rules and commit_rows.count_commits(connection) == latest.memories
    )
    is_current = (state.head, state.limit, state.is_complete) == (head, limit, True)
    if is_sound and is_current:
        return commit_rows.commit_counts(connection)
    from xscore.indexer.history import update_history  # in most runs no commit is new

    may_continue = is_sound and state.is_complete and state.limit == limit and bool(state.head)
    update_history(run, state, head=head, limit=limit, rules=rules, continues=may_continue)
    counts = commit_rows.commit_counts(connection)
    return replace(counts, added=run.commits_added, removed=run.commits_removed)


def _head_of(run: "IndexRun") -> str:
    """Return the commit of HEAD; empty without git, and where there is none yet."""
    if run.root.git_dir is None:
        return ""
    head = head_commit(run.root.git_dir)
    if head:
        return head
    # Its branches are not kept in files, or there is no commit.
    return commit_named(run.root.path, "HEAD")


def _forget(run: "IndexRun", *, is_switched_off: bool) -> None:
    """Forget the history of this worktree, with all memories where no other needs them."""
    connection = run.connection
    with transaction(connection):
        commit_rows.write_state(connection, CommitState())
        if is_switched_off or not commit_rows.heads_elsewhere(connection):
            commit_rows.remove_commits(connection)
            commit_rows.write_made(connection, CommitsMade())
