"""Before the store is restored: its name in the cache, whether it may be saved, and that none came with the code.

A store holds scores, so one that came with a commit is refused. What the cache gives back was saved by a run that could
write to this branch or to one that this pull request goes to: GitHub keeps the caches of a pull request to itself.
Where no git can say what came with the code, a store that was there before any step of this job is taken for one that
did. A run whose event brings a stranger's code into the rights of the default branch (`pull_request_target`,
`workflow_run`, `issue_comment`) saves nothing. Trade-off: each run that paid for something saves a whole store, and
GitHub drops the ones that are longest unused.
"""

import os
import secrets
import subprocess
import sys
from pathlib import Path

from ci.runner import annotate, note, own_folder, own_pull_request, set_output

STORE = Path(".xscore")
OWN_EVENTS = ("push", "schedule", "workflow_dispatch")


def main() -> int:
    """Give the outputs `use`, `key`, `restore-keys`, `restore` and `save`; 2 where the checkout brings a store."""
    if _came_with_the_code():
        annotate(
            "error",
            "xscore: a store came with the code",
            f"{STORE} is in the checkout, or was there before any step of this action and no git can say whence."
            " A store holds scores, and one from a commit is never believed:"
            f" remove it with `git rm -r --cached {STORE}`.",
        )
        return 2
    _mark().write_text(str(Path.cwd()), "utf-8")
    use, prefix, schema = secrets.token_hex(4), f"xscore-{os.environ['RUNNER_OS']}-", _schema()
    set_output("use", use)
    set_output("key", f"{prefix}s{schema}-{os.environ['GITHUB_RUN_ID']}-{use}")
    set_output("restore-keys", "\n".join(f"{prefix}s{number}-" for number in range(schema, 0, -1)))
    set_output("restore", "false" if STORE.exists() else "true")
    saves = may_save(os.environ["GITHUB_EVENT_NAME"], own_pull_request())
    set_output("save", "true" if saves else "false")
    if not saves:
        note("this run may read the repository's store and saves none")
    return 0


def may_save(event_name: str, pull_request: int | None) -> bool:
    """Whether a store of this run may be kept: a branch's own run, or a pull request from this very repository."""
    return event_name in OWN_EVENTS or (event_name == "pull_request" and pull_request is not None)


def _came_with_the_code() -> bool:
    """Whether the store or a link in its place is of a commit; where none can say, whether it is not of this job."""
    if STORE.is_symlink():
        return True
    committed = _committed()
    if committed is None:
        return STORE.exists() and not (_mark().exists() and _mark().read_text("utf-8") == str(Path.cwd()))
    return bool(committed)


def _committed() -> str | None:
    """What git lists of the store; None: there is no git, or no repository that it can read."""
    in_any_case = f":(icase){STORE}"  # a file system may take `.XSCORE` for it
    # in a container the owner may be another
    listing = ["git", "-c", "safe.directory=*", "ls-files", "--", in_any_case]
    try:
        found = subprocess.run(listing, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return found.stdout.strip() if found.returncode == 0 else None


def _mark() -> Path:
    """Says of which checkout it was seen, in this job, that no store came with it."""
    return own_folder() / "no-store-came"


def _schema() -> int:
    """The schema of a store; an older one is restored too, and migrated when it is opened."""
    from xscore.store.opening import SCHEMA

    return SCHEMA.version


if __name__ == "__main__":
    sys.exit(main())
