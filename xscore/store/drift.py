"""Whether what a memory names still exists: its files, symbols, commands and versions.

Asked when a fact is shown, of the tree as the index has just read it: a file on the disk; a symbol
as an entity, a mention or a word of code; a command in the manifests that declare it; a version in
what is required. What cannot be known to be gone counts as there. Citations are checked by
`evidence`. It changes nothing. Trade-off: a symbol that other code has, too, counts as there.
"""

import os
import re
import shutil
import sqlite3
import struct
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from xscore.platform.clock import DAY_S
from xscore.platform.files import leads_out, opened_folder
from xscore.platform.git import run_git
from xscore.platform.paths import RepositoryRoot, native_name
from xscore.platform.text import counted, normalized_package
from xscore.records.memory import Kind, Layer, Memory, MemoryStatus
from xscore.store.declared import Declared, is_manifest, read_declared
from xscore.store.link_rows import entities_named, paths_mentioning
from xscore.store.named_things import NamedKind, NamedThing, named_things
from xscore.store.required_versions import allows, has_number
from xscore.store.term_vectors import split_word
from xscore.store.worktrees import LISTED_HERE

if TYPE_CHECKING:
    from xscore.store.store import Store

CHANGED = "what it cites has changed"
MOST_GONE_NAMED = 2
"""Most gone things that a warning names."""
SHORTEST_SYMBOL = 3
_PAST = frozenset(
    {Kind.COMMIT, Kind.EXCHANGE, Kind.SUMMARY, Kind.TODO, Kind.FAILURE, Kind.PATTERN}
)
"""Kinds that are about the past, or about what is not there yet."""
_GENERATED = re.compile(
    r"(?:\./)?(?:dist|build|out|target|node_modules|[\w.-]*venv|tmp|temp|coverage|site-packages"
    r"|__pycache__|\.cache|\.git|bin|obj|logs?)/"
)
"""Matches folders that tools fill: whether their files exist says nothing."""
_PRODUCT = re.compile(
    r"(?i)(?:node|vue|next|nuxt|express|three|d3|react|angular|ember|backbone|socket|chart|moment"
    r"|alpine|discord|p5|day|web3|asp|ml|vb|ado)\.(?:js|ts|net)\Z"
)
"""Matches products that are named like files."""
_SOURCE = re.compile(
    r"\.(?:pyi?|go|rs|java|kt|rb|cs|c|cc|cpp|h|hpp|php|swift|scala|sh|sql|proto|tf|tsx|jsx|vue)\Z"
)
"""Matches file endings that nothing but a file has."""
_DOCUMENTS = (".md", ".mdx", ".rst", ".txt", ".adoc")
"""Endings of documents. A symbol that only documents name is gone."""
_ENDED = re.compile(r"\.\w{1,8}\Z")
_VERSIONED_BY_ONE_NUMBER = frozenset({"python", "node", "go", "java"})
"""Products that are often named with a whole number as the version, as in `node 18`."""
_BINARY_MANIFESTS = ("pyproject.toml", "setup.cfg", "setup.py", "package.json", "Cargo.toml")
LOOKUP_S = 0.1
"""Most seconds for one question to git's history."""
_OTHER_PLACE = frozenset({"-C", "-f", "--directory", "--file", "--makefile"})
_RUNNERS = frozenset({"uv", "poetry", "pdm", "pipenv", "hatch", "rye", "bundle", "dotenv"})
_NODE_RUNNERS = frozenset({"npm", "pnpm", "yarn", "bun"})
_LIKELY_SCRIPTS = frozenset({"test", "start", "build", "lint", "dev", "format", "typecheck"})
_OWN_SCRIPTS = frozenset({"test", "start", "stop", "restart"})
"""Scripts that npm runs without `run`."""
_COMMON_PROGRAMS = frozenset(
    """
    alembic ansible apt apt-get aws awk az bash bat black brew bundle bun cargo cat cd celery chmod
    chown clang cmake cmd code composer conda cp createdb crontab ctest curl dart date deno diff
    django-admin docker docker-compose dotnet dropdb echo emacs eslint export fd find flask flutter
    flyctl gcc gcloud gem gh git glab go gofmt goimports golangci-lint gpg gradle gradlew grep
    gunicorn gzip head helm heroku hg install isort java javac jest jq just kill kubectl less ln ls
    lsof lua make meson minikube mix mkdir mongo mongod mv mvn mvnw mypy mysql nano nc netlify nginx
    ninja node nohup nox npm npx nvm open openssl patch perl pg_dump php phpunit ping pip pip3 pipx
    pnpm podman pre-commit prettier prisma psql pwd py pyenv pylint pytest python python3 pwsh rails
    rake rbenv redis-cli rg rm rspec rsync ruby ruff rustc rustup rye sbt scala scp sed sh sort
    source sqlite3 ssh ssh-add ssh-keygen stat sudo supervisorctl svn swift systemctl tail tar tee
    telnet terraform test time tmux top touch tox tree tsc tslint twine type uname uv uvicorn uvx
    vagrant vercel vi vim virtualenv vite vitest wc webpack wget which xargs xcodebuild yarn zip zsh
    """.split()
)
"""Commands that no manifest has to declare."""


