"""Read the history of a repository, and write the memories of its commits.

One `git log` reads all messages, one the hunk heads of the newest. Rows are written in batches,
newest first, so that a deadline leaves the older ones to the next run. `commits` decides when.
Trade-off: a run that is cut short lists the whole history again the next time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.indexer.commit_messages import (
    CommitMessage,
    commit_subject,
    read_message,
    why_left_out,
)
from xscore.platform import git_log
from xscore.platform.database import transaction
from xscore.platform.git import is_shallow
from xscore.platform.git_log import LoggedCommit
from xscore.platform.text import ellipsize, one_line
from xscore.records.memory import (
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryOrigin,
    MemorySource,
    commit_name,
)
from xscore.store import commit_rows
from xscore.store.commit_rows import CommitsMade, CommitState
from xscore.store.memory_writer import make_memory, put_memories, truncate
from xscore.store.personal_data import redact_said
from xscore.store.redaction import find_literals

if TYPE_CHECKING:
    from xscore.indexer.index_run import IndexRun

BATCH = 250
"""Commits written in one transaction."""
WITH_HUNKS = 100
"""Number of the newest commits of a run whose hunk heads are read: the patches of more take
longer than all messages."""
MOST_HEADS = 8
MOST_NAMED = 12
"""Most files that a memory names; further ones are counted."""
TITLE_CHARS, TEXT_CHARS, CARD_CHARS = 160, 6_000, 1_800
"""Most characters of the memory's title, of the text for an answering model, and of the card
for a judge."""
AUTHOR_CHARS = 60
SHALLOW = (
    "this is a shallow clone: only the commits that it contains become memories (`git fetch"
    " --unshallow` gets the rest)"
)


class _TellingCommit(Struct, frozen=True):
    """A commit that says something."""

    commit: LoggedCommit
    message: CommitMessage


class _History(Struct, frozen=True):
    """What was read of the history."""

    state: CommitState
    """State of the commits once the memories of these are written."""
    telling: Sequence[_TellingCommit]
    """Commits that become memories, newest first."""
    is_whole: bool
    """Whether the whole history was read, not only what is new."""


def update_history(
    run: "IndexRun", state: CommitState, *, head: str, limit: int, rules: str, continues: bool
) -> None:
    """Read the history, write the memories that are missing and remove those that are gone. Where
    git fails, nothing changes.

    state: what was known.
    rules: by which memories are made.
    continues: what is new is enough, unless the history was rewritten.
    """
    continues = continues and git_log.is_ancestor(run.root.path, state.head, head)
    history = _read_history(run, state, head=head, limit=limit, continues=continues)
    if history is None:
        return
    if history.is_whole:
        _remove_gone(run, history, rules=rules)
    new_state = replace(history.state, is_complete=_write_missing(run, history.telling))
    connection = run.connection
    with transaction(connection):
        run.commits_removed += commit_rows.remove_beyond(connection, limit)
        memories = commit_rows.count_commits(connection)
        commit_rows.write_state(connection, new_state)
        commit_rows.write_made(connection, CommitsMade(rules, memories))


def _read_history(
    run: "IndexRun", state: CommitState, *, head: str, limit: int, continues: bool
) -> _History | None:
    """Read what is new since the last run, or all. continues: only what is new is needed."""
    root = run.root.path
    revisions = [head, *commit_rows.heads_elsewhere(run.connection)]
    if continues:
        revisions = [head, f"^{state.head}"]
    commits = git_log.read_commits(root, revisions, limit=limit)
    if commits is None:
        return None
    left_out = Counter(state.left_out if continues else {})
    telling: list[_TellingCommit] = []
    own_subjects = {commit_subject(commit.message) for commit in commits if commit.parents <= 1}
    for commit in commits:
        is_merge = commit.parents > 1
        message = read_message(commit.message, is_merge=is_merge)
        reason = why_left_out(commit, message)
        # A forge repeats the subject of a branch's only commit.
        if not reason and is_merge and commit_subject(message.text) in own_subjects:
            reason = "merge"
        if reason:
            left_out[reason] += 1
        else:
            telling.append(_TellingCommit(commit, message))
    shallow = is_shallow(root)
    if shallow and not state.is_shallow:
        run.notes.append(SHALLOW)
    new_state = CommitState(head=head, limit=limit, left_out=dict(left_out), is_shallow=shallow)
    return _History(new_state, telling, is_whole=not continues)


def _remove_gone(run: "IndexRun", history: _History, *, rules: str) -> None:
    """Remove the memories of commits that are no longer reached, and those of other rules."""
    connection = run.connection
    keep: list[str] = []
    if commit_rows.read_made(connection).rules == rules:
        keep = [telling.commit.hash for telling in history.telling]
    with transaction(connection):
        run.commits_removed += commit_rows.remove_commits(connection, keep=keep)
        # Until all is written, no other process takes it for whole.
        commit_rows.write_state(connection, replace(history.state, is_complete=False))
        commit_rows.write_made(connection, CommitsMade(rules))


def _write_missing(run: "IndexRun", telling: Sequence[_TellingCommit]) -> bool:
    """Write the memories that are missing, newest first; return whether all were written before the
    deadline."""
    connection = run.connection
    stored = commit_rows.stored_commits(connection)
    missing = [entry for entry in telling if entry.commit.hash not in stored]
    newest = [entry.commit.hash for entry in missing[:WITH_HUNKS] if entry.commit.parents <= 1]
    if newest:
        heads = git_log.hunk_heads(run.root.path, newest, limit=MOST_HEADS)
    else:
        heads = {}
    for start in range(0, len(missing), BATCH):
        if run.is_late:
            return False
        drafts = _make_memories(run, missing[start : start + BATCH], heads)
        memories = commit_rows.without_erased(connection, drafts)
        with transaction(connection):
            put_memories(connection, memories)
        run.commits_added += len(memories)
    return True


def _make_memories(
    run: "IndexRun", batch: Sequence[_TellingCommit], heads: Mapping[str, tuple[str, ...]]
) -> list[Memory]:
    """Return the memories of these commits, redacted. heads: of their hunks, by hash."""
    texts: list[str] = []
    for telling in batch:
        text = _text_of(telling, heads.get(telling.commit.hash, ()))
        texts.append(_fit_to_cut(run, text, CARD_CHARS))
    names = [f"{telling.message.subject}\n{telling.commit.author}" for telling in batch]
    # Searched at once: one by one it takes several times as long.
    literals = find_literals([*texts, *names], prose=True)
    memories: list[Memory] = []
    for telling, text in zip(batch, texts, strict=True):
        commit = telling.commit
        subject = _fit_to_cut(run, telling.message.subject, TITLE_CHARS)
        author = _fit_to_cut(run, commit.author, AUTHOR_CHARS)
        # A date may lie in the future, or before there were computers.
        at = min(commit.at, run.now)
        memory, secrets = make_memory(
            layer=Layer.GOVERNANCE,
            kind=Kind.COMMIT,
            title=f"{commit_name(commit.hash)}: {ellipsize(subject, TITLE_CHARS)}",
            text=truncate(text, TEXT_CHARS),
            # A message that is short enough is its own card: it need not be redacted twice.
            card=truncate(text, CARD_CHARS) if len(text) > CARD_CHARS else "",
            origin=MemoryOrigin.COMMIT,
            place=commit.hash,
            details=MemoryDetails(author=ellipsize(author, AUTHOR_CHARS)),
            source=MemorySource.INDEX,
            created_at=at,
            updated_at=at,
            allow_pii=run.allow_pii,
            literals=literals,
        )
        run.secrets += secrets
        memories.append(memory)
    return memories


def _fit_to_cut(run: "IndexRun", text: str, limit: int) -> str:
    """Return a text that may be cut to `limit` characters: redacted if it will be, since a cut
    through a secret leaves a half that is not recognized."""
    if len(text) <= limit:
        return text
    redacted = redact_said(text, allow_pii=run.allow_pii)
    run.secrets += redacted.count
    return redacted.text


def _text_of(telling: _TellingCommit, heads: Sequence[str]) -> str:
    """Return message, files and where they changed: what the memory says."""
    commit = telling.commit
    parts = [telling.message.text]
    if commit.files:
        named = ", ".join(map(one_line, commit.files[:MOST_NAMED]))
        further = commit.file_count - len(commit.files[:MOST_NAMED])
        parts.append(f"Files: {named}" + (f" and {further:,} more" if further else ""))
    if heads:
        parts.append(f"In: {'; '.join(one_line(head) for head in heads)}")
    return "\n\n".join(parts)
