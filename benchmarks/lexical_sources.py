"""Source trees for the lexical benchmarks: fetched by name and version, checked, unpacked, indexed.

PyPI sources come by `unearth`, npm packages by `npm pack`; both use the index they are configured
for. A tree stays in the cache folder; its store is built again each time. Not a benchmark itself.
"""

import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from xscore.indexer.index import index_repository
from xscore.platform.hashing import digest
from xscore.platform.paths import RepositoryRoot, find_root
from xscore.records.candidates import Candidate
from xscore.records.memory import Kind
from xscore.settings import IndexSettings
from xscore.store.store import Store

ENTITIES = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS})


class Artifact(Struct, frozen=True):
    """A released source archive."""

    registry: str
    package: str
    version: str
    file: str
    sha256: str


class Pool(Struct, frozen=True):
    """The memories of a tree with their term vectors."""

    candidates: tuple[Candidate, ...]
    vectors: list[tuple[str, bytes]]

    def of_kinds(self, kinds: Iterable[Kind]) -> "Pool":
        """Return the part of the pool with these kinds."""
        kept_kinds = frozenset(kinds)
        return Pool(
            tuple(candidate for candidate in self.candidates if candidate.kind in kept_kinds),
            self.vectors,
        )

    def without(self, paths: re.Pattern[str]) -> "Pool":
        """Return the part of the pool that is in other files than these."""
        return Pool(tuple(c for c in self.candidates if not paths.search(c.path)), self.vectors)


def tree_of(artifact: Artifact, cache: Path) -> Path:
    """Return the unpacked tree of an artifact, fetching it where the cache has none."""
    tree = cache / "trees" / artifact.file
    if not tree.exists():
        unpack(fetch(artifact, cache / "artifacts"), tree)
    return tree


def fetch(artifact: Artifact, folder: Path) -> Path:
    """Return the archive, downloaded where it is not there yet.

    Ends the program when its checksum differs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / artifact.file
    if not archive.exists():
        if artifact.registry == "npm":
            command = [
                "npm",
                "pack",
                "--silent",
                f"{artifact.package}@{artifact.version}",
                "--pack-destination",
            ]
            command.append(str(folder))
        else:
            command = [sys.executable, "-m", "unearth", "--no-binary", "-d", str(folder)]
            command.append(f"{artifact.package}=={artifact.version}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not archive.exists():
            sys.exit(f"{artifact.file} could not be fetched: {done.stderr.strip()[-400:]}")
    if hashlib.sha256(archive.read_bytes()).hexdigest() != artifact.sha256:
        sys.exit(f"{archive} has another checksum than it should; remove it and try again")
    return archive


def unpack(archive: Path, tree: Path) -> None:
    """Write the regular files of an archive below `tree`, without the archive's top folder and with
    LF line ends."""
    partial = tree.with_name(tree.name + ".partial")
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            parts = PurePosixPath(member.name).parts[1:]
            if not member.isfile() or not parts or ".." in parts:
                continue
            target = partial.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            extracted = opened.extractfile(member) or io.BytesIO()
            target.write_bytes(extracted.read().replace(b"\r\n", b"\n"))
    partial.rename(tree)


@contextmanager
def store_of(tree: Path, cache: Path) -> Iterator[Store]:
    """Index a tree into a new store in the cache folder, never into the tree's own."""
    place = tree.resolve()
    store_dir = cache.resolve() / "stores" / digest(str(place))
    # Its vectors may be of an earlier way to read words.
    shutil.rmtree(store_dir, ignore_errors=True)
    place_root = find_root(place)
    plain = RepositoryRoot(path=place, git_dir=None, store_dir=store_dir)
    root = replace(place_root, store_dir=store_dir) if place_root.path == place else plain
    with closing(Store.open(root, user_data_dir=cache.resolve() / "user")) as store:
        index_repository(
            store.connection, root, IndexSettings(git=root.is_git), now=time.time()
        )
        yield store


def pool_of(tree: Path, cache: Path) -> Pool:
    """Index a tree and return its memories."""
    with store_of(tree, cache) as store:
        return Pool(store.pool(), store.term_vectors())
