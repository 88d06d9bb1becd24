"""Judgments that travel from one store to another in a signed file."""

import io
import os
import secrets
import string
from collections.abc import Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cache.conftest import JUDGE, judgments
from xscore.cache.judgments import Judgments, count_untrusted, insert_judgments_under, untrusted_scores
from xscore.cache.keys import judge_key
from xscore.extensions.exchange import cache_parquet, cache_signature
from xscore.extensions.exchange.cache_files import (
    CacheExport,
    CacheImport,
    ExportFilter,
    export_judgments,
    import_judgments,
    import_untrusted,
)
from xscore.extensions.exchange.cache_parquet import ExchangeRow, child_environment, try_in_child
from xscore.extensions.exchange.cache_signature import ExchangeKey, parse_exchange_key
from xscore.platform import database
from xscore.platform.errors import NothingMatched, StoreUntrusted, UsageError
from xscore.records import Judgment
from xscore.scorer.replies import printable_reason
from xscore.store.opening import connect_store

KEY = ExchangeKey(bytes(range(32)))
OTHER = ExchangeKey(bytes(range(1, 33)))
TURN = "a" * 32
NAMES = (TURN, judge_key(JUDGE), 0)


def filled(connection: Connection, found: Sequence[Judgment], names: tuple[str, str, int] = NAMES) -> None:
    """Keep judgments."""
    with database.transaction(connection):
        insert_judgments_under(connection, found, names)


def take(connection: Connection, file: Path, key: ExchangeKey = KEY, **wishes: Any) -> CacheImport:
    """Import what is signed."""
    return import_judgments(connection, file, key, folder=file.parent, reason=printable_reason, **wishes)


def everything(connection: Connection) -> list[tuple[Any, ...]]:
    """All judgments with their reasons, by what they are filed under."""
    return connection.execute(
        "SELECT turn_key, judge, sample, hash, score, prior, pack, position, checksum, coalesce(text, '') FROM query"
        " JOIN judgment ON judgment.query_id = query.id JOIN content ON content.id = judgment.content_id"
        " LEFT JOIN reason ON reason.query_id = query.id AND reason.content_id = content.id ORDER BY 1, 2, 3, 4"
    ).fetchall()


@pytest.fixture
def file(connection: Connection, tmp_path: Path) -> Path:
    """An export of three judgments."""
    filled(connection, [Judgment(f"{number:032x}", number / 4, f"says {number}") for number in range(3)])
    place = tmp_path / "cache.parquet"
    export_judgments(connection, place, KEY, ExportFilter())
    return place


@pytest.fixture
def second(tmp_path: Path) -> Connection:
    """Another machine's store, empty."""
    return connect_store(tmp_path / "second.db")


HEX = st.text("0123456789abcdef", min_size=32, max_size=32)
SHARE = st.floats(0, 1)
WORDS = st.text(string.ascii_letters + " äß✓", max_size=60).map(printable_reason)
JUDGMENT = st.builds(Judgment, HEX, SHARE, WORDS, st.text("pxq_0123456789", max_size=20), st.integers(0, 59), SHARE)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    turns=st.dictionaries(
        st.tuples(HEX, HEX, st.integers(0, 3)), st.lists(JUDGMENT, min_size=1, max_size=8), min_size=1, max_size=5
    )
)
def test_a_round_trip_changes_nothing(turns: dict[tuple[str, str, int], list[Judgment]], tmp_path: Path) -> None:
    """What comes out of the file is what went in: keys, scores to the last bit, places, reasons, seals."""
    folder = tmp_path / secrets.token_hex(8)
    first, other = connect_store(folder / "a.db"), connect_store(folder / "b.db")
    for names, found in turns.items():
        filled(first, found, names)
    done = export_judgments(first, folder / "c.parquet", KEY, ExportFilter())
    taken = take(other, folder / "c.parquet")
    assert everything(other) == everything(first)
    assert (taken.added, taken.known, taken.turns) == (done.judgments, 0, len(turns))
    assert take(other, folder / "c.parquet").added == 0
    first.close()
    other.close()


@pytest.mark.verify
def test_every_flipped_byte_is_noticed(file: Path) -> None:
    """Not one byte of the file can change without the signature telling, whatever it belongs to."""
    whole = bytearray(file.read_bytes())
    cache_signature.check_signature(io.BytesIO(whole), KEY, name=file)
    for at in range(len(whole)):
        whole[at] ^= 0x20
        with pytest.raises(StoreUntrusted):
            cache_signature.check_signature(io.BytesIO(whole), KEY, name=file)
        whole[at] ^= 0x20


