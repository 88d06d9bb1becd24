"""List the files of a repository and decide which are indexed: by name, by file system metadata, by content.

The list comes from git, or from a walk that obeys .gitignore; symbolic links are never followed, submodules and nested
repositories keep their own stores. Each refusal has a reason: secret · symlink · submodule · nested_repository ·
outside · not_a_file · unreadable · dependencies · not_included · excluded · lockfile · session · catalogue · svg ·
minified · bundle · settings · data · binary · too_large · long_lines · baseline.
"""

import os
import re
import stat
from functools import cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, field

from xscore.platform.errors import UsageError
from xscore.platform.files import FileRefused
from xscore.platform.git import run_git
from xscore.platform.git_folder import claims_git
from xscore.platform.paths import RepositoryRoot, portable_name
from xscore.records.memory import Excluded
from xscore.store.redaction import is_secret_file, redact

if TYPE_CHECKING:
    from xscore.platform.globs import GlobList
    from xscore.settings import IndexSettings


MAX_RULES, MAX_RULES_BYTES = 1_000, 100_000
"""Lines and bytes read of one .gitignore file."""
LISTING_S = 10.0
"""How long git may work on a list of files: it matches a glob of many stars in exponential time."""
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
"""Agent transcripts: past sessions are imported, and would count twice as documents."""
_OWN_SETTINGS = ".xscore.toml"
_BUNDLE = re.compile(r"(^|/)dist/(.*/)?[^/]+\.([cm]?js|[cm]?ts|css)$|[.-]bundle\.[cm]?js$")
"""Built copies of sources that are here as well; `index.exclude = ["!dist/"]` takes them in."""
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
_OTHER_TYPES = {stat.S_IFLNK: "symlink", stat.S_IFDIR: "submodule"}
_BASELINE = r'\{\s*"attempts": \d+,\s*"calls": \d+,\s*"cost_usd": "'
"""Start of a baseline file of `report --check`, which must not be indexed."""


class AdmissionRules:
    """Which files are indexed, by name and size."""

    def __init__(self, settings: "IndexSettings") -> None:
        self._max_bytes = settings.max_file_bytes
        self._include = _spec(settings.include)
        self._exclude = _spec(settings.exclude)

    def refusal(self, path: str, info: os.stat_result) -> str:
        """Return why a file is excluded, by its name and metadata; empty: it is indexed."""
        if not stat.S_ISREG(info.st_mode):
            return _OTHER_TYPES.get(stat.S_IFMT(info.st_mode), "not_a_file")
        return self.refusal_by_path(path) or ("too_large" if info.st_size > self._max_bytes else "")

    def refusal_by_path(self, path: str) -> str:
        """Return why a file of this name is excluded, whatever it holds; empty: it is not."""
        if is_secret_file(path) or redact(path).count:
            return "secret"
        if self._include is not None and not self._include.verdict(path):
            return "not_included"
        verdict = self._exclude.verdict(path) if self._exclude is not None else None
        if verdict:
            return "excluded"
        return refusal_by_name(path) if verdict is None else ""  # `!*.po` readmits a built-in class


def _spec(globs: tuple[str, ...]) -> "GlobList | None":
    if not globs:
        return None
    from xscore.platform.globs import GlobList

    try:
        return GlobList(globs)
    except (ValueError, re.error) as error:
        raise UsageError(
            f"index.include or index.exclude: {' '.join(globs)} is no glob: {error}", hint="Globs are as in .gitignore."
        ) from error


@cache
def refusal_by_name(path: str) -> str:
    """Return the built-in class of excluded files this path is in; empty: none."""
    name = path.rpartition("/")[2]
    lower = name.lower()
    if name in _LOCKFILES:
        return "lockfile"
    if name in _SESSIONS:
        return "session"
    if path == _OWN_SETTINGS:
        return "settings"
    if ".min." in lower or "-min." in lower:
        return "minified"
    if _BUNDLE.search(path):
        return "bundle"
    return _BY_SUFFIX.get(lower.rpartition(".")[2], "") if "." in lower else ""


def decode_text(data: bytes, path: str, *, max_line_chars: int) -> str:
    """Return the text with `\\n` line ends. Raises FileRefused for binary, minified or generated files."""
    text = _text(data)
    if "\0" in text:
        raise FileRefused("binary")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if path.endswith(".ipynb"):
        text = _without_outputs(text)
    if any(len(line) > max_line_chars for line in text.split("\n")):
        raise FileRefused("long_lines")
    if len(data) > DATA_BYTES and path.lower().endswith(_STRUCTURED):
        raise FileRefused("data")
    if re.match(_BASELINE, text):
        raise FileRefused("baseline")
    return text


def _without_outputs(notebook: str) -> str:
    from xscore.indexer.embedded import notebook_text  # few repositories have any

    try:
        return notebook_text(notebook)
    except ValueError:
        raise FileRefused("data") from None


def _text(data: bytes) -> str:
    is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not is_wide and b"\0" in data[:8192]:
        raise FileRefused("binary")
    try:
        return data.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError:  # an older encoding, unless control characters say it is binary
        if sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in data) > len(data) // 1000:
            raise FileRefused("binary") from None
        return data.decode("latin-1")


