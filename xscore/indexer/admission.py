"""Which files are let in: by their name, by what the file system says, and by their bytes. Each refusal has a reason.

Reasons: secret · symlink · submodule · nested_repository · outside · not_a_file · unreadable · dependencies ·
not_included · excluded · lockfile · session · catalogue · svg · minified · notebook · data · binary · too_large ·
long_lines · baseline.
"""

import os
import re
import stat
from functools import cache
from typing import TYPE_CHECKING

from xscore.errors import UsageError
from xscore.files import Refused
from xscore.memory.secrets.redact import is_secret_file, redact

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from xscore.settings import IndexSettings

DATA_BYTES = 100_000
"""Structured files above this size are data, not configuration."""
_LOCKFILES = frozenset(
    """
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock poetry.lock pdm.lock
    uv.lock Pipfile.lock conda-lock.yml Cargo.lock composer.lock Gemfile.lock go.sum go.work.sum flake.lock mix.lock
    pubspec.lock Podfile.lock Package.resolved gradle.lockfile packages.lock.json .terraform.lock.hcl
    """.split()  # noqa: SIM905  read as a list of words
)
_SESSIONS = frozenset({".aider.chat.history.md", ".aider.input.history", ".aider.llm.history"})
"""What was said to an agent: past sessions are imported, and would count twice as documents."""
_CLASSES = {
    "catalogue": "po pot xlf xliff resx",
    "svg": "svg",
    "minified": "map",
    "lockfile": "lock",
    "data": """
        csv tsv psv jsonl ndjson geojson topojson parquet arrow feather avro orc log dat snap ambr har ics vcf fasta
        fastq pdb sdf bib ris srt vtt""",
    "binary": """
        png jpg jpeg gif bmp ico icns webp avif tif tiff psd ai eps pdf doc docx xls xlsx ppt pptx odt ods zip gz tgz
        bz2 xz zst 7z rar tar jar war ear whl egg so dylib dll exe a o obj lib class pyc pyo pyd wasm woff woff2 ttf
        otf eot mp3 mp4 m4a wav ogg flac webm mov avi mkv sqlite sqlite3 db npy npz pkl pickle joblib h5 hdf5 pt pth
        onnx gguf safetensors bin mo gmo deb rpm dmg iso apk ipa keystore jks swf""",
}
_BY_SUFFIX = {suffix: reason for reason, suffixes in _CLASSES.items() for suffix in suffixes.split()}
_STRUCTURED = (".json", ".yaml", ".yml", ".xml", ".toml", ".txt")
_BASELINE = re.compile(r'\{\s*"attempts": \d+,\s*"calls": \d+,\s*"cost_usd": "')
"""How a baseline of ours begins, wherever it stands: a check that its own yardstick is a candidate of moves itself."""


class Rules:
    """What may be let in, by name and size."""

    def __init__(self, settings: "IndexSettings") -> None:
        self._max_bytes = settings.max_file_bytes
        self._include = _spec(settings.include)
        self._exclude = _spec(settings.exclude)

    def refusal(self, path: str, info: os.stat_result) -> str:
        """Why a file stays out, going by its name and what the file system says; empty: let it in."""
        return (
            _by_type(info.st_mode)
            or ("secret" if is_secret_file(path) or redact(path).count else "")
            or self._by_glob(path)
            or ("too_large" if info.st_size > self._max_bytes else "")
        )

    def _by_glob(self, path: str) -> str:
        if self._include is not None and not self._include.match_file(path):
            return "not_included"
        verdict = self._exclude.check_file(path).include if self._exclude is not None else None
        if verdict is not None:  # `!*.po` among the user's globs lets a built-in class back in
            return "excluded" if verdict else ""
        return by_name(path)


def _spec(globs: tuple[str, ...]) -> "GitIgnoreSpec | None":
    if not globs:
        return None
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(globs)
    except (ValueError, re.error) as error:
        raise UsageError(
            f"index.include or index.exclude: {' '.join(globs)} is no glob: {error}", hint="Globs are as in .gitignore."
        ) from error


def _by_type(mode: int) -> str:
    if stat.S_ISREG(mode):
        return ""
    if stat.S_ISLNK(mode):
        return "symlink"
    return "submodule" if stat.S_ISDIR(mode) else "not_a_file"


@cache
def by_name(path: str) -> str:
    """The built-in classes of files that stay out; empty: none of them."""
    name = path.rpartition("/")[2]
    lower = name.lower()
    if name in _LOCKFILES:
        return "lockfile"
    if name in _SESSIONS:
        return "session"
    if ".min." in lower or "-min." in lower:
        return "minified"
    return _BY_SUFFIX.get(lower.rpartition(".")[2], "") if "." in lower else ""


def decoded(data: bytes, path: str, *, max_line_chars: int) -> str:
    """The file's text with `\\n` line ends. Raises Refused for bytes that are no text, or none that people wrote."""
    text = _text(data)
    if "\0" in text:
        raise Refused("binary")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if any(len(line) > max_line_chars for line in text.split("\n")):
        raise Refused("long_lines")
    if len(data) > DATA_BYTES and path.lower().endswith(_STRUCTURED):
        raise Refused("data")
    if _BASELINE.match(text):
        raise Refused("baseline")
    return text


def _text(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif b"\0" in data[:8192]:
        raise Refused("binary")
    else:
        encoding = "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return _latin(data)


def _latin(data: bytes) -> str:
    """Text of an older encoding; what holds control characters is no text."""
    control = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in data)
    if control > len(data) // 1000:
        raise Refused("binary")
    return data.decode("latin-1")
