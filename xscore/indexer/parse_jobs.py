"""What crosses the pipe to a parsing process and back: jobs, results, frames, and what a file may
cost.

Both ends import it, so it loads neither a grammar nor a cutter. Trade-off: a frame is read whole
before it is decoded.
"""

import os
import struct

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from xscore.indexer.languages import Language
from xscore.records.indexing import FileStamp

MEMORY_BYTES = 240 << 20
"""Memory limit of a parsing process, not counting the files it maps: some inputs of 4 kB would
take gigabytes."""
CPU_SECONDS = 0.8
"""CPU time that any file may take; ordinary code takes a tenth of it for `USUAL_BYTES`."""
USUAL_BYTES = 64_000
"""Size up to which a file may take `CPU_SECONDS` and no more."""
LARGE_BYTES_PER_SECOND = 100_000
"""Additional time for the bytes beyond: an eighth of the usual speed."""
_LENGTH = struct.Struct(">I")
_CHUNK_BYTES = 1 << 16


class ParseJob(Struct, frozen=True):
    """A file to cut: its text and stamp."""

    stamp: FileStamp
    text: str
    mtime_ns: int
    window_lines: int
    now: float
    allow_pii: bool = False
    languages: tuple[Language, ...] = ()
    """Languages of other packages."""
    without_grammar: str = ""
    """Why no grammar may be used: it crashed, or took too much; empty if one may."""


ENCODER, JOBS = Encoder(), Decoder(list[ParseJob])


def cpu_limit_s(size: int) -> float:
    """Return the CPU time that a file of this size in bytes may take, in seconds."""
    return CPU_SECONDS + max(0, size - USUAL_BYTES) / LARGE_BYTES_PER_SECOND


def framed(payload: bytes) -> bytes:
    """Return a message with its length before it."""
    return _LENGTH.pack(len(payload)) + payload


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it. Raises OSError if the reader is gone."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class FrameReader:
    """Reads the messages that come through a pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._received = bytearray()

    def read(self) -> bytes:
        """Wait for the next message and return it. Raises EOFError if there is no other."""
        while (frame := self.next_frame()) is None:
            if not self.fill():
                raise EOFError
        return frame

    def fill(self) -> bool:
        """Read what is there; return False at the end of the pipe.

        Raises BlockingIOError if nothing is.
        """
        chunk = os.read(self._descriptor, _CHUNK_BYTES)
        self._received += chunk
        return bool(chunk)

    def next_frame(self) -> bytes | None:
        """Return the next message if all of it has arrived."""
        start = _LENGTH.size
        if len(self._received) < start:
            return None
        end = start + _LENGTH.unpack_from(self._received)[0]
        if len(self._received) < end:
            return None
        frame = bytes(self._received[start:end])
        del self._received[:end]
        return frame