@pytest.mark.parametrize("left", [0, 12, 0.5, -1])
def test_a_cut_file_is_refused(left: float, file: Path, second: Connection) -> None:
    """Wherever it was cut off, nothing is taken."""
    whole = file.read_bytes()
    file.write_bytes(whole[: int(left * len(whole)) if 0 < left < 1 else int(left)])
    with pytest.raises((StoreUntrusted, UsageError)):
        take(second, file)
    assert everything(second) == []


def test_a_file_with_more_behind_it_is_refused(file: Path, second: Connection) -> None:
    """A second footer behind the signed file is another file."""
    file.write_bytes(file.read_bytes() * 2)
    with pytest.raises(StoreUntrusted):
        take(second, file)


def rewritten(file: Path, frame: pl.DataFrame, key: ExchangeKey | None = None, **entries: str) -> None:
    """Write a table as a forger would, or, with the key, as a careless partner."""
    signature = cache_signature.unsigned_entry(key) if key else ""
    frame.write_parquet(file, metadata={cache_signature.SIGNATURE_ENTRY: signature, **entries}, statistics=False)
    if key:
        with file.open("r+b") as opened:
            cache_signature.sign_file(opened, key)


def test_swapped_rows_or_new_metadata_need_the_key(file: Path, second: Connection) -> None:
    """The same rows in another order, or under other metadata, are not what was signed."""
    with cache_signature.private_copy(file, beside=file.parent) as copy:
        told = pl.read_parquet_metadata(copy)[cache_signature.SIGNATURE_ENTRY]
    frame = pl.read_parquet(file)
    frame.reverse().write_parquet(file, metadata={cache_signature.SIGNATURE_ENTRY: told})
    with pytest.raises(StoreUntrusted, match="altered"):
        take(second, file)
    frame.write_parquet(file, metadata={cache_signature.SIGNATURE_ENTRY: told, "note": "mine"})
    with pytest.raises(StoreUntrusted, match="altered"):
        take(second, file)
    frame.write_parquet(file, metadata={cache_signature.SIGNATURE_ENTRY: told, "again": told})
    with pytest.raises(StoreUntrusted, match="not signed"):
        take(second, file)


def test_who_signed_it_is_told_apart(file: Path, second: Connection) -> None:
    """Another key, no signature, and an altered file are three different things."""
    with pytest.raises(StoreUntrusted, match=rf"another key \({KEY.id}; yours is {OTHER.id}\)") as other:
        take(second, file, OTHER)
    assert "--untrusted" in other.value.hint
    frame = pl.read_parquet(file)
    rewritten(file, frame)
    with pytest.raises(StoreUntrusted, match="not signed"):
        take(second, file)
    with pytest.raises(UsageError, match="no key"):
        import_judgments(second, file, None, folder=file.parent, reason=printable_reason)
    assert everything(second) == []


def row(**changed: object) -> pl.DataFrame:
    """One judgment as it travels, with something changed."""
    found = ExchangeRow(TURN, "b" * 32, "openai:m", 0, "c" * 32, 0.5, 0.1, "p_1", 3, "calls it")._asdict() | changed
    return pl.DataFrame([found])


BAD: dict[str, dict[str, object]] = {
    "not a number": {"score": float("nan")},
    "below": {"score": -1.0},
    "above": {"score": 2.0},
    "no score": {"score": None},
    "a whole score": {"score": 1},
    "a prior above": {"prior": 1.5},
    "a short hash": {"hash": "c" * 31},
    "a line end": {"hash": "c" * 31 + "\n"},
    "a long key": {"turn_key": "a" * 33},
    "10 MB of reason": {"reason": "x" * 10_000_000},
    "a huge sample": {"sample": 2**40},
    "another column": {"path": "/etc/passwd"},
}


@pytest.mark.parametrize("changed", BAD.values(), ids=BAD.keys())
def test_a_value_that_no_judgment_has_refuses_the_file(
    changed: dict[str, object], tmp_path: Path, second: Connection
) -> None:
    """Signed or not, the gate is the same, and it is before the first row."""
    place = tmp_path / "bad.parquet"
    rewritten(place, row(**changed), KEY)
    with pytest.raises(UsageError, match="no export of a cache"):
        take(second, place)
    assert everything(second) == []


def test_a_reason_is_made_harmless(tmp_path: Path, second: Connection) -> None:
    """What a model was made to say elsewhere reaches no terminal and keeps no secret here."""
    place = tmp_path / "said.parquet"
    rewritten(place, row(reason="\x1b[31m AKIA" + "IOSFODNN7EXAMPLQ" + " red\nline " + "x" * 600), KEY)
    take(second, place)
    (reason,) = (found[-1] for found in everything(second))
    assert "\x1b" not in reason and "\n" not in reason and "AKIAIOSFODNN7EXAMPLQ" not in reason and len(reason) == 240


