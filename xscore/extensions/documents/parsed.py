"""What crosses the pipe to the process that reads documents and back, and what a document may cost.

Both ends import it, so it loads no parser. Trade-off: a document is sent and returned whole.
"""

from typing import Literal

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

MEMORY_BYTES = 640 << 20
"""Memory of the process besides the files it maps."""
CPU_SECONDS = 25.0
"""CPU time after which the process is ended."""
READING_SECONDS = 15.0
"""CPU time after which no further page is read: what was read is kept."""
CLOCK_SECONDS = 90.0
"""Time by the clock after which the process is ended, should it wait rather than work."""
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
    """Its title if it has none."""
    charset: str = ""
    """As its host gave it; empty: it gave none."""


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
    """What was read of a document; of rules for robots `problem` alone."""

    title: str = ""
    passages: tuple[Passage, ...] = ()
    note: str = ""
    """What of it was not read."""
    problem: str = ""
    """Why nothing was."""
    redacted: int = 0
    """Secrets that were replaced in the text."""


ENCODER = Encoder()
JOB: Decoder[ReadingJob | RobotsJob] = Decoder(ReadingJob | RobotsJob)
PARSED = Decoder(ParsedDocument)
