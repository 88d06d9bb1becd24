"""Real source trees from the package index: completely indexed, linked, and searched.

A released Python source archive and an npm package are downloaded by name and version into
`.cache/artifacts`, checked by their hash, and unpacked for the run; nothing in them is executed.
Without an index the tests are skipped. The questions guard against a fall; how often the lexical
judge is right is measured in `benchmarks/`.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import pytest
from msgspec import Struct

from xscore.indexer.index import index_repository
from xscore.platform.paths import find_root, native_name
from xscore.records.candidates import Candidate
from xscore.records.indexing import IndexReport
from xscore.records.judgment import Judgment
from xscore.records.memory import Relation
from xscore.records.turn import Turn
from xscore.scorer.lexical import LexicalJudge
from xscore.settings import IndexSettings, SelectionSettings
from xscore.store.store import Store

pytestmark = [pytest.mark.verify, pytest.mark.timeout(600)]

CHECKOUT = Path(__file__).parents[2]
ARTIFACTS = CHECKOUT / ".cache" / "artifacts"
THRESHOLD = SelectionSettings().lexical_threshold


class Release(Struct, frozen=True):
    """A released archive and its questions."""

    registry: str
    package: str
    version: str
    file: str
    sha256: str
    questions: Mapping[str, str]
    """Question -> the entity that should come first."""


FLASK = Release(
    "pypi",
    "flask",
    "3.1.3",
    "flask-3.1.3.tar.gz",
    "0ef0e52b8a9cd932855379197dd8f94047b359ca0a78695144304cb45f87c9eb",
    {
        "where is the signed session cookie read from the request?": (
            "SecureCookieSessionInterface.open_session"
        ),
        "send a file to the browser as an attachment": "send_file",
        "make a response out of what a view returned": "Flask.make_response",
        "load configuration from environment variables with a prefix": "Config.from_prefixed_env",
        "flash a message to be shown on the next request": "flash",
    },
)
FASTIFY = Release(
    "npm",
    "fastify",
    "5.6.2",
    "fastify-5.6.2.tgz",
    "a32c4e9bf1315cad4ccae07d54f27787d4f0be0a4190ad7693a2950c044d42dd",
    {
        "validate the querystring and headers of a request against the schema": "validate",
        "compile the response serializer for a status code": "compileSchemasForSerialization",
        "serialize an error to json when there is no custom handler": "fallbackErrorHandler",
        "create a child logger for a request": "createChildLogger",
    },
)


class Tree(Struct, frozen=True):
    """An unpacked release, indexed in a new store."""

    release: Release
    folder: Path
    store: Store
    first: IndexReport

    def ask(self, task: str) -> list[tuple[Candidate, Judgment]]:
        """Judge the whole pool, best first."""
        pool = self.store.pool()
        by_content = {candidate.content_hash: candidate for candidate in pool}
        judge = LexicalJudge(self.store.term_vectors)
        return [
            (by_content[judgment.content_hash], judgment)
            for judgment in judge.judgments(Turn(task=task), pool)
        ]


def fetched(release: Release) -> Path:
    """Return the archive, downloading it if it is not cached. Skips the test if that fails."""
    archive = ARTIFACTS / release.file
    if not archive.exists():
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            download(release), capture_output=True, text=True, check=False, timeout=300
        )
        if not archive.exists():
            pytest.skip(
                f"{release.file} cannot be had from the package index: {done.stderr.strip()[-300:]}"
            )
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert checksum == release.sha256, (
        f"{archive} is not what was released; remove it and try again"
    )
    return archive


def download(release: Release) -> list[str]:
    """Return the command that downloads the archive into the cache.

    Skips the test if the tool is missing.
    """
    if release.registry == "npm":
        if shutil.which("npm") is None:
            pytest.skip(f"{release.file} is an npm package, and npm is not installed")
        requirement = f"{release.package}@{release.version}"
        return [
            "npm",
            "pack",
            "--loglevel=error",
            "--ignore-scripts",
            requirement,
            "--pack-destination",
            str(ARTIFACTS),
        ]
    if find_spec("unearth") is None:
        pytest.skip("unearth is not installed; `make verify` installs it")
    requirement = f"{release.package}=={release.version}"
    return [sys.executable, "-m", "unearth", "--no-binary", "-d", str(ARTIFACTS), requirement]


def unpack(archive: Path, folder: Path) -> None:
    """Write the regular files of an archive to a folder, without the archive's top folder."""
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            parts = PurePosixPath(member.name).parts[1:]
            content = opened.extractfile(member) if member.isfile() else None
            if content is None or not parts or ".." in parts:
                continue
            target = folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())


