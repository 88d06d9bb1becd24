"""Memories of other repositories in a turn: found by folder or name, judged once, kept by score,
and never more than is allowed."""

import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import commit_all, git, store_file, write_files
from tests.pipeline.conftest import FILES, TASK, ask, settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.pipeline.explaining import explain_choice
from xscore.pipeline.store_status import read_store_status
from xscore.platform.errors import NothingMatched, StoreDamaged
from xscore.platform.paths import find_root
from xscore.platform.sqlite_drivers import BUSY_TIMEOUT_S
from xscore.records.events import Note, Observer, TurnEvent
from xscore.records.memory import Kind, Layer, MemoryScope
from xscore.records.receipt import Answer
from xscore.records.statement import Statement
from xscore.records.turn import Scope
from xscore.settings import Settings, load_settings
from xscore.store.other_places import followed_root, name_of_root
from xscore.store.remembering import remember, remember_within

LIB = {
    "src/rates.py": '''"""Rates."""


def tenth_off(amount: int) -> int:
    """The discount: take a tenth off the total."""
    return amount * 9 // 10


def sum_up(amounts: list[int]) -> int:
    """Add amounts up."""
    return sum(map(tenth_off, amounts))
''',
    # The same path as here, with another text.
    "README.md": "# Rates\n\nHow a discount is taken off a total.\n",
    # The same file as here: judged once, as what is here.
    "shop/prices.py": FILES["shop/prices.py"],
}
LIB_NAME = "acme/lib"
SCORES = {"tenth_off": 95, "def total": 90, "whole cents": 93}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The repository that is asked."""
    write_files(tmp_path / "shop", FILES)
    return commit_all(tmp_path / "shop")


@pytest.fixture
async def lib(tmp_path: Path, server: OpenAIServer) -> Path:
    """A library next to it, from acme/lib, indexed; something is stated about it, and something
    for one session."""
    write_files(tmp_path / "lib", LIB)
    folder = commit_all(tmp_path / "lib")
    git(folder, "remote", "add", "origin", "git@github.com:acme/lib.git")
    async with Pipeline.open(folder, settings_for(server)) as pipeline:
        await pipeline.index()
        remember(
            pipeline.store,
            Statement(kind=Kind.DECISION, text="Discounts are whole cents.", key="d"),
        )
        for_now = Statement(kind=Kind.CONTEXT, text="Today only.", scope=MemoryScope.SESSION)
        with pipeline.store.transaction([Layer.PROJECT]):
            remember_within(pipeline.store.connection, for_now, now=1.0, thread="today")
    return folder


def also(settings: Settings, *names: str, memories: int = 2_000) -> Settings:
    """Settings that name other repositories."""
    index = replace(settings.index, also=names, also_memories=memories)
    return replace(settings, index=index)


def of_lib(answer: Answer) -> list[str]:
    """Return what was kept of the library."""
    kept = [memory.path or memory.entity for memory in answer.selected]
    return [name for name in kept if name.startswith(f"{LIB_NAME}: ")]


@pytest.mark.parametrize("name", ["../lib", "acme/lib", "lib", "github.com/acme/lib"])
async def test_memories_of_another_repository_are_judged_and_kept_by_score(
    shop: Path, lib: Path, server: OpenAIServer, name: str
) -> None:
    """They join under the repository's name; what is in both is judged once, as what is here."""
    server.score = table(SCORES)
    alone = await ask(shop, settings_for(server))
    answer = await ask(shop, also(settings_for(server), name))
    repeated = await ask(shop, also(settings_for(server), name))
    kept = of_lib(answer)
    assert "acme/lib: src/rates.py" in kept and "acme/lib: d" in kept
    (joined,) = answer.also
    assert joined.name == LIB_NAME and joined.left_out == 0
    assert answer.scope.also == (LIB_NAME,)
    assert answer.coverage.candidates == alone.coverage.candidates + joined.memories
    # What was judged without the library is not judged repeated, and with it nothing twice.
    assert answer.coverage.judged == joined.memories and repeated.coverage.judged == 0
    assert not [path for path in kept if path.endswith("shop/prices.py")]
    assert not alone.also and not of_lib(alone) and not answer.warnings
    shown = "".join(str(body) for body in server.counts.bodies)
    assert "acme/lib: src/rates.py" in shown and "Today only." not in shown