PRUNED = frozenset(
    """
    .git .hg .svn .jj .xscore node_modules bower_components __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache
    .ruff_cache .hypothesis .eggs .gradle .terraform .next .nuxt .cache .parcel-cache site-packages
    """.split()  # noqa: SIM905  read as a list of words
)
"""Folders of dependencies, caches and version control, skipped in plain folders."""
_SILENT = frozenset({".git", ".hg", ".svn", ".jj", ".xscore", "__pycache__"})
_NEVER = frozenset({"..", ".git"})
"""Path parts that no legitimate git index contains."""


class FileListing(Struct):
    """Files found, and folders excluded as a whole."""

    paths: list[str] = field(default_factory=list)
    """As the file system names them, relative to the root."""
    excluded: list[Excluded] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


_too_slow: set[Path] = set()
"""Roots where git ran out of time; this process does not ask it there again."""


def discover_files(root: RepositoryRoot, *, git: bool = True) -> FileListing:
    """List the files of a root: by git where it is a worktree, else by walking."""
    if root.is_git and git and root.path not in _too_slow:
        began = monotonic()
        printed = run_git(root.path, "ls-files", "-co", "--exclude-standard", "-z", timeout_s=LISTING_S)
        if printed is not None:
            return _listed(printed)
        if monotonic() - began >= LISTING_S:
            _too_slow.add(root.path)
    if _is_bare(root.path):
        return FileListing(notes=["this is git's own folder, or a bare repository: it holds no files to remember"])
    listing = walk_folder(root.path)
    if root.is_git and git:
        failed = f"took more than {LISTING_S:g} s to" if root.path in _too_slow else "could not"
        listing.notes.append(f"git {failed} list the files of this repository; its ignore rules were read without it")
    elif git and claims_git(root.path):
        listing.notes.append(
            "the .git here leads out of this folder (by a link, shared objects or an included file):"
            " git is not asked, and the folder was read as a plain one"
        )
    return listing


def _listed(printed: str) -> FileListing:
    """Parse git's list: a trailing slash is a nested repository; a path may occur twice during a merge.

    A crafted index can name files outside the root or inside `.git`, and git prints them, so they are checked here.
    """
    listing = FileListing()
    for name in dict.fromkeys(printed.split("\0")):
        if name.endswith("/"):
            listing.excluded.append(Excluded(portable_name(name), "nested_repository"))
        elif not _NEVER.isdisjoint(name.lower().split("/")):
            listing.excluded.append(Excluded(portable_name(name), "outside"))
        elif name and not name.startswith(".xscore/"):
            listing.paths.append(name)
    return listing


def walk_folder(top: Path) -> FileListing:
    """List a plain folder, obeying its .gitignore files."""
    listing = FileListing()
    todo: list[tuple[str, tuple[tuple[str, GlobList], ...]]] = [("", ())]
    while todo:
        folder, rules = todo.pop()
        spec = _ignore_rules(top / folder / ".gitignore")
        rules += ((folder, spec),) if spec is not None else ()
        try:
            with os.scandir(top / folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            listing.excluded.append(Excluded(portable_name(folder), "unreadable"))
            continue
        for entry in entries:
            name = f"{folder}{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if _is_ignored(name + "/" if is_folder else name, rules):
                continue
            if not is_folder and entry.name != ".git":
                listing.paths.append(name)
            elif is_folder and _may_enter(top, name, listing):
                todo.append((name + "/", rules))
    listing.paths.sort()
    return listing


def _may_enter(top: Path, name: str, listing: FileListing) -> bool:
    base = name.rpartition("/")[2]
    if base in PRUNED or (top / name / "pyvenv.cfg").is_file():
        if base not in _SILENT:
            listing.excluded.append(Excluded(portable_name(name) + "/", "dependencies"))
        return False
    if os.path.lexists(top / name / ".git") or _is_bare(top / name):
        listing.excluded.append(Excluded(portable_name(name) + "/", "nested_repository"))
        return False
    return True


def _is_bare(folder: Path) -> bool:
    """Whether a folder is a git directory, which is never indexed."""
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def _ignore_rules(file: Path) -> "GlobList | None":
    if file.is_symlink() or not file.is_file():
        return None
    from xscore.platform.globs import GlobList, is_glob

    try:
        with file.open("rb") as opened:
            read = opened.read(MAX_RULES_BYTES + 1)
    except OSError:
        return None
    if len(read) > MAX_RULES_BYTES:  # without the line that was cut: the rest of it would be another rule
        read = read[:MAX_RULES_BYTES].rpartition(b"\n")[0]
    lines = read.decode("utf-8", "replace").splitlines()[:MAX_RULES]
    try:
        return GlobList(lines, below=False)
    except (ValueError, re.error):
        return GlobList(filter(is_glob, lines), below=False)  # as in git, a line that is no glob ignores nothing


def _is_ignored(name: str, rules: "tuple[tuple[str, GlobList], ...]") -> bool:
    """Whether a path is ignored: the deepest rule file with a match decides."""
    for folder, spec in reversed(rules):
        verdict = spec.verdict(name.removeprefix(folder))
        if verdict is not None:
            return verdict
    return False