@pytest.fixture(scope="module", params=[FLASK, FASTIFY], ids=lambda release: release.package)
def tree(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tree]:
    """Index a release."""
    release: Release = request.param
    archive = fetched(release)
    place = tmp_path_factory.mktemp(release.package)
    unpack(archive, place / "tree")
    with Store.open(find_root(place / "tree"), user_data_dir=place / "user") as store:
        first = index_repository(
            store.connection, store.root, IndexSettings(git=False), now=time.time() + 3600
        )
        yield Tree(release, place / "tree", store, first)


def test_every_line_is_in_some_memory(tree: Tree) -> None:
    """X15: in every indexed file, each non-blank line lies in the span of a memory."""
    spans: dict[str, set[int]] = {}
    for path, start, end in tree.store.connection.execute(
        "SELECT path, start_line, end_line FROM memory"
    ):
        spans.setdefault(path, set()).update(range(start, end + 1))
    unseen, files, lines = [], 0, 0
    for (path,) in tree.store.connection.execute("SELECT path FROM file WHERE excluded = ''"):
        files += 1
        text = (tree.folder / native_name(path)).read_text("utf-8", "replace")
        for number, line in enumerate(text.split("\n"), start=1):
            lines += 1
            if line.strip() and number not in spans.get(path, set()):
                unseen.append(f"{path}:{number}: {line}")
    assert unseen == []
    assert files == tree.first.files.indexed > 200
    assert lines > 20_000


def test_every_file_is_accounted_for(tree: Tree) -> None:
    """Each file on disk is indexed or excluded with a reason, and no grammar failed on one."""
    on_disk = sum(
        path.is_file() for path in tree.folder.rglob("*") if ".xscore" not in path.parts
    )
    assert tree.first.files.seen == on_disk
    assert (
        tree.first.files.indexed + sum(tree.first.files.excluded.by_reason.values()) == on_disk
    )
    assert tree.first.notes == ()


def test_no_two_memories_share_a_name(tree: Tree) -> None:
    """The number added equals the number stored: no memory overwrote another with its id, place and
    name."""
    pool = tree.store.pool()
    assert len({candidate.id for candidate in pool}) == len(pool) == tree.first.memories.added
    places = Counter((candidate.path, candidate.kind, candidate.entity) for candidate in pool)
    assert [place for place, count in places.items() if count > 1] == []


def test_edges_of_every_relation_join_what_exists(tree: Tree) -> None:
    """Calls, imports, tests, membership and references are found, and both ends of each edge
    exist."""
    assert tree.first.edges.keys() == set(Relation)
    assert all(count >= 100 for count in tree.first.edges.values())
    connection = tree.store.connection
    node_ids = {row[0] for row in connection.execute("SELECT id FROM memory")}
    node_ids |= {f"f_{path}" for (path,) in connection.execute("SELECT path FROM file")}
    ends = {end for row in connection.execute("SELECT source, target FROM edge") for end in row}
    assert ends - node_ids == set()


def test_a_question_about_the_code_keeps_few_and_the_right_one_near_the_top(tree: Tree) -> None:
    """Of thousands of memories a question keeps at most one in fifty, its function among the first
    three."""
    for question, entity in tree.release.questions.items():
        ranked = tree.ask(question)
        kept = [candidate for candidate, judgment in ranked if judgment.score >= THRESHOLD]
        assert 0 < len(kept) <= len(ranked) / 50
        assert entity in [candidate.entity for candidate in kept[:3]], question
