"""Look at a repository's files: again only at those that changed; what is known about each is
kept.

The index has read the code, so only its rows are read. Files of settings are few and are read
whole. The result is kept for each worktree under one key, by path and version. Trade-off: that
one value is written whole after each change, some 70 bytes a file.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from xscore.extensions.learning.observed.commands_told import told_commands
from xscore.extensions.learning.observed.file_traits import FileTraits, read_traits
from xscore.extensions.learning.observed.manifests_read import (
    SettingsTraits,
    is_manifest,
    is_settings_file,
    read_settings_file,
)
from xscore.extensions.learning.observed.named_places import NamedPlace
from xscore.extensions.learning.observed.observed_fact import ObservedFact
from xscore.extensions.learning.observed.purposes import RunCommand
from xscore.extensions.learning.observed.runtimes import locked_by, script_runner
from xscore.extensions.learning.observed.shares import shared_conventions
from xscore.extensions.learning.observed.stack import known_packages, shown_stack
from xscore.platform.files import FileRefused, opened_folder, read_file_under
from xscore.platform.hashing import digest
from xscore.platform.paths import RepositoryRoot, native_name
from xscore.store.index_rows import read_index_meta, write_index_meta
from xscore.store.task_names import NAMED_PLACES

MOST_CODE_FILES = 20_000
"""Most files of code that are looked at: what is kept of them is read and written whole."""
MOST_NAMES = 1_000
"""Most names of folders that are kept."""
MOST_FACTS = 20
"""Most facts noted of a repository."""
MOST_MANIFESTS = 50
MOST_SETTINGS_FILES = 80
MAX_SETTINGS_BYTES = 1_000_000
_HASH_CHARS = 12
"""How many characters of a file's hash identify its version."""
_LOOKED_AT = "observed_files"
"""Key in `worktree_meta` of an `_Observed`."""
_RULES = "3"
"""Version of the rules. Increase it when the same file would show something else."""
_FIRST_TOPICS = frozenset(
    """
    test_runner linter formatter type_checker package_manager orm http_client web_framework database
    ui
    """.split()
)
"""Parts of the stack that come before versions and conventions."""


class _Observed(Struct):
    """What is known about the files of a worktree."""

    rules: str = ""
    files: dict[str, FileTraits] = {}
    settings: dict[str, SettingsTraits] = {}


class FileFindings(Struct, frozen=True):
    """What the files show as they are now."""

    observed: _Observed
    locks: dict[str, str]
    """Package manager -> its lock file."""
    is_changed: bool
    """Whether the observation differs from what is kept."""
    has_news: bool
    """Whether the files may show something else than before."""

    def facts(self) -> list[ObservedFact]:
        """Return the facts to note, the most useful first."""
        return _facts_of(self.observed, self.locks)

    def keep(self, connection: sqlite3.Connection) -> None:
        """Keep what was read for the next time, in an open transaction."""
        if not self.is_changed:
            return
        written = msgspec.json.encode(self.observed).decode()
        write_index_meta(connection, _LOOKED_AT, written)
        names: dict[NamedPlace, None] = {}
        for _, traits in sorted(self.observed.settings.items()):
            names.update(dict.fromkeys(traits.names))
        places = ""
        if names:
            places = msgspec.json.encode(list(names)[:MOST_NAMES]).decode()
        write_index_meta(connection, NAMED_PLACES, places)


def look_at_files(
    connection: sqlite3.Connection,
    root: RepositoryRoot,
    *,
    goes_on: Callable[[int], bool] = lambda _changed: True,
) -> FileFindings | None:
    """Look at the files that changed since the last time; None if it is left to a later run.

    goes_on: whether this many changed files may be looked at now.
    Raises StoreError, StoreDamaged.
    """
    locks = locked_by(root.path)
    runner = script_runner(locks)
    earlier = _read_observed(connection, digest(_RULES, repr(locks), *known_packages()))
    code, settings = _listed_versions(connection)
    changed_code = _changed(code, earlier.files)
    changed_settings = _changed(settings, earlier.settings)
    gone = (earlier.files.keys() - code.keys()) | (earlier.settings.keys() - settings.keys())
    if not (changed_code or changed_settings or gone):
        return FileFindings(earlier, locks, is_changed=False, has_news=False)
    if not goes_on(len(changed_code) + len(changed_settings)):
        return None
    files = {path: traits for path, traits in earlier.files.items() if path in code}
    has_news = bool(changed_settings or gone)
    looked_at = dict(read_traits(connection, changed_code, known_packages()))
    for path, version in changed_code.items():
        # Empty code shows nothing, and is not looked at again.
        traits = looked_at.get(path) or FileTraits(version, "", is_test=False, traits={})
        before = files.get(path)
        has_news |= before is None or not traits.shows_the_same(before)
        files[path] = traits
    kept = {path: traits for path, traits in earlier.settings.items() if path in settings}
    kept.update(_read_settings(root, changed_settings, runner))
    observed = _Observed(earlier.rules, files, kept)
    return FileFindings(observed, locks, is_changed=True, has_news=has_news)


