"""Personal data is redacted unless `memory.allow_pii` is set; what only looks like it stays."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import MakeRepo
from tests.store.conftest import said
from xscore.extensions.transfer.memory_lines import import_lines
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Layer, MemoryDetails, MemorySource
from xscore.settings import MemorySettings
from xscore.store import failures, memory_writer
from xscore.store.personal_data import redact_pii
from xscore.store.store import Store

AT = "@"
PEOPLE = [
    ("write to jane.doe" + AT + "posteo.de today", "write to <PII:email> today"),
    ('"email": "j_d+spam' + AT + 'mail.corp-x.co.uk",', '"email": "<PII:email>",'),
    ("author=Jane <jane" + AT + "corp-x.io>", "author=Jane <<PII:email>>"),
    ("owner=jane" + AT + "corp-x.io", "owner=<PII:email>"),
    ("[mail](mailto:jane" + AT + "corp-x.io)", "[mail](mailto:<PII:email>)"),
    ("call +49 151 234 567 89 please", "call <PII:phone> please"),
    ('on_call = "+4915123456789"', 'on_call = "<PII:phone>"'),
    ("ring (202) 456-1111", "ring <PII:phone>"),
    ("+49 151 40817733", "<PII:phone>"),
    ("my number: +49 151 2345679", "my number: <PII:phone>"),
    ("Tel. +49 151 40817733", "Tel. <PII:phone>"),
    ("+91 98765 40817", "<PII:phone>"),
    ("ask Anna, +49(0)151 40817733.", "ask Anna, <PII:phone>."),
    ("+49/151/40817733", "<PII:phone>"),
    ("+49151 2345679", "<PII:phone>"),
    ("+351 912 345 678", "<PII:phone>"),
    ("0151 40817733", "<PII:phone>"),
    ("+4915140817733", "<PII:phone>"),
    ("Anna (+12024561111)", "Anna (<PII:phone>)"),
    ("phone: 030 9876543", "phone: <PII:phone>"),
    ('"mobile_number": "0151-23456789"', '"mobile_number": "<PII:phone>"'),
    ("call Anna on 030 9876543 if it burns", "call Anna on <PII:phone> if it burns"),
    ("her number is 0151/23456789.", "her number is <PII:phone>."),
    ("reach Bob at 202-456-1111", "reach Bob at <PII:phone>"),
    ("Bob: 415.867.5309, Berlin", "Bob: <PII:phone>, Berlin"),
    ("Anna (0171 234 5678) knows", "Anna (<PII:phone>) knows"),
    ("ship to 12 Elm Street, Springfield, IL 62704", "ship to <PII:address>"),
    ("at 221B Baker Street\n  London NW1 6XE", "at <PII:address>\n"),
    ("wohnt Lindenstraße 5, 10969 Berlin.", "wohnt <PII:address>."),
    ('street = "7 Old Mill Road"', 'street = "<PII:address>"'),
]
NOBODY = [
    "git" + AT + "github.com:owner/repo.git",
    "ssh://git" + AT + "host.org/x",
    "jane" + AT + "build.corp-x.io:/srv/www",
    "postgres://jane" + AT + "db.corp-x.io/x",
    "https://jane:passw0rd" + AT + "corp-x.io/page",
    "noreply" + AT + "corp-x.io and 12345+jane" + AT + "users.noreply.github.com",
    "security" + AT + "project.org",
    "jane" + AT + "example.com, jane" + AT + "mail.example.org, a" + AT + "b.invalid",
    "uses: actions/checkout" + AT + "v4.2.io",
    "pkg" + AT + "1.2.3, icon" + AT + "2x.png, getty" + AT + "tty1.service",
    "python>=3.11, 10.0.0.1:8080, 192.168.100.200, 2001:db8::1",
    "version: 12.345.6789-1234, sha 0123456789abcdef, 2024-01-31T10:20:30+01:00",
    "phone: 555-0134, +1 (202) 555-0134, tel = 1234567890, fax: 000-0000000",
    "+1234567890\n+9876543210 added in a diff",
    "+1 2 3, 1 +1 1000000, +1.2.3-4, 1.0.0+20240131.1234567, +10 000 000 rows, +1.234.567",
    "+31-12-2024 and\n+31.12.2024 10:20, 10:20:30 +1100 2024-01-31, +20240131120000",
    (
        "+978-3-16-148410-0, ISBN 978-3-16-148410-0, +1700000000, +1700000000000, 123456789012,"
        " +123456789012"
    ),
    "sha +0123456789abcdef, @@ -10,7 +1234,70 @@, a+4915140817733, 0151 4081773344",
    "id 202-456-1111-9 of 4111 1111 1111 1111",
    "call 1234567 times, reach 10 000 000 rows, text 0123456 bytes",
    "call(0, 1000000), dial timeout 0.1234567, number = 0x12345678",
    "commit 2026-11-22 0100 0101 0110, 0.123.4567 ms, port 200-300-4000x",
    "error number 404, call 3 of 12, contact 0",
    "timeout: 3600000, phone_fields: 12, cellular: 1000000",
    "3 Way Merge and 2 Main Roads in 5 Places",
    "port = 5432 # st",
    "a" + AT + "b",
]


@pytest.mark.parametrize(("text", "clean"), PEOPLE)
def test_people_are_taken_out(text: str, clean: str) -> None:
    """P03: e-mail addresses, phone numbers and postal addresses become marks; line numbers stay."""
    redacted = redact_pii(text)
    assert (redacted.text, redacted.count) == (clean, 1)
    assert redact_pii(redacted.text).text == redacted.text
    assert redacted.text.count("\n") == text.count("\n")


@pytest.mark.parametrize("text", NOBODY)
def test_what_only_looks_like_a_person_stays(text: str) -> None:
    """P03: versions, IP addresses, logins, roles and examples are not personal data."""
    assert redact_pii(text).text == text


@given(st.text(alphabet="aZ0.@+-() :/\n=\"'é", max_size=300))
def test_marks_are_stable_and_lines_stay(text: str) -> None:
    """For any text, line numbers stay and a second pass changes nothing."""
    once = redact_pii(text).text
    assert redact_pii(once).text == once and once.count("\n") == text.count("\n")


def test_the_door_screens_configuration_and_what_is_said_unless_told_otherwise() -> None:
    """P03: config and stated memories lose PII before they are hashed; code, documents and opted-in
    stores keep it."""
    line = f"owner: jane{AT}corp-x.io"
    spoken = said(line, details=MemoryDetails(rationale=f"ask jane{AT}corp-x.io"))
    assert (spoken.text, spoken.title) == ("owner: <PII:email>", "owner: <PII:email>")
    assert spoken.details.rationale == "ask <PII:email>"
    assert said(line, allow_pii=True).text == line
    for kind, clean in (
        (Kind.CONFIG, "owner: <PII:email>"),
        (Kind.DOC, line),
        (Kind.FUNCTION, line),
    ):
        memory, count = memory_writer.make_memory(
            layer=Layer.VECTOR,
            kind=kind,
            title="t",
            text=line,
            path="a",
            source=MemorySource.INDEX,
        )
        assert (memory.text, count) == (clean, int(clean != line))


MAIL = "jane.doe" + "@" + "posteo.de"


@pytest.mark.parametrize("allowed", [True, False])
def test_failures_and_imported_lines_follow_the_setting(
    make_repo: MakeRepo, tmp_path: Path, allowed: bool
) -> None:
    """An address in an error, its cause, its fix or an imported line is kept only if allowed."""
    root, settings = (
        find_root(make_repo({"a.py": "x = 1\n"})),
        MemorySettings(allow_pii=allowed),
    )
    with Store.open(root, user_data_dir=tmp_path / "data", settings=settings) as store:
        met = failures.record_failure(
            store,
            text=f"Error: no mail to {MAIL}",
            details=MemoryDetails(rationale=f"{MAIL} is gone"),
        )
        mended = failures.resolve_failure(store, met.memory.id, f"write to {MAIL} again")
        line = {
            "schema": 1,
            "id": "m_" + "a" * 20,
            "layer": "project",
            "kind": "convention",
            "title": "mail",
            "text": f"ask {MAIL}",
            "source": "explicit",
            "created_at": 1.0,
            "updated_at": 1.0,
        }
        import_lines(store, (json.dumps(line) + "\n").encode())
        texts = [
            row[0]
            for row in store.connection.execute(
                "SELECT text || attrs FROM memory WHERE source <> 'index'"
            )
        ]
    assert [MAIL in text for text in texts] == [allowed] * len(texts) and len(texts) == 2
    assert (mended.memory.text.count(MAIL) == 3) is allowed
