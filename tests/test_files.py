"""Files that are written: a named pipe gets what a reader takes, and waits for a reader a while."""

import os
import re
import threading
from pathlib import Path

import pytest

from xscore.platform import files
from xscore.platform.errors import ExitCode, UsageError
from xscore.platform.files import write_atomically


def test_a_pipe_that_nobody_reads_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing ends with an error instead of waiting."""
    monkeypatch.setattr(files, "READER_S", 0.1)
    pipe = tmp_path / "turn.html"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match=re.escape(str(pipe))) as refused:
        write_atomically(pipe, b"page")
    assert refused.value.exit_code == ExitCode.USAGE
    assert refused.value.hint and pipe.is_fifo()


def test_a_pipe_that_is_read_gets_all(tmp_path: Path) -> None:
    """It gets more than a pipe holds, too, and does so if it comes a moment later."""
    pipe = tmp_path / "turn.html"
    os.mkfifo(pipe)
    content = b"page" * 100_000
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, content)
    reader.join(30)
    assert received == [content]
