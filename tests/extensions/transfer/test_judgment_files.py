"""Judgments moved from one store to another in a signed file."""

import os
import secrets
import string
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cache.conftest import JUDGE, judgments
from xscore.cache.judgment_store import count_untrusted, insert_judgments, untrusted_scores
from xscore.cache.judgments import read_judgments
from xscore.cache.keys import judge_key
from xscore.extensions.transfer import judgment_files
from xscore.extensions.transfer.judgment_files import (
    JudgmentExport,
    JudgmentImport,
    export_judgments,
    import_judgments,
    may_replace_export,
    read_export,
)
from xscore.extensions.transfer.saved_files import Contents, encode_packed, join_file
from xscore.extensions.transfer.saved_records import SavedJudgment
from xscore.extensions.transfer.transfer_keys import (
    TransferKey,
    parse_transfer_key,
    transfer_key,
)
from xscore.platform import database
from xscore.platform.errors import NothingMatched, StoreUntrusted, UsageError
from xscore.records.judgment import Judgment
from xscore.scorer.chat_replies import printable_reason
from xscore.store.opening import connect_store

KEY = TransferKey(bytes(range(32)))
OTHER = TransferKey(bytes(range(1, 33)))
TURN = "a" * 32
NAMES = (TURN, judge_key(JUDGE), 0)


def filled(
    connection: Connection, judgments: Sequence[Judgment], names: tuple[str, str, int] = NAMES
) -> None:
    """Store judgments."""
    with database.transaction(connection):
        insert_judgments(connection, judgments, names)


def take(
    connection: Connection, file: Path, key: TransferKey = KEY, **options: Any
) -> JudgmentImport:
    """Import signed lines."""
    return import_judgments(connection, file, key, **options)


def quarantine(connection: Connection, file: Path, **options: Any) -> JudgmentImport:
    """Import lines without checking who signed them."""
    return import_judgments(connection, file, None, **options)


def everything(connection: Connection) -> list[tuple[Any, ...]]:
    """Return all judgments with their reasons, by key."""
    return connection.execute(
        "SELECT turn_key, judge, sample, hash, score, prior, pack, position, checksum,"
        " coalesce(text, '') FROM query JOIN judgment ON judgment.query_id = query.id JOIN content"
        " ON content.id = judgment.content_id LEFT JOIN reason ON reason.query_id = query.id AND"
        " reason.content_id = content.id ORDER BY 1, 2, 3, 4"
    ).fetchall()


@pytest.fixture
def file(connection: Connection, tmp_path: Path) -> Path:
    """An export of three judgments."""
    filled(
        connection,
        [Judgment(f"{number:032x}", number / 4, f"says {number}") for number in range(3)],
    )
    place = tmp_path / "judgments.xscore"
    export_judgments(connection, place, KEY)
    return place


@pytest.fixture
def second(tmp_path: Path) -> Connection:
    """The empty store of another machine."""
    return connect_store(tmp_path / "second.db")


HEX = st.text("0123456789abcdef", min_size=32, max_size=32)
SHARE = st.floats(0, 1)
WORDS = st.text(string.ascii_letters + " äß✓", max_size=60).map(printable_reason)
JUDGMENT = st.builds(
    Judgment,
    HEX,
    SHARE,
    WORDS,
    st.text("pxq_0123456789", max_size=20),
    st.integers(0, 59),
    SHARE,
)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    turns=st.dictionaries(
        st.tuples(HEX, HEX, st.integers(0, 3)),
        st.lists(JUDGMENT, min_size=1, max_size=8),
        min_size=1,
        max_size=5,
    )
)
def test_a_round_trip_changes_nothing(
    turns: dict[tuple[str, str, int], list[Judgment]], tmp_path: Path
) -> None:
    """The file round-trips: keys, scores to the last bit, places, reasons, checksums."""
    folder = tmp_path / secrets.token_hex(8)
    first, second = connect_store(folder / "a.db"), connect_store(folder / "b.db")
    for names, judgments_of_turn in turns.items():
        filled(first, judgments_of_turn, names)
    done = export_judgments(first, folder / "c", KEY)
    taken = take(second, folder / "c")
    assert everything(second) == everything(first)
    assert (taken.added, taken.known, taken.turns) == (done.judgments, 0, len(turns))
    assert take(second, folder / "c").added == 0
    first.close()
    second.close()


