"""Readers of foreign files accept any bytes: parsers, redactor, importers.

`make fuzz` searches for hours.
"""

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extensions.sessions.session_writers import ClaudeLog, CodexLog
from tests.fuzz.mutations import mutated
from tests.indexer.conftest import cut_within_limits, unseen_rows
from tests.indexer.samples import SAMPLES
from tests.store.conftest import said
from tests.store.generated_secrets import SecretGenerator, provider_keys
from xscore.extensions.sessions import session_lines
from xscore.extensions.sessions.aider import AiderReader
from xscore.extensions.sessions.claude_code import ClaudeCodeReader
from xscore.extensions.sessions.codex import CodexReader
from xscore.extensions.sessions.session_lines import UnreadableSession
from xscore.extensions.sessions.session_reader import (
    ImportedExchange,
    SessionFile,
    SessionReader,
)
from xscore.extensions.transfer.saved_files import Contents, decode_file, read_records
from xscore.extensions.transfer.saved_records import SavedMemory, saved_memory
from xscore.indexer.admission import decode_text
from xscore.indexer.memories import source_file
from xscore.platform.errors import UsageError
from xscore.platform.files import FileRefused
from xscore.settings import IndexSettings, OpenAISettings, Settings, load_settings
from xscore.store.redaction import redact

pytestmark = pytest.mark.fuzz
ROOT = Path(__file__).parents[2]
SOURCES = {
    name: (ROOT / name).read_bytes()[:6_000]
    for name in (
        "xscore/indexer/links.py",
        "xscore/cost_reports/page_parts/page.js",
        "xscore/cost_reports/page_parts/page.css",
        "xscore/store/schema.sql",
        "README.md",
        "docs/providers.md",
        "pyproject.toml",
        "action.yml",
        "cost_reports/baseline.json",
        "Makefile",
    )
} | {path: text.encode() for path, text in SAMPLES.values()}
AIDER_LOG = (
    b"# aider chat started at 2026-11-20 10:00:00\n\n#### why is it slow?\n\nBecause of"
    b" `read_lines`.\n> Tokens: 1k\n"
)
LOGS: dict[str, tuple[type[SessionReader], bytes]] = {
    "claude": (
        ClaudeCodeReader,
        ClaudeLog("/r").user("why?").says("so").runs("make", "no", failed=True).text().encode(),
    ),
    "codex": (
        CodexReader,
        CodexLog("/r")
        .wire("user", "why?")
        .wire("assistant", "so")
        .event("user_message", message="x")
        .text()
        .encode(),
    ),
    "aider": (AiderReader, AIDER_LOG),
}
MEMORY_LINE = msgspec.json.encode(saved_memory(said("we use tenacity"), ())) + b"\n"
LUNA = Settings().judge.model
SETTINGS = b"""[judge]
tests = "full"
model = "openai:expensive"

[budget]
max_usd = 1000

[index]
exclude = ["dist/", "*.min.js"]

[bundle.ceilings]
session = 0.3
"""
SECRETS = sorted(provider_keys(SecretGenerator(7)).items())


@given(mutated(SOURCES))
def test_every_file_can_be_cut_and_no_line_is_lost(file: tuple[str, bytes]) -> None:
    """Any damaged source file is refused, or cut with each line in some memory."""
    name, data = file
    try:
        text = decode_text(data, name, max_line_chars=IndexSettings().max_line_chars)
    except FileRefused as refusal:
        assert str(refusal) in {"binary", "long_lines", "data", "broken_notebook", "baseline"}
    else:
        source = source_file(name, text, window_lines=60)
        assert unseen_rows(source, cut_within_limits(source)[0]) == []


@given(mutated(SOURCES), st.sampled_from(SECRETS), st.floats(0, 1), st.booleans())
def test_a_secret_on_a_line_of_its_own_is_found_anywhere(
    file: tuple[str, bytes], secret: tuple[str, str], at: float, prose: bool
) -> None:
    """A key between any two lines of any file is redacted; a second pass changes nothing; lines
    stay lines."""
    lines = file[1].decode("utf-8", "replace").split("\n")
    place = int(at * len(lines))
    text = "\n".join([*lines[:place], secret[1], *lines[place:]])
    once = redact(text, prose=prose)
    assert secret[1] not in once.text
    assert redact(once.text, prose=prose).text == once.text
    assert once.text.count("\n") == text.count("\n")


@given(mutated({name: data for name, (_, data) in LOGS.items()}))
def test_a_session_file_is_read_or_refused(file: tuple[str, bytes]) -> None:
    """Each line of any damaged agent log ends an exchange, or the file is refused with the line."""
    name, data = file
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        path.write_bytes(data)
        ended: list[ImportedExchange] = []
        reader = LOGS[name][0](SessionFile(path, is_in_repository=True, cwd="/r"), ended.append)
        try:
            with session_lines.open_session_file(path) as stream:
                for line in session_lines.read_lines(path, stream):
                    reader.read_line(line)
            reader.finish()
            assert ended or data != LOGS[name][1]
        except UnreadableSession as error:
            assert str(error) and data != LOGS[name][1]


@given(mutated({"lines.jsonl": MEMORY_LINE * 3}))
def test_lines_of_memories_are_read_or_refused(file: tuple[str, bytes]) -> None:
    """Every line of any damaged export is a valid memory, or the file is refused with a message."""
    try:
        lines = decode_file(file[1], "lines", Contents.MEMORIES, hint="")
        for _, record in read_records(lines, hint=""):
            assert isinstance(record, SavedMemory) and record.id
    except UsageError as error:
        assert error.message


@given(mutated({"settings.toml": SETTINGS}))
def test_a_settings_file_is_read_or_refused(file: tuple[str, bytes]) -> None:
    """Any settings in a clone are validated or refused, and set no host, key or budget."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".xscore.toml").write_bytes(file[1])
        try:
            loaded = load_settings(repo_root=Path(folder), user_file=None, environ={}).settings
        except UsageError as error:
            assert error.message
        else:
            assert loaded.budget == Settings().budget
            assert loaded.openai == OpenAISettings()
            assert loaded.judge.model == LUNA