def test_what_is_here_wins(file: Path, second: Connection) -> None:
    """A judgment of one's own is not changed by an import, nor does it get a stranger's reason."""
    filled(second, [Judgment(f"{1:032x}", 0.9)])
    assert (take(second, file).added, take(second, file).known) == (2, 3)
    found = {known[3]: (known[4], known[-1]) for known in everything(second)}
    assert found[f"{1:032x}"] == (0.9, "") and found[f"{2:032x}"] == (0.5, "says 2")


def test_a_dry_run_changes_nothing(file: Path, second: Connection) -> None:
    """It says what would come in."""
    assert take(second, file, dry_run=True).added == 3
    assert everything(second) == []
    assert import_untrusted(second, file, folder=file.parent, dry_run=True).added == 3
    assert count_untrusted(second) == 0


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "device", "text"])
def test_what_is_no_file_of_ours_is_refused(kind: str, tmp_path: Path, second: Connection) -> None:
    """Nothing waits for a pipe, reads a device or parses a text."""
    place = tmp_path / "odd"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place = Path("/dev/zero")
    elif kind == "text":
        place.write_text("PAR1 not quite PAR1")
    with pytest.raises((UsageError, StoreUntrusted)):
        take(second, place) if kind != "device" else import_untrusted(second, place, folder=tmp_path)


def test_a_link_leads_to_the_file(file: Path, second: Connection) -> None:
    """A person may name a link, as to any program; what is checked is the copy that is read."""
    link = file.with_name("link")
    link.symlink_to(file)
    assert take(second, link).added == 3


def test_strangers_scores_stay_in_quarantine(file: Path, second: Connection) -> None:
    """They are no judgments, of contents that are judged they say nothing, and a real judgment ends them."""
    filled(second, [Judgment(f"{1:032x}", 0.9)])
    done = import_untrusted(second, file, folder=file.parent)
    assert (done.added, done.known, done.believed) == (2, 1, False)
    assert untrusted_scores(second, NAMES) == {f"{0:032x}": 0.0, f"{2:032x}": 0.5}
    assert Judgments(second).known_under(TURN, NAMES[1]).keys() == {f"{1:032x}"}
    assert second.execute("SELECT count(*) FROM reason").fetchone() == (0,)
    filled(second, [Judgment(f"{2:032x}", 0.1)])
    assert untrusted_scores(second, NAMES) == {f"{0:032x}": 0.0}


def test_a_bomb_is_refused_by_what_it_says_it_holds(tmp_path: Path, second: Connection) -> None:
    """A few kilobytes that unfold into more rows than are taken are not unfolded."""
    place = tmp_path / "bomb.parquet"
    huge = pl.concat([row()]).select(pl.all().repeat_by(cache_parquet.MAX_UNTRUSTED_ROWS + 1).explode())
    rewritten(place, huge)
    assert place.stat().st_size < 100_000
    with pytest.raises(UsageError, match="1,000,001 judgments"):
        import_untrusted(second, place, folder=tmp_path)