def test_every_flipped_byte_and_every_cut_is_noticed(file: Path) -> None:
    """No byte of the file can be changed, removed or added without breaking the signature."""
    intact = bytearray(file.read_bytes())
    read_export(file, KEY)
    for at in range(len(intact)):
        for changed in (
            intact[:at],
            intact[:at] + bytes([intact[at] ^ 0x20]) + intact[at + 1 :],
        ):
            file.write_bytes(changed)
            with pytest.raises((StoreUntrusted, UsageError)):
                read_export(file, KEY)
    file.write_bytes(intact * 2)
    with pytest.raises(StoreUntrusted):
        read_export(file, KEY)


def test_who_signed_it_is_told_apart(file: Path, second: Connection) -> None:
    """A wrong key and an altered file are different errors; a wrong key points to the file's
    key."""
    with pytest.raises(
        StoreUntrusted, match=rf"another key \({KEY.id}; yours is {OTHER.id}\)"
    ) as caught:
        take(second, file, OTHER)
    assert "--untrusted" in caught.value.hint and "store key`" not in caught.value.hint
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(StoreUntrusted, match="altered"):
        take(second, file)
    assert everything(second) == []


def rewritten(file: Path, *rows: dict[str, object], key: TransferKey = KEY) -> None:
    """Write lines as a careless exporter would."""
    lines = [msgspec.json.encode(row) for row in rows]
    file.write_bytes(encode_packed(Contents.JUDGMENTS, lines, key))


def signed(body: bytes, key: TransferKey) -> bytes:
    """Return a file of judgments with any body."""
    return join_file(Contents.JUDGMENTS, body, key)


def row(**changed: object) -> dict[str, object]:
    """Return one exported judgment with some fields changed."""
    judgment = SavedJudgment(
        TURN, "b" * 32, "openai:m", 0, "c" * 32, 0.5, 0.1, "p_1", 3, "calls it"
    )
    exported: dict[str, object] = msgspec.to_builtins(judgment)
    return exported | changed


BAD: dict[str, dict[str, object]] = {
    "below": {"score": -1.0},
    "no score": {"score": None},
    "a prior above": {"prior": 1.5},
    "a short hash": {"hash": "c" * 31},
    "a line end": {"hash": "c" * 32 + "\n"},
    "10 MB of reason": {"reason": "x" * 10_000_000},
    "a huge sample": {"sample": 2**40},
    "another column": {"path": "/etc/passwd"},
}


@pytest.mark.parametrize("changed", BAD.values(), ids=BAD.keys())
def test_a_value_that_no_judgment_has_refuses_the_file(
    changed: dict[str, object], tmp_path: Path, second: Connection
) -> None:
    """Signed or not, the validation is the same and comes before the first row."""
    place = tmp_path / "bad"
    rewritten(place, row(), row(**changed))
    for taken in (take, quarantine):
        with pytest.raises(UsageError, match=r"bad:3|endless line"):
            taken(second, place)
    assert everything(second) == [] and count_untrusted(second) == 0


def test_a_reason_is_made_harmless(tmp_path: Path, second: Connection) -> None:
    """A model's reason from elsewhere cannot control the terminal, and its secrets are redacted."""
    place = tmp_path / "said"
    rewritten(
        place, row(reason="\x1b[31m AKIA" + "IOSFODNN7EXAMPLQ" + " red\nline " + "x" * 600)
    )
    take(second, place)
    (reason,) = (stored_row[-1] for stored_row in everything(second))
    assert "\x1b" not in reason
    assert "\n" not in reason
    assert "AKIAIOSFODNN7EXAMPLQ" not in reason
    assert len(reason) == 240


