"""What did not reach a server is sent by the store's next turn, and not judged again elsewhere."""

from pathlib import Path

from msgspec.structs import replace

from tests.extensions.shared.server_programs import free_port
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.extensions.shared.connect import shared_server_name
from xscore.extensions.shared.unsent import MOST_TURNS, UNSENT, UnsentTurns
from xscore.pipeline.build import Pipeline
from xscore.platform import database
from xscore.platform.paths import find_root
from xscore.platform.processes import process_identity
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import Secret, StoreSettings
from xscore.settings.model import SharedSettings
from xscore.store.index_rows import read_meta, write_meta
from xscore.store.store import Store

NAMES = ("turn", "judge", 0)


async def ask(
    root: Path, host: OpenAIServer, shared: SharedSettings, task: str, *, trust: bool = False
) -> Answer:
    """Ask as a process of its own would. trust: use a store that was made elsewhere."""
    home = StoreSettings(user_data_dir=root.parent / "data", trust=trust)
    settings = replace(settings_for(host), shared=shared, store=home)
    async with Pipeline.open(root, settings) as pipeline:
        return await pipeline.ask(Turn(task=task), answer=False)


def tree(folder: Path) -> Path:
    """Write a clone."""
    folder.mkdir(parents=True)
    parts = [f"def f_{number}(x):\n    return x + {number}\n" for number in range(20)]
    (folder / "parts.py").write_text("\n\n".join(parts))
    return folder


async def test_the_next_turn_sends_what_an_outage_kept_back(
    tmp_path: Path, shared: SharedSettings
) -> None:
    """One clone judges while the server is away, and asks another question once it is back: then a
    second clone pays for neither."""
    first, second = tree(tmp_path / "a" / "code"), tree(tmp_path / "b" / "code")
    # The same server, at an address where nothing listens.
    away = replace(shared, url=Secret(f"redis://127.0.0.1:{free_port()}/0"))
    with OpenAIServer() as host:
        alone = await ask(first, host, away, "Why?")
        assert alone.coverage.judged == alone.coverage.candidates > 0
        _rename_server(first, shared_server_name(away), shared_server_name(shared))
        await ask(first, host, shared, "Where?")
        paid = host.counts.judgments.total()
        for task in ("Why?", "Where?"):
            answer = await ask(second, host, shared, task)
            assert (answer.coverage.judged, answer.coverage.unjudged) == (0, 0)
        assert host.counts.judgments.total() == paid


async def test_what_a_store_of_a_stranger_owes_is_not_sent(
    tmp_path: Path, shared: SharedSettings
) -> None:
    """A store that was made elsewhere, used for one run, sends the team none of its scores."""
    planted, colleague = tree(tmp_path / "a" / "code"), tree(tmp_path / "b" / "code")
    away = replace(shared, url=Secret(f"redis://127.0.0.1:{free_port()}/0"))
    with OpenAIServer() as host:
        await ask(planted, host, away, "Why?")
        _rename_server(planted, shared_server_name(away), shared_server_name(shared))
        planted.rename(tmp_path / "moved")
        await ask(tmp_path / "moved", host, shared, "Where?", trust=True)
        answer = await ask(colleague, host, shared, "Why?")
        assert answer.coverage.judged == answer.coverage.candidates


def _rename_server(root: Path, before: str, after: str) -> None:
    """Let a store's notes be about the server at its other address."""
    with Store.open(find_root(root), user_data_dir=root.parent / "data") as store:
        text = read_meta(store.connection, UNSENT)
        assert before in text
        with database.transaction(store.connection):
            write_meta(store.connection, UNSENT, text.replace(before, after))


def test_only_what_ended_processes_left_for_this_server_is_sent(store: Store) -> None:
    """A living process sends its own; notes are bounded, and damaged ones are no error."""
    notes, notes_of_b = UnsentTurns(store.connection, "a"), UnsentTurns(store.connection, "b")
    notes.note(NAMES)
    notes.note(NAMES)
    later_notes = UnsentTurns(store.connection, "a")
    assert process_identity() in read_meta(store.connection, UNSENT)
    assert later_notes.left_by_others() == []
    notes.leave_own()
    assert [turn.names for turn in later_notes.left_by_others()] == [NAMES]
    assert notes_of_b.left_by_others() == []
    later_notes.sent(*later_notes.left_by_others())
    assert read_meta(store.connection, UNSENT) == ""
    for number in range(3):
        notes.note((f"turn {number}", "judge", 0))
    notes.forget_own()
    assert read_meta(store.connection, UNSENT) == ""
    with database.transaction(store.connection):
        write_meta(store.connection, UNSENT, "[{")
    assert later_notes.left_by_others() == []
    assert MOST_TURNS >= 100