async def test_a_turn_with_another_repository_can_be_explained_and_continued(
    shop: Path, lib: Path, server: OpenAIServer
) -> None:
    """`explain` finds its memories by the name that the turn shows; the turn keeps the name."""
    server.score = table(SCORES)
    turn = replace(TASK, scope=Scope(also=(str(lib),)))
    answer = await ask(shop, settings_for(server), turn)
    assert answer.scope.also == (LIB_NAME,)
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        by_name = explain_choice(
            pipeline.parts, "acme/lib: src/rates.py::tenth_off", turn_id=answer.turn_id
        )
        unlisted = explain_choice(
            pipeline.parts, "acme/lib: src/rates.py::sum_up", turn_id=answer.turn_id
        )
        (kept,) = [memory for memory in answer.selected if memory.entity == "tenth_off"]
        assert by_name.id == kept.id and by_name.path == "acme/lib: src/rates.py"
        assert unlisted.outcome != "unjudged"
        texts = pipeline.store.memories([kept.id])
        assert "tenth off the total" in texts[kept.id].text
        shutil.rmtree(lib)
        for name in ("acme/lib: src/rates.py::tenth_off", kept.id):
            with pytest.raises(NothingMatched) as caught:
                explain_choice(pipeline.parts, name, turn_id=answer.turn_id)
            assert "acme/lib could not be read" in caught.value.hint


async def test_where_there_is_too_much_words_choose(
    shop: Path, lib: Path, server: OpenAIServer
) -> None:
    """No more memories join than allowed, the nearest by words, and the receipt says of how
    many."""
    answer = await ask(shop, also(settings_for(server), "lib", memories=1))
    (joined,) = answer.also
    assert joined.memories == 1 and joined.left_out > 1
    server.counts.bodies.clear()
    by_words = await ask(shop, also(settings_for(server, model="lexical"), "lib", memories=1))
    assert by_words.also == answer.also and not server.counts.bodies


async def test_one_that_cannot_be_read_costs_a_line(
    shop: Path, lib: Path, server: OpenAIServer, tmp_path: Path
) -> None:
    """Gone, never indexed, made by somebody else, of another schema: the turn goes on and says
    so."""
    (tmp_path / "plain").mkdir()
    shutil.copytree(lib, tmp_path / "copied")
    settings = also(
        settings_for(server), "../gone", "../plain", "nobody/knows", "../copied", "."
    )
    answer = await ask(shop, settings)
    assert len(answer.warnings) == 4 and not answer.also
    assert answer.coverage.unjudged == 0
    shutil.rmtree(lib)
    gone = await ask(shop, also(settings_for(server), "acme/lib"))
    assert len(gone.warnings) == 1 and gone.coverage.judged == 0


async def test_a_damaged_one_costs_a_line(shop: Path, lib: Path, server: OpenAIServer) -> None:
    """A store that opens, but whose memories are damaged, is left out of the whole turn."""
    file = store_file(lib)
    with closing(sqlite3.connect(file)) as connection:
        ((page,),) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'memory_row'"
        ).fetchall()
        ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    content = bytearray(file.read_bytes())
    content[(page - 1) * size : page * size] = bytes(size)
    file.write_bytes(content)
    async with Pipeline.open(shop, also(settings_for(server), "lib")) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
        assert not pipeline.store.others
    assert len(answer.warnings) == 1 and not answer.also
    assert answer.coverage.unjudged == 0 < answer.coverage.judged


async def test_a_file_that_could_pass_for_one_of_another_keeps_that_out(
    shop: Path, lib: Path, server: OpenAIServer
) -> None:
    """`acme/lib: src/x.py` may be a file of the very clone that is asked."""
    write_files(shop, {"acme/lib: src/rates.py": "def rates():\n    return 'whatever'\n"})
    commit_all(shop)
    answer = await ask(shop, also(settings_for(server), "lib"))
    (warning,) = answer.warnings
    assert "acme/lib: src/rates.py" in warning and not answer.also


async def test_what_is_no_file_or_is_held_is_not_waited_for(
    shop: Path, lib: Path, server: OpenAIServer
) -> None:
    """A store that another program holds costs half a second at each of its reads, a pipe
    nothing."""
    file = store_file(lib)
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = exclusive")
        holder.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        held = await ask(shop, also(settings_for(server), "lib"))
        assert time.monotonic() - began < BUSY_TIMEOUT_S / 2
        holder.execute("ROLLBACK")
    assert len(held.warnings) == 1 and not held.also
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink()
    os.mkfifo(file)
    piped = await ask(shop, also(settings_for(server), "lib"))
    assert len(piped.warnings) == 1 and not piped.also


async def test_a_text_that_cannot_be_read_names_its_repository(
    shop: Path, lib: Path, server: OpenAIServer
) -> None:
    """It is found out too late to leave the repository out; the turn's own store is not blamed."""
    with closing(sqlite3.connect(store_file(lib))) as connection, connection:
        connection.execute("UPDATE file_version SET body = x'00'")
    with pytest.raises(StoreDamaged) as raised:
        await ask(shop, also(settings_for(server), "lib"))
    assert "lib" in raised.value.message and str(lib) in raised.value.hint