def test_what_is_here_wins(file: Path, second: Connection) -> None:
    """An import changes no local judgment, nor adds a reason to it; a dry run adds nothing."""
    filled(second, [Judgment(f"{1:032x}", 0.9)])
    assert take(second, file, dry_run=True).added == 2
    assert len(everything(second)) == 1
    assert (take(second, file).added, take(second, file).known) == (2, 3)
    score_and_reason = {
        stored_row[3]: (stored_row[4], stored_row[-1]) for stored_row in everything(second)
    }
    assert score_and_reason[f"{1:032x}"] == (0.9, "")
    assert score_and_reason[f"{2:032x}"] == (
        0.5,
        "says 2",
    )


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "device", "text"])
def test_what_is_no_file_of_ours_is_refused(
    kind: str, tmp_path: Path, second: Connection
) -> None:
    """An import waits for no pipe, reads no device and parses no plain text."""
    place = tmp_path / "odd"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place = Path("/dev/zero")
    elif kind == "text":
        place.write_text("xscore-cache 3 not quite")
    for taken in (take, quarantine):
        with pytest.raises(UsageError):
            taken(second, place)


def test_strangers_scores_stay_in_quarantine(file: Path, second: Connection) -> None:
    """Quarantined scores are no judgments, do not affect judged contents, and are replaced by real
    judgments."""
    filled(second, [Judgment(f"{1:032x}", 0.9)])
    assert quarantine(second, file, dry_run=True).added == 2
    assert count_untrusted(second) == 0
    done = quarantine(second, file)
    assert (done.added, done.known, done.believed) == (2, 1, False)
    assert untrusted_scores(second, NAMES) == {f"{0:032x}": 0.0, f"{2:032x}": 0.5}
    assert read_judgments(second, (TURN, NAMES[1], 0)).keys() == {f"{1:032x}"}
    assert second.execute("SELECT count(*) FROM reason").fetchone() == (0,)
    filled(second, [Judgment(f"{2:032x}", 0.1)])
    assert untrusted_scores(second, NAMES) == {f"{0:032x}": 0.0}


def test_a_file_that_is_cut_short_or_goes_on_is_refused_unsigned_too(
    file: Path, second: Connection
) -> None:
    """Without a signature the end of the compressed lines is checked, and a truncated file adds
    nothing."""
    intact = file.read_bytes()
    for length in range(len(intact)):
        file.write_bytes(intact[:length])
        with pytest.raises(UsageError):
            quarantine(second, file)
    for suffix in (b"\n", intact.partition(b"\n")[2]):
        file.write_bytes(intact + suffix)
        with pytest.raises(UsageError, match="past its end"):
            quarantine(second, file)
    assert count_untrusted(second) == 0
    file.write_bytes(intact)
    assert quarantine(second, file).added == 3