@pytest.mark.verify
def test_a_file_that_ends_its_reader_ends_a_child(file: Path, second: Connection) -> None:
    """Whatever a damaged file does to the Parquet reader, we go on, and nothing was written."""
    whole, refused = file.read_bytes(), 0
    for at in range(40, len(whole), len(whole) // 5):
        flipped = bytearray(whole)
        flipped[at] ^= 0xFF
        file.write_bytes(flipped)
        try:
            import_untrusted(second, file, folder=file.parent, dry_run=True)
        except UsageError:
            refused += 1
    assert refused
    assert count_untrusted(second) == 0


def test_a_trial_that_does_not_end_is_ended(file: Path) -> None:
    """A reader that hangs without taking CPU is ended by the clock."""
    with file.open("rb") as opened, pytest.raises(UsageError, match=r"within 3 GB and 0\.01 s"):
        try_in_child(opened, name=file, at_most=1_000, time_s=0.01)


def test_a_trial_is_told_no_secret() -> None:
    """What reads a stranger's file has nothing to give away."""
    ours = {"OPENAI_API_KEY": "sk-1", "XSCORE_CACHE_KEY": "k", "HTTPS_PROXY": "u:p@host", "PATH": "/bin"}
    assert child_environment(ours) == {"PATH": "/bin", "POLARS_MAX_THREADS": "1"}


def test_only_what_is_asked_for_travels(connection: Connection, tmp_path: Path) -> None:
    """By judge, by when it was asked, and without reasons."""
    place = tmp_path / "some.parquet"
    filled(connection, [Judgment(f"{1:032x}", 0.5, "why")])
    filled(connection, [Judgment(f"{2:032x}", 0.5, "why")], ("b" * 32, "c" * 32, 0))
    connection.execute(
        "INSERT INTO turn (id, thread, turn_key, judge, task, started_at, state)"
        " VALUES ('t_1', '', ?, ?, 'a task', 50.0, 'done')",
        NAMES[:2],
    )
    assert export_judgments(connection, place, KEY, ExportFilter(judges=("cccccccc",))).judgments == 1
    assert export_judgments(connection, place, KEY, ExportFilter(since=40.0, reasons=False)) == CacheExport(
        judgments=1, turns=1, reasons=0, bytes=place.stat().st_size, key=KEY.id
    )
    assert pl.read_parquet(place)["hash"].to_list() == [f"{1:032x}"]
    before = place.read_bytes()
    with pytest.raises(NothingMatched):
        export_judgments(connection, place, KEY, ExportFilter(since=60.0))
    assert place.read_bytes() == before and [each.name for each in tmp_path.glob(".*parquet*")] == []
    assert b"a task" not in before and place.stat().st_mode & 0o777 == 0o600


def test_a_damaged_judgment_stays_behind(connection: Connection, tmp_path: Path) -> None:
    """A score that does not fit its checksum is not passed on as one."""
    filled(connection, judgments(0, 3))
    connection.execute("UPDATE judgment SET score = 0.75 WHERE content_id = 2")
    done = export_judgments(connection, tmp_path / "c.parquet", KEY, ExportFilter())
    assert (done.judgments, done.damaged) == (2, 1)


def test_an_export_replaces_a_file_and_nothing_else(connection: Connection, file: Path, tmp_path: Path) -> None:
    """A folder or a pipe of that name is left alone."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError):
        export_judgments(connection, tmp_path / "folder", KEY, ExportFilter())
    with pytest.raises(UsageError):
        export_judgments(connection, tmp_path / "nowhere" / "c.parquet", KEY, ExportFilter())
    assert export_judgments(connection, file, KEY, ExportFilter()).judgments == 3


@pytest.mark.parametrize("text", ["", "abc", "00" * 32, "zz" * 32, "ab" * 31, "é" * 64, "c2VjcmV0"])
def test_a_weak_key_is_none(text: str) -> None:
    """A key is 32 random bytes or more; the error never shows what was given."""
    with pytest.raises(UsageError) as refused:
        parse_exchange_key(text, where="it")
    assert not text or text not in refused.value.message + refused.value.hint


def test_a_key_is_read_from_hex_and_base64() -> None:
    """Both forms of the same bytes are the same key."""
    import base64

    raw = bytes(range(40))
    forms = [raw.hex(), base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode().rstrip("=") + "\n"]
    assert {parse_exchange_key(form, where="it").id for form in forms} == {ExchangeKey(raw).id}
    assert raw.hex() not in repr(parse_exchange_key(forms[0], where="it"))


def test_a_file_of_another_kind_stays(connection: Connection, tmp_path: Path) -> None:
    """A text and someone's Parquet are refused and left as they are; an export is replaced, whoever signed it."""
    Judgments(connection).write("0" * 32, JUDGE, judgments(0, 3))
    text, table, own = (tmp_path / name for name in ("q.jsonl", "sales.parquet", "cache.parquet"))
    text.write_text('{"id": "q1", "task": "why"}\n')
    pl.DataFrame({"a": [1]}).write_parquet(table)
    for place in (text, table):
        before = place.read_bytes()
        with pytest.raises(UsageError, match="was not written by"):
            export_judgments(connection, place, KEY, ExportFilter())
        assert place.read_bytes() == before
    export_judgments(connection, own, OTHER, ExportFilter())
    assert export_judgments(connection, own, KEY, ExportFilter()).judgments == 3


def test_who_imports_is_sent_to_the_key_of_the_file(connection: Connection, tmp_path: Path) -> None:
    """A new key would fit no file, so none is advised."""
    Judgments(connection).write("0" * 32, JUDGE, judgments(0, 3))
    file = tmp_path / "cache.parquet"
    export_judgments(connection, file, OTHER, ExportFilter())
    for key, kind in ((None, UsageError), (KEY, StoreUntrusted)):
        with pytest.raises(kind) as refused:
            import_judgments(connection, file, key, folder=tmp_path, reason=str)
        assert "exported with" in refused.value.hint and "store key`" not in refused.value.hint
