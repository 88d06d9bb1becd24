"""What crosses the pipe to the process that reads documents and back, and what a document may cost.

Both ends import it, so it loads no parser. Trade-off: a document is sent and returned whole.
"""

from typing import Literal

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

MEMORY_BYTES = 640 << 20
"""Memory limit of the process, not counting the files it maps."""
CPU_SECONDS = 25.0
"""CPU time after which the process is ended."""
READING_SECONDS = 15.0
"""CPU time after which no further page is read: what was read is kept."""
CLOCK_SECONDS = 90.0
"""Elapsed time after which the process is ended, in case it waits rather than works."""
MOST_PAGES = 3_000
"""Pages of a document that are read."""
MOST_CHARS = 4_000_000
"""Characters of a document that are kept."""
MOST_PASSAGES = 2_000
"""Passages of a document that are kept."""
MOST_UNPACKED = 200 << 20
"""Bytes that the parts of a packed document may have together."""
TITLE_CHARS = 160

DocumentForm = Literal["pdf", "docx", "html", "markdown", "text"]


class ReadingJob(Struct, frozen=True, tag=True):
    """A document to read."""

    data: bytes
    form: DocumentForm
    name: str
    """Title that the document gets if it has none."""
    charset: str = ""
    """Charset that the host gave; empty if it gave none."""


class RobotsJob(Struct, frozen=True, tag=True):
    """Whether a host's rules for robots allow an address."""

    rules: bytes
    address: str
    agent: str


class Passage(Struct, frozen=True):
    """A part of a document."""

    place: str
    """A heading with those above it, or `page 3`."""
    text: str


class ParsedDocument(Struct, frozen=True, kw_only=True):
    """What was read of a document; for rules for robots only `problem` is set."""

    title: str = ""
    passages: tuple[Passage, ...] = ()
    note: str = ""
    """What was not read of the document."""
    problem: str = ""
    """Why nothing was read."""
    redacted: int = 0
    """Secrets that were replaced in the text."""


ENCODER = Encoder()
JOB: Decoder[ReadingJob | RobotsJob] = Decoder(ReadingJob | RobotsJob)
PARSED = Decoder(ParsedDocument)