class GoneThing(Struct, frozen=True):
    """What a text names and that no longer exists."""

    thing: NamedThing
    instead: str = ""
    """The version that is required now; empty for anything but a version."""


class DriftCheck:
    """Looks up what texts name in a repository; what was read once is kept for the others."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        root: RepositoryRoot,
        *,
        lookups: int = 1,
        lookup_s: float = LOOKUP_S,
    ) -> None:
        """lookups: how often git's history may be asked, where nothing else can tell.
        lookup_s: most seconds for each.
        """
        self._connection = connection
        self._root = root
        self._lookups_left = lookups
        self._lookup_s = lookup_s

    def gone(self, things: Iterable[NamedThing]) -> list[GoneThing]:
        """Return those of these that no longer exist."""
        gone_things: list[GoneThing] = []
        for thing in things:
            if thing.kind is NamedKind.VERSION:
                required = self._other_version(thing)
                if required:
                    gone_things.append(GoneThing(thing, required))
            elif not self._is_there(thing):
                gone_things.append(GoneThing(thing))
        return gone_things

    def _is_there(self, thing: NamedThing) -> bool:
        if thing.kind is NamedKind.FILE:
            return self._is_file_there(thing.name)
        if thing.kind is NamedKind.SYMBOL:
            return self._is_symbol_there(thing.name)
        return self._has_command(thing.name.split(), is_run=thing.is_run)

    @cached_property
    def _declared(self) -> Declared:
        rows = self._connection.execute("SELECT path FROM file").fetchall()
        manifests = [path for (path,) in rows if is_manifest(path)]
        with opened_folder(self._root.path) as top:
            return read_declared(top, manifests)

    def _is_file_there(self, name: str) -> bool:
        if self._has_file(name):
            return True
        # `try/catch`, `Node.js` and the name of a package look like files.
        is_path = _SOURCE.search(name) or ("/" in name and _ENDED.search(name))
        if is_path:
            return False
        return not self._was_there("--", f":(glob)**/{name.rstrip('/')}")

    def _was_there(self, *arguments: str) -> bool:
        """Whether the history has a commit that fits; False where that takes too long."""
        if not self._root.is_git or self._lookups_left <= 0:
            return False
        self._lookups_left -= 1
        first_hash = run_git(
            self._root.path, "log", "-1", "--format=%h", *arguments, timeout_s=self._lookup_s
        )
        return bool(first_hash)

    def _has_file(self, name: str) -> bool:
        path = name.removeprefix("./").rstrip("/")
        if _GENERATED.match(f"{path}/") or _PRODUCT.match(path) or leads_out(path):
            return True
        if os.path.lexists(self._root.path / native_name(path)):
            return True
        # Documents of a folder name its files from there.
        ending = self._connection.execute(
            "SELECT 1 FROM file WHERE substr(path, -?) = ? OR instr(path, ?) LIMIT 1",
            (len(path) + 1, f"/{path}", f"/{path}/" if name.endswith("/") else f"{path}\0"),
        )
        return ending.fetchone() is not None

    def _is_symbol_there(self, name: str) -> bool:
        parts = re.split(r"\.|::", name)
        last = parts[-1]
        if len(last) < SHORTEST_SYMBOL or last.startswith("__"):
            return True
        # What belongs to a library cannot be looked up here.
        if len(parts) > 1 and self._is_library(parts[0]):
            return True
        if entities_named(self._connection, last):
            return True
        # A document that names it proves nothing: it may be as old as the fact.
        mentioning = paths_mentioning(self._connection, [last])
        if any(not path.endswith(_DOCUMENTS) for path in mentioning):
            return True
        return self._is_word_of_code(last)

    def _is_library(self, name: str) -> bool:
        return (
            name in sys.stdlib_module_names
            or normalized_package(name) in self._declared.versions
        )

    def _is_word_of_code(self, name: str) -> bool:
        """Whether a name is anywhere in code or settings, such as a constant or a key."""
        terms = split_word(name)
        if not terms:
            return True
        return struct.pack("<I", terms[-1][1]) in self._terms_of_code

    @cached_property
    def _terms_of_code(self) -> bytes:
        """The terms of all code and settings, end to end: read once, since SQLite searches a blob
        five times as slowly."""
        rows = self._connection.execute(
            "SELECT terms FROM memory_row WHERE (layer = 'graph' OR kind IN ('config', 'text'))"
            f" AND {LISTED_HERE}"
        ).fetchall()
        return b"".join([terms for (terms,) in rows])

    def _has_command(self, words: Sequence[str], *, is_run: bool) -> bool:
        """Whether the targets, scripts and binaries that a command names are declared."""
        program, *rest = words
        arguments = [word for word in rest if not word.startswith("-") and "=" not in word]
        declared = self._declared
        if program == "make":
            has_place = not _OTHER_PLACE.isdisjoint(rest)
            is_open = declared.has_open_makefile or has_place
            return is_open or declared.targets.issuperset(arguments)
        if program in _NODE_RUNNERS:
            return self._has_script(program, arguments)
        if program == "just":
            return not arguments or arguments[0] in declared.recipes
        if program in _RUNNERS and arguments[:1] == ["run"]:
            inner = rest[rest.index("run") + 1 :]
            is_open = not inner or inner[0].startswith("-")
            return is_open or self._has_command(inner, is_run=is_run)
        if re.fullmatch(r"(?:\S*/)?python[\d.]*", program):
            return self._has_module(rest)
        return not is_run or self._has_binary(program)

    def _has_script(self, program: str, arguments: Sequence[str]) -> bool:
        scripts = self._declared.scripts
        if arguments[:1] in (["run"], ["run-script"]):
            return len(arguments) < 2 or arguments[1] in scripts or bool(arguments[2:])
        if not arguments:
            return True
        likely = _OWN_SCRIPTS if program == "npm" else _LIKELY_SCRIPTS
        # `npm start` runs server.js, `bun test` is its own.
        if program == "bun" or arguments[0] not in likely or arguments[0] == "start":
            return True
        return arguments[0] in scripts

    def _has_module(self, rest: Sequence[str]) -> bool:
        if "-m" not in rest[:-1]:
            return True
        module = rest[rest.index("-m") + 1]
        top = module.partition(".")[0]
        if self._is_library(top) or top in _COMMON_PROGRAMS or top in ("build", "venv", "pip"):
            return True
        path = module.replace(".", "/")
        endings = (f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py", f"{path}/")
        return any(self._has_file(ending) for ending in endings)

    def _has_binary(self, program: str) -> bool:
        declared = self._declared
        if "/" in program:
            return self._has_file(program) or leads_out(program)
        if (
            program in _COMMON_PROGRAMS
            or program in declared.binaries
            or program in declared.scripts
        ):
            return True
        if normalized_package(program) in declared.versions or self._has_file(program):
            return True
        if shutil.which(program) is not None:
            return True
        # A tool of others is declared nowhere: only what a manifest once had is gone.
        return not self._was_there(f"-S{program}", "--", *_BINARY_MANIFESTS)

    def _other_version(self, thing: NamedThing) -> str:
        """Return the version that is required where this one is not allowed; otherwise
        nothing."""
        is_number = "." in thing.version or thing.name.lower() in _VERSIONED_BY_ONE_NUMBER
        if not is_number:
            return ""
        required = self._declared.versions.get(normalized_package(thing.name), [])
        required = [version for version in required if has_number(version)]
        if not required or any(allows(version, thing.version) for version in required):
            return ""
        return required[0]


def drift_warnings(store: "Store", memories: Sequence[Memory]) -> dict[str, str]:
    """Return what no longer holds of each of these memories, by id, as they are about to be shown;
    those that hold are missing."""
    warnings = gone_names(store, memories)
    for memory in memories:
        if memory.status is MemoryStatus.STALE:
            parts = [CHANGED, warnings.get(memory.id, "")]
            warnings[memory.id] = "; ".join(filter(None, parts))
    return warnings


def gone_names(store: "Store", memories: Iterable[Memory]) -> dict[str, str]:
    """Return what memories name that no longer exists, and that documents were fetched long ago, by
    id; for callers who say themselves what is stale."""
    shown = list(memories)
    warnings = _old_documents(store, shown)
    facts = [memory for memory in shown if may_drift(memory)]
    if not facts:
        return warnings
    check = DriftCheck(store.connection, store.root)
    for fact in facts:
        gone_things = check.gone(named_things(fact.text))
        if gone_things:
            warnings[fact.id] = describe_gone(gone_things)
    return warnings


def _old_documents(store: "Store", memories: Iterable[Memory]) -> dict[str, str]:
    """Return the remarks on documents that were fetched too long ago, by memory ID."""
    days = store.settings.document_days
    oldest = store.clock() - days * DAY_S
    warning = f"out of date: it was fetched more than {counted(round(days), 'day')} ago"
    return {
        memory.id: warning
        for memory in memories
        if memory.kind is Kind.DOCUMENT and memory.updated_at < oldest
    }


def may_drift(memory: Memory) -> bool:
    """Whether a memory claims something of the code here."""
    return not (memory.layer.is_indexed or memory.layer is Layer.USER or memory.kind in _PAST)


def describe_gone(gone_things: Sequence[GoneThing]) -> str:
    """Return `names X and Y, which no longer exist`; for a version what is required instead."""
    versions: list[str] = []
    names: list[str] = []
    for gone_thing in gone_things:
        thing = gone_thing.thing
        if thing.kind is NamedKind.VERSION:
            required = gone_thing.instead
            versions.append(f"names {thing.name} {thing.version}, but {required} is required")
        else:
            names.append(thing.name)
    parts = versions[:MOST_GONE_NAMED]
    if names:
        verb = "exists" if len(names) == 1 else "exist"
        shown = " and ".join(names[:MOST_GONE_NAMED])
        if len(names) > MOST_GONE_NAMED:
            shown = (
                f"{', '.join(names[:MOST_GONE_NAMED])} and {len(names) - MOST_GONE_NAMED} more"
            )
        parts.append(f"names {shown}, which no longer {verb}")
    return "; ".join(parts)
