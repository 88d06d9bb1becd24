"""What a team states about repositories that have no clone on this machine: `xscore shared follow`.

Each has a store of its own in the user's folder, which holds the team's memories and nothing else,
so that `--repo` and `index.also` read it as they read any other repository's. Nothing is ever sent
from it. Whether this login may read a repository is the server's to decide. Trade-off: there is no
code to check citations against, so none of its memories is stale here.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from xscore.extensions.shared.team.membership import (
    Membership,
    read_membership,
    write_membership,
)
from xscore.extensions.shared.team.sync import TeamSync, synchronise
from xscore.platform import database
from xscore.platform.errors import NothingMatched, StoreError, XscoreError
from xscore.settings.model import SharedSettings
from xscore.store.other_places import followed_root, followed_roots, name_of_followed
from xscore.store.store import Store


def follow(
    repository: str, by: str, settings: SharedSettings, *, user_data_dir: Path
) -> TeamSync:
    """Take what the team states about a repository, into a store of its own.

    Raises SharedUnavailable, also where the repository is closed to this login, and NothingMatched
    where nothing of it is shared.
    """
    root = followed_root(repository, user_data_dir)
    has_content = False
    try:
        with _opened(repository, user_data_dir) as store:
            membership = read_membership(store.connection)
            if membership is None:
                # Also where an earlier `follow` was killed before this line.
                with database.transaction(store.connection):
                    write_membership(store.connection, Membership(repository=repository, by=by))
            has_content = membership is not None and membership.synced_at > 0
            sync = _synchronise(store, settings)
            if not (has_content or sync.added):
                raise NothingMatched(
                    f"the team shares nothing of {repository} with you",
                    hint="Name it as the team does (`xscore shared` there), or ask for access.",
                )
    except XscoreError:
        if not has_content:
            shutil.rmtree(root.path, ignore_errors=True)
        raise
    return sync


def unfollow(repository: str, *, user_data_dir: Path) -> None:
    """Remove the store of a repository that was followed. Raises NothingMatched."""
    root = followed_root(repository, user_data_dir)
    if not root.store_file.exists():
        raise NothingMatched(
            f"{repository} is not followed", hint="`xscore shared follow` lists those that are."
        )
    shutil.rmtree(root.path)


def followed_names(user_data_dir: Path) -> list[str]:
    """Return the names of the repositories that are followed."""
    return sorted(map(name_of_followed, followed_roots(user_data_dir)))


def synchronise_followed(settings: SharedSettings, *, user_data_dir: Path) -> list[TeamSync]:
    """Pull what is new of every repository that is followed, or say why it cannot be read."""
    results: list[TeamSync] = []
    for repository in followed_names(user_data_dir):
        try:
            with _opened(repository, user_data_dir) as store:
                results.append(_synchronise(store, settings))
        except XscoreError as error:
            results.append(TeamSync(repository=repository, problem=error.message))
    return results


@contextmanager
def _opened(repository: str, user_data_dir: Path) -> Iterator[Store]:
    root = followed_root(repository, user_data_dir)
    try:
        root.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{root.path} cannot be made: {error.strerror}",
            hint="Remove whatever already exists at that path.",
        ) from error
    with Store.open(root, user_data_dir=user_data_dir, user_learning=False) as store:
        yield store


def _synchronise(store: Store, settings: SharedSettings) -> TeamSync:
    # Nothing was stated there, and nothing of it is this user's to send.
    return synchronise(store, replace(settings, memories="read"))
