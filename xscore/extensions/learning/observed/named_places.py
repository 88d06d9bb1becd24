"""What services, packages, teams and people are called, and the folder that each name means.

Read from compose files, CODEOWNERS and the manifests of folders, line by line. A name that says the
same as its folder adds nothing and is left out. Trade-off: an owner of many folders, and a
service without a folder of its own, name no place.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

MOST_NAMES = 200
"""Most names read of one file."""
MOST_PLACES = 3
"""Most folders that one name may mean."""
MOST_NAME_CHARS = 80
_COMPOSE = re.compile(r"(?:[\w.-]+/)?(?:docker-)?compose[\w.-]*\.ya?ml\Z")
_OWNERS = frozenset(
    {"CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"}
)
_SERVICE = re.compile(r"([ ]+)([\w.-]+):[ ]*(?:#.*)?$")
_BUILD = re.compile(r"[ ]+(?:build|context):[ ]*[\"']?([\w./-]+)[\"']?[ ]*(?:#.*)?$")
_FOLDER = re.compile(r"[\w./@+()\[\]-]{1,120}")
"""Matches a folder of letters and signs that are safe to show: judges read it with the task, as
trusted text."""
_GO_MODULE = re.compile(r"^module\s+\"?([^\s\"]+)", re.MULTILINE)
_NAME_LINE = re.compile(r"^name[ \t]*=[ \t]*[\"']([^\"'\n]{1,80})[\"']", re.MULTILINE)
_JSON_NAME = re.compile(r"^[ \t]{0,4}\"name\"[ \t]*:[ \t]*\"([^\"\n]{1,80})\"", re.MULTILINE)
_NAMES_IN: Mapping[str, re.Pattern[str]] = {
    "package.json": _JSON_NAME,
    "composer.json": _JSON_NAME,
    "pyproject.toml": _NAME_LINE,
    "Cargo.toml": _NAME_LINE,
    "go.mod": _GO_MODULE,
}


class NamedPlace(Struct, frozen=True, array_like=True):
    """A name, in lower case with single spaces, and the folder that it means."""

    name: str
    place: str
    """Folder relative to the root, with `/` at its end."""


def names_places(path: str) -> bool:
    """Whether a file other than a manifest says what folders are called."""
    return path in _OWNERS or _COMPOSE.match(path) is not None


def named_places(path: str, text: str) -> list[NamedPlace]:
    """Return the names that a file gives to folders."""
    if path in _OWNERS:
        names = _owned(text)
    elif _COMPOSE.match(path):
        names = _services(path, text)
    else:
        names = _package(path, text)
    return list(dict.fromkeys(names))[:MOST_NAMES]


def _services(path: str, text: str) -> Iterator[NamedPlace]:
    """Yield the services of a compose file that are built from a folder."""
    is_inside = False
    indent = 0
    service = ""
    for line in text.split("\n"):
        if line[:1].isalpha():
            is_inside = line.startswith("services:")
            indent = 0
            service = ""
            continue
        if not is_inside:
            continue
        key = _SERVICE.match(line)
        if key and (not indent or len(key[1]) == indent):
            indent = len(key[1])
            service = key[2]
            continue
        build = _BUILD.match(line)
        if service and build:
            folder = posixpath.normpath(posixpath.join(posixpath.dirname(path), build[1]))
            yield from _with_kind(service, folder, "service")


def _owned(text: str) -> Iterator[NamedPlace]:
    """Yield teams and people with the few folders that are theirs."""
    folders: dict[str, dict[str, None]] = {}
    for line in text.split("\n"):
        pattern, *owners = line.partition("#")[0].split()[:20] or [""]
        folder = pattern.strip("/").removesuffix("/**").removesuffix("/*").rstrip("/")
        if not folder or "*" in folder or pattern.startswith("["):
            continue
        for owner in owners:
            if owner.startswith("@"):
                folders.setdefault(owner.rpartition("/")[2].lstrip("@"), {})[folder] = None
    for owner, owned in folders.items():
        if len(owned) > MOST_PLACES:
            continue
        for folder in owned:
            yield from _with_kind(owner, folder, "team")


def _package(path: str, text: str) -> Iterator[NamedPlace]:
    """Yield what a manifest calls its folder."""
    folder, _, file = path.rpartition("/")
    pattern = _NAMES_IN.get(file)
    name = pattern.search(text) if pattern and folder else None
    if name:
        yield from _with_kind(name[1].rpartition("/")[2], folder, "package")


def _with_kind(name: str, folder: str, kind: str) -> Iterator[NamedPlace]:
    """Yield a name as people use it: alone and with what it names."""
    spoken = spoken_name(name)
    is_inside = folder != "." and not folder.startswith(("..", "/"))
    if not (is_inside and _FOLDER.fullmatch(folder)):
        return
    if not spoken or len(name) > MOST_NAME_CHARS:
        return
    # The words of the folder are found as they are.
    if set(spoken.split()) <= set(spoken_name(folder).split()):
        return
    place = f"{folder}/"
    yield NamedPlace(spoken, place)
    if not spoken.endswith(f" {kind}"):
        yield NamedPlace(f"{spoken} {kind}", place)


def spoken_name(name: str) -> str:
    """Return the words of a name, in lower case with single spaces."""
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])|[^\W_a-zA-Z0-9]+", name)
    return " ".join(words).lower()
