"""Other repositories of this user that a manifest here names: `xscore status` suggests them, since
nothing joins a turn unless the user says so.

A repository is named by its origin, as Go modules are, or by what its own manifest calls its
package. Trade-off: only manifests in the roots are read, by pattern, so the name of a package in a
description counts, too.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from xscore.platform.errors import XscoreError
from xscore.platform.files import FileRefused, opened_folder, read_file_under
from xscore.platform.git_folder import origin_url
from xscore.platform.paths import RepositoryRoot
from xscore.platform.repository_name import repository_name
from xscore.records.reports import SuggestedRepository
from xscore.store.other_places import find_other, known_roots, name_of_root

MANIFESTS = (
    "go.mod",
    "package.json",
    "pyproject.toml",
    "requirements.txt",
    "setup.cfg",
    "Cargo.toml",
    "composer.json",
    "Gemfile",
    "pom.xml",
)
MOST_BYTES = 200_000
"""How much of a manifest is read."""
MOST_SUGGESTED = 10
_OWN_NAME = {
    "go.mod": re.compile(r"(?m)^module[ \t]+\"?([^\s\"]{1,200})"),
    "package.json": re.compile(r"\"name\"[ \t]*:[ \t]*\"([@\w./-]{1,200})\""),
    "pyproject.toml": re.compile(r"(?m)^name[ \t]*=[ \t]*[\"']([\w.-]{1,200})[\"']"),
    "Cargo.toml": re.compile(r"(?m)^name[ \t]*=[ \t]*[\"']([\w.-]{1,200})[\"']"),
    "composer.json": re.compile(r"\"name\"[ \t]*:[ \t]*\"([\w./-]{1,200})\""),
}
_LEAST_NAME_CHARS = 3
"""Shortest name of a package that is looked for: a shorter one is in many texts by chance."""


def suggested_repositories(
    root: RepositoryRoot, *, user_data_dir: Path, already: tuple[str, ...] = ()
) -> tuple[SuggestedRepository, ...]:
    """Return the other repositories on this machine that manifests of this one name.

    already: the names and folders that the settings have.
    """
    texts = dict(_manifests(root.path))
    if not texts:
        return ()
    own_names = set(_package_names(texts))
    # `acme/lib`, `lib` and `../lib` may all mean the same one.
    joined_names: set[str] = set()
    for named in already:
        with suppress(XscoreError):
            place = find_other(named, root=root, user_data_dir=user_data_dir)
            if place is not None:
                joined_names.add(place.name)
    suggested: list[SuggestedRepository] = []
    for root_there in known_roots(user_data_dir):
        name = name_of_root(root_there, user_data_dir)
        if root_there.store_file == root.store_file or name in joined_names:
            continue
        names = set(_package_names(dict(_manifests(root_there.path))))
        names.add(repository_name(origin_url(root_there.path)))
        manifest = _naming(texts, names - own_names)
        if manifest:
            suggested.append(SuggestedRepository(name, manifest))
    return tuple(suggested[:MOST_SUGGESTED])


def _manifests(folder: Path) -> Iterator[tuple[str, str]]:
    with suppress(OSError), opened_folder(folder) as top:
        for name in MANIFESTS:
            with suppress(OSError, FileRefused):
                start = read_file_under(top, name, max_bytes=MOST_BYTES, start_only=True)
                yield name, start.decode("utf-8", "replace")


def _package_names(texts: dict[str, str]) -> list[str]:
    names: list[str] = []
    for manifest, pattern in _OWN_NAME.items():
        match = pattern.search(texts.get(manifest, ""))
        if match:
            names.append(match[1])
    return names


def _naming(texts: dict[str, str], names: set[str]) -> str:
    """Return the manifest that has one of these names as a whole word; empty: none."""
    for manifest, text in texts.items():
        for name in names:
            is_word = rf"(?<![\w./@-]){re.escape(name)}(?![\w-])"
            if len(name) >= _LEAST_NAME_CHARS and re.search(is_word, text):
                return manifest
    return ""