def test_a_bomb_is_refused(
    tmp_path: Path, second: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes that unpack to too many rows, to one endless line or to endlessly many blank
    ones are not unpacked."""
    monkeypatch.setattr(judgment_files, "MAX_UNTRUSTED_ROWS", 1_000)
    place = tmp_path / "bomb"
    rewritten(place, *[row()] * 1_001)
    with pytest.raises(UsageError, match="more than 1,000 judgments"):
        quarantine(second, place)
    place.write_bytes(signed(zlib.compress(b"\n" * 1_001), OTHER))
    with pytest.raises(UsageError, match="bomb:2: "):
        quarantine(second, place)
    place.write_bytes(signed(zlib.compress(bytes(100_000_000)), OTHER))
    with pytest.raises(UsageError, match="endless line"):
        quarantine(second, place)
    place.write_bytes(signed(zlib.compress(bytes(1_000_000))[:-10], OTHER))
    with pytest.raises(UsageError, match="damaged"):
        quarantine(second, place)


def test_only_what_is_asked_for_travels(connection: Connection, tmp_path: Path) -> None:
    """Export by judge, by time of asking, and without reasons."""
    place = tmp_path / "some"
    filled(connection, [Judgment(f"{1:032x}", 0.5, "why")])
    filled(connection, [Judgment(f"{2:032x}", 0.5, "why")], ("b" * 32, "c" * 32, 0))
    connection.execute(
        "INSERT INTO turn (id, thread, turn_key, judge, task, started_at, state)"
        " VALUES ('t_1', '', ?, ?, 'a task', 50.0, 'done')",
        NAMES[:2],
    )
    assert export_judgments(connection, place, KEY, judges=("cccccccc",)).judgments == 1
    assert export_judgments(
        connection, place, KEY, since=40.0, reasons=False
    ) == JudgmentExport(judgments=1, turns=1, reasons=0, bytes=place.stat().st_size, key=KEY.id)
    exported = zlib.decompress(read_export(place, KEY).body)
    assert [msgspec.json.decode(line)["hash"] for line in exported.splitlines()] == [
        f"{1:032x}"
    ]
    before = place.read_bytes()
    with pytest.raises(NothingMatched):
        export_judgments(connection, place, KEY, since=60.0)
    assert place.read_bytes() == before
    assert [leftover.name for leftover in tmp_path.glob(".some*")] == []
    assert b"a task" not in exported and place.stat().st_mode & 0o777 == 0o600


def test_a_damaged_judgment_stays_behind(connection: Connection, tmp_path: Path) -> None:
    """A score that does not match its checksum is not exported as one."""
    filled(connection, judgments(0, 3))
    connection.execute("UPDATE judgment SET score = 0.75 WHERE content_id = 2")
    done = export_judgments(connection, tmp_path / "c", KEY)
    assert (done.judgments, done.damaged) == (2, 1)


@pytest.mark.parametrize("text", ["", "00" * 32, "zz" * 32, "ab" * 31, "é" * 64])
def test_a_weak_key_is_none(text: str) -> None:
    """A key is at least 32 random bytes; the error never shows the input."""
    with pytest.raises(UsageError) as refused:
        parse_transfer_key(text, where="it")
    assert not text or text not in refused.value.message + refused.value.hint


def test_the_key_file_that_was_read_is_the_one_that_was_private(tmp_path: Path) -> None:
    """While the file is constantly replaced by one that others may open, only the private one's key
    is used."""
    place, done = tmp_path / "key", threading.Event()
    texts = {0o600: bytes(range(32)).hex(), 0o644: bytes(range(1, 33)).hex()}

    def swap() -> None:
        while not done.is_set():
            for mode, text in texts.items():
                aside = tmp_path / "aside"
                aside.write_text(text)
                aside.chmod(mode)
                aside.replace(place)

    place.write_text(texts[0o600])
    place.chmod(0o600)
    swapping = threading.Thread(target=swap)
    swapping.start()
    taken: set[object] = set()
    refused = rounds = 0
    # The other thread comes late on a busy machine, and swaps all the time on a fast disk.
    while rounds < 2_000 or (not (refused and taken) and rounds < 200_000):
        rounds += 1
        try:
            key = transfer_key("", place)
        except UsageError as error:
            assert "others may open it" in error.message and "chmod 600" in error.hint
            refused += 1
        else:
            taken.add(key)
    done.set()
    swapping.join()
    assert taken == {KEY} and refused


@pytest.mark.parametrize(
    ("first_line", "by"),
    [
        (b'{"form":"xscore","schema":9,"holds":"judgments"}', "newer"),
        (b"xscore-cache 9 " + b"0" * 81, "newer"),
        (b"xscore-cache 2 " + b"0" * 81, "older"),
    ],
)
def test_a_file_of_another_form_is_named(
    file: Path, second: Connection, first_line: bytes, by: str
) -> None:
    """Both numbers are in the message; such a file is neither read nor replaced by an export."""
    file.write_bytes(first_line + b"\n" + file.read_bytes().partition(b"\n")[2])
    with pytest.raises(
        UsageError, match=rf"made by an? {by} xscore \(schema \d; this one reads \d( to \d)?\)"
    ) as raised:
        quarantine(second, file)
    assert raised.value.hint
    assert not may_replace_export(file)