def _read_observed(connection: sqlite3.Connection, rules: str) -> _Observed:
    written = read_index_meta(connection, _LOOKED_AT)
    try:
        observed = msgspec.json.decode(written or "{}", type=_Observed)
    except msgspec.MsgspecError:
        # It can be found out again.
        observed = _Observed()
    if observed.rules != rules:
        return _Observed(rules)
    return observed


def _listed_versions(connection: sqlite3.Connection) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hashes of files of code, and of files of settings."""
    code: dict[str, str] = {}
    manifests: dict[str, str] = {}
    settings: dict[str, str] = {}
    rows = connection.execute(
        f"SELECT path, language, substr(file_hash, 1, {_HASH_CHARS}) FROM file"
        " WHERE excluded = '' AND version > 0"
    )
    for path, language, version in rows.fetchall():
        if is_manifest(path):
            manifests[path] = version
        elif is_settings_file(path):
            settings[path] = version
        if language not in _NO_CODE:
            code[path] = version
    outermost = sorted(manifests, key=lambda path: (path.count("/"), path))[:MOST_MANIFESTS]
    chosen = {path: manifests[path] for path in outermost}
    chosen |= {path: settings[path] for path in sorted(settings)[:MOST_SETTINGS_FILES]}
    if len(code) > MOST_CODE_FILES:
        code = {path: code[path] for path in sorted(code)[:MOST_CODE_FILES]}
    return code, chosen


_NO_CODE = frozenset(
    {"", "markdown", "json", "yaml", "toml", "text", "rst", "html", "css", "xml", "ini"}
)


def _changed(
    versions: Mapping[str, str], earlier: Mapping[str, FileTraits | SettingsTraits]
) -> dict[str, str]:
    changed: dict[str, str] = {}
    for path, version in versions.items():
        traits = earlier.get(path)
        if traits is None or traits.version != version:
            changed[path] = version
    return changed


def _read_settings(
    root: RepositoryRoot, versions: Mapping[str, str], package_manager: str
) -> Iterable[tuple[str, SettingsTraits]]:
    """Yield what these settings files show; an unreadable file shows nothing."""
    with opened_folder(root.path) as top:
        for path, version in versions.items():
            traits = SettingsTraits(version)
            try:
                data = read_file_under(top, native_name(path), max_bytes=MAX_SETTINGS_BYTES)
                traits = read_settings_file(
                    path,
                    data.decode("utf-8"),
                    version=version,
                    known_packages=known_packages(),
                    package_manager=package_manager,
                )
            except (FileRefused, OSError, ValueError):
                pass
            yield path, traits


def _facts_of(observed: _Observed, locks: Mapping[str, str]) -> list[ObservedFact]:
    """Return the facts to note: commands first, then tools, versions, conventions, the rest of the
    stack."""
    commands: list[RunCommand] = []
    runtimes: list[ObservedFact] = []
    for path, traits in sorted(observed.settings.items()):
        commands += traits.commands
        # The top folder's alone: a package below may ask for anything.
        if "/" not in path:
            runtimes += traits.runtimes
    # A lock file alone says nothing about a project.
    if not observed.settings:
        locks = {}
    stack = [part.as_fact() for part in shown_stack(observed.files, observed.settings, locks)]
    first = [fact for fact in stack if fact.key in _FIRST_TOPICS]
    rest = [fact for fact in stack if fact.key not in _FIRST_TOPICS]
    facts = [
        *told_commands(_of_main_language(commands, observed.files)),
        *first,
        *_one_a_key(runtimes),
        *shared_conventions(observed.files),
        *rest,
    ]
    return facts[:MOST_FACTS]


_SCRIPT_LANGUAGES = frozenset({"javascript", "typescript", "tsx", "vue", "svelte"})


def _of_main_language(
    commands: Sequence[RunCommand], files: Mapping[str, FileTraits]
) -> list[RunCommand]:
    """Leave out the scripts of `package.json` where the code is in another language, and something
    else says how it is worked on."""
    scripted = sum(file.language in _SCRIPT_LANGUAGES for file in files.values())
    if 2 * scripted >= len(files):
        return list(commands)
    chosen: list[RunCommand] = []
    for command in commands:
        has_rival = any(
            rival.purpose is command.purpose and not rival.at.path.endswith("package.json")
            for rival in commands
        )
        if not (has_rival and command.at.path.endswith("package.json")):
            chosen.append(command)
    return chosen


def _one_a_key(facts: Sequence[ObservedFact]) -> list[ObservedFact]:
    by_key: dict[str, ObservedFact] = {}
    for fact in facts:
        by_key.setdefault(fact.key, fact)
    return list(by_key.values())
