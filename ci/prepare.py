"""Before the store is restored: where it is, its name in the cache, and whether it may be saved.

In a repository the store is in the git folder, where no commit writes. A checkout without git keeps
it in the tree, so one that was there before any step of this job is taken for one that came with
the code, and refused: a store holds scores. What the cache gives back was saved by a run that could
write to this branch or to one that this pull request goes to: GitHub keeps the caches of a pull
request to itself. A run whose event brings a stranger's code into the rights of the default branch
(`pull_request_target`, `workflow_run`, `issue_comment`) saves nothing. Trade-off: each run that
paid for something saves a whole store, and GitHub drops the ones that are longest unused.
"""

import os
import secrets
import sys
from pathlib import Path

from ci.runner import annotate, note, own_folder, own_pull_request, set_output
from xscore.platform.paths import find_root

OWN_EVENTS = ("push", "schedule", "workflow_dispatch")


def main() -> int:
    """Give the outputs `path`, `use`, `key`, `restore-keys`, `restore` and `save`; 2 where the code
    brings a store."""
    root = find_root(Path.cwd())
    store = root.store_dir
    if not root.claims_git and _was_there(store):
        annotate(
            "error",
            "xscore: a store came with the code",
            f"{store} was there before any step of this action, and the checkout has no git folder."
            " A store holds scores, and one that came with the code is never trusted: remove it.",
        )
        return 2
    _mark().write_text(str(Path.cwd()), "utf-8")
    use, prefix, schema = secrets.token_hex(4), f"xscore-{os.environ['RUNNER_OS']}-", _schema()
    set_output(
        "path", os.path.relpath(store) if store.is_relative_to(Path.cwd()) else str(store)
    )
    set_output("use", use)
    set_output("key", f"{prefix}s{schema}-{os.environ['GITHUB_RUN_ID']}-{use}")
    set_output(
        "restore-keys", "\n".join(f"{prefix}s{number}-" for number in range(schema, 0, -1))
    )
    set_output("restore", "false" if store.exists() else "true")
    saves = may_save(os.environ["GITHUB_EVENT_NAME"], own_pull_request())
    set_output("save", "true" if saves else "false")
    if not saves:
        note("this run may read the repository's store and saves none")
    return 0


def may_save(event_name: str, pull_request: int | None) -> bool:
    """Whether a store of this run may be kept: a branch's own run, or a pull request from this very
    repository."""
    return event_name in OWN_EVENTS or (
        event_name == "pull_request" and pull_request is not None
    )


def _was_there(store: Path) -> bool:
    """Whether something is in the place of the store that no earlier use in this job can have
    made."""
    seen_without = _mark().exists() and _mark().read_text("utf-8") == str(Path.cwd())
    return store.is_symlink() or (store.exists() and not seen_without)


def _mark() -> Path:
    """Says of which checkout it was seen, in this job, that no store came with it."""
    return own_folder() / "no-store-came"


def _schema() -> int:
    """The schema of a store; an older one is restored too, and migrated when it is opened."""
    from xscore.store.opening import SCHEMA

    return SCHEMA.version


if __name__ == "__main__":
    sys.exit(main())