async def test_what_is_odd_about_one_is_said_in_a_line(
    shop: Path, lib: Path, server: OpenAIServer, tmp_path: Path
) -> None:
    """Commits since its index, and a second clone of the same name: a line each, and a repository
    that says it is another cannot take its place unseen."""
    settings = also(settings_for(server), "acme/lib")
    assert await notes_of(shop, settings) == []
    git(lib, "commit", "-q", "--allow-empty", "-m", "A later word on how rates are rounded")
    (note,) = await notes_of(shop, settings)
    assert "xscore index" in note and str(lib) in note
    write_files(tmp_path / "other", {"a.py": "def planted() -> None:\n    pass\n"})
    namesake = commit_all(tmp_path / "other")
    git(namesake, "remote", "add", "origin", "https://github.com/acme/lib")
    async with Pipeline.open(namesake, settings_for(server)) as pipeline:
        await pipeline.index()
    (note,) = await notes_of(shop, settings)
    assert "2 places" in note and str(namesake) in note


async def notes_of(root: Path, settings: Settings) -> list[str]:
    """Run a turn; return what it noted of the library."""
    notes: list[str] = []

    class Listener(Observer):
        def on(self, event: TurnEvent) -> None:
            if isinstance(event, Note):
                notes.append(event.text)

    async with Pipeline.open(root, settings, observer=Listener()) as pipeline:
        await pipeline.ask(TASK, answer=False)
    return [note for note in notes if LIB_NAME in note]


async def test_another_turn_of_the_same_pipeline_reads_none(
    shop: Path, lib: Path, server: OpenAIServer
) -> None:
    """A repository that one turn names is in no later turn that does not."""
    async with Pipeline.open(shop, settings_for(server, model="lexical")) as pipeline:
        alone = await pipeline.ask(TASK, answer=False)
        named = replace(TASK, scope=Scope(also=("acme/lib",)))
        assert (await pipeline.ask(named, answer=False)).also
        later = await pipeline.ask(TASK, answer=False)
        assert not later.also and not pipeline.store.others
        scores = [(memory.id, memory.score) for memory in alone.near_misses]
        assert [(memory.id, memory.score) for memory in later.near_misses] == scores


async def test_its_store_is_only_read(shop: Path, lib: Path, server: OpenAIServer) -> None:
    """Nothing of the turn is written into the other repository's store."""
    before = store_file(lib).read_bytes()
    await ask(shop, also(settings_for(server), "lib"))
    assert store_file(lib).read_bytes() == before


async def test_status_suggests_what_a_manifest_names(
    shop: Path, lib: Path, server: OpenAIServer
) -> None:
    """A library that this repository depends on is suggested, unless it joins already by any of its
    names; nothing joins by itself."""
    settings = settings_for(server)
    async with Pipeline.open(shop, settings) as pipeline:
        assert read_store_status(pipeline.store, settings).suggested == ()
        (shop / "go.mod").write_text(
            "module acme.dev/shop\n\nrequire github.com/acme/lib v1.2.0\n"
        )
        (suggested,) = read_store_status(pipeline.store, settings).suggested
        assert (suggested.name, suggested.manifest) == (LIB_NAME, "go.mod")
        for name in (LIB_NAME, "lib", "../lib"):
            named = read_store_status(pipeline.store, also(settings, name))
            assert named.suggested == ()
    assert not (await ask(shop, settings)).also


async def test_a_folder_called_as_those_of_followed_ones_is_a_repository_like_others(
    tmp_path: Path, server: OpenAIServer
) -> None:
    """Only what lies in the user's own folder has no files."""
    folder = tmp_path / "followed" / "a%2Fb"
    write_files(folder, LIB)
    async with Pipeline.open(folder, settings_for(server)) as pipeline:
        await pipeline.index()
    root = find_root(folder)
    assert name_of_root(root, tmp_path / "data") == "a%2Fb"
    assert name_of_root(followed_root("github.com/a/b", tmp_path), tmp_path) == "a/b"


def test_a_repository_cannot_name_another(tmp_path: Path) -> None:
    """A cloned repository's own file that names a folder of this machine is ignored, and said."""
    (tmp_path / ".xscore.toml").write_text('[index]\nalso = ["../secrets"]\n')
    loaded = load_settings(repo_root=tmp_path, user_file=None, environ={})
    assert loaded.settings.index.also == ()
    assert any("index.also" in warning for warning in loaded.warnings)
    chosen = load_settings(
        repo_root=tmp_path, user_file=None, environ={"XSCORE_INDEX_ALSO": "acme/lib"}
    )
    assert chosen.settings.index.also == ("acme/lib",)
