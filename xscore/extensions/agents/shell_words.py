"""What a shell command does, as far as its words tell: its kind, whether it only reads, whether
something outside the working tree decides how it ends.

By rule, without a shell's grammar: words in quotes may be taken for commands. Whatever is not
recognized counts as a command that may change something. Trade-off: the lists of programs are
those that coding agents run most.

It is used before a tool runs, so it imports nothing that takes time to load, and patterns are
compiled where they are used.
"""

import os
import re

LONGEST = 4_000
"""How many characters of a command are looked at."""
_SEPARATOR = r"&&|\|\||[;|\n&]"
_ASSIGNMENT = r"[A-Za-z_]\w*=\S*"
_SUBCOMMAND = r"[A-Za-z][\w:.-]{0,30}"
_REDIRECTION = r"\d?>&\d|\d?>{1,2}[ \t]*/dev/null"
_WRAPPERS = frozenset("sudo time nice nohup env command exec builtin stdbuf xvfb-run".split())
_RUNNERS = frozenset(
    ("uv run", "poetry run", "pipenv run", "bundle exec", "pdm run", "hatch run", "rye run")
)
_MULTI = frozenset(
    """
    alembic apt apt-get brew bun bundle cargo composer conda deno docker dotnet flask gem gh git
    glab go gradle gradlew helm hatch just kubectl make mvn mvnw mix npm nox npx pdm php pip pip3
    pnpm poetry rails rake ruff rustup task terraform tox turbo uv yarn
    """.split()
)
"""Programs whose second word says what they do."""
_READING = frozenset(
    """
    [ ag awk basename cat cd cmp column command cut date df diff dirname du echo egrep env false fd
    fgrep file fold git-grep grep groups head hexdump hostname id jq less ls md5sum more nl od pgrep
    printenv printf ps pwd readlink realpath rg seq sha256sum sort stat strings tail test tr tree
    true type uname uniq wc whereis which whoami xxd yq
    """.split()
)
_READING_GIT = frozenset(
    """
    blame cat-file describe diff grep log ls-files ls-tree merge-base reflog rev-list rev-parse
    shortlog show show-ref status
    """.split()
)
_OUTSIDE = frozenset(
    """
    ansible apt apt-get aws az brew curl dig docker gcloud gh glab helm host http https journalctl
    kubectl lsof mongo mongosh mysql nc netstat nmap nslookup pg_isready ping podman psql redis-cli
    rsync scp service sleep ss ssh systemctl telnet terraform top wait watch wget
    """.split()
)
"""Programs that depend on other machines, services or the time."""
_OUTSIDE_KINDS = frozenset(
    """
    bundle:install cargo:install cargo:publish cargo:update composer:install composer:update
    conda:install gem:install git:clone git:fetch git:ls-remote git:pull git:push git:submodule
    go:get go:install go:mod npm:ci npm:i npm:install npm:publish npm:update npx:playwright
    pip3:install pip:download pip:install pnpm:add pnpm:i pnpm:install poetry:add poetry:install
    poetry:lock uv:add uv:lock uv:pip uv:sync yarn:add yarn:install
    """.split()
)
_PLACE = r"(?:^|[\s='\"(;&|:])((?:~|\.\.(?![\w.])|\.{0,2}/)[^\s'\"();&|]*)"
_HARMLESS = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/dev/null/")
"""Programs whose changes are hardly ever why a command failed."""
_LOOPS = frozenset("for while until select".split())


class CommandWords:
    """What the words of a command say."""

    def __init__(self, kind: str, *, only_reads: bool, is_outside: bool) -> None:
        self.kind = kind
        """Program and subcommand of its first part that does more than read; empty if it only
        reads."""
        self.only_reads = only_reads
        self.is_outside = is_outside
        """Whether something outside the working tree may decide how it ends."""


def command_words(command: str) -> CommandWords:
    """Say what a command does. Linear time."""
    text = re.sub(_REDIRECTION, " ", command[:LONGEST])
    kind = ""
    # A redirection may write a file, and a substitution may run anything.
    only_reads = not (">" in text or "`" in text or "$(" in text or "<(" in text)
    is_outside = len(command) > LONGEST
    for part in re.split(_SEPARATOR, text):
        words = _program_words(part)
        if not words:
            continue
        name = _kind_of(words)
        is_outside = is_outside or _is_outside(words[0], name)
        if not _is_reading(words):
            only_reads = False
            kind = kind or name
    return CommandWords(kind, only_reads=only_reads, is_outside=is_outside)


def leaves_tree(command: str, *, folder: str, root: str) -> bool:
    """Whether a command that runs in this folder names a place outside of the tree, where a change
    would not be seen."""
    for place in re.findall(_PLACE, command[:LONGEST]):
        path = os.path.normpath(os.path.join(folder, place))  # noqa: PTH118  as in `tool_call`
        if place[0] == "~" or not f"{path}/".startswith((f"{root}/", *_HARMLESS)):
            return True
    return False


def _program_words(part: str) -> list[str]:
    """Return the words of a part from its program on, without what only runs it."""
    words = part.strip().lstrip("({! ").split()[:40]
    while words:
        first = words[0].strip("\"'").rpartition("/")[2]
        if re.fullmatch(_ASSIGNMENT, words[0]) or first in _WRAPPERS or first.startswith("-"):
            words = words[1:]
        elif len(words) > 2 and _is_runner(first, words[1]):
            words = words[2:]
        else:
            return [first, *words[1:]]
    return []


def _is_runner(first: str, second: str) -> bool:
    """Whether these two words only run what follows."""
    if first in ("python", "python3"):
        return second == "-m"
    return first == "timeout" or f"{first} {second}" in _RUNNERS


def _kind_of(words: list[str]) -> str:
    program = words[0]
    rest = [word for word in words[1:] if not word.startswith("-")]
    if program in _MULTI:
        if rest and re.fullmatch(_SUBCOMMAND, rest[0]):
            return f"{program} {rest[0]}"
        return program
    if program in ("python", "python3", "node", "ruby", "bash", "sh", "deno", "tsx", "ts-node"):
        # Code in the command itself is of no kind.
        if rest and words[1] == rest[0]:
            return f"{program} {rest[0].rpartition('/')[2][:60]}"
        return ""
    return program[:60] if re.fullmatch(_SUBCOMMAND, program) else ""


def _is_reading(words: list[str]) -> bool:
    program = words[0]
    rest = [word for word in words[1:] if not word.startswith("-")]
    if program == "git":
        return bool(rest) and rest[0] in _READING_GIT
    if program == "find":
        return not {"-delete", "-exec", "-execdir", "-ok", "-fprint"}.intersection(words)
    if program == "sed":
        return not any(word.startswith(("-i", "--in-place")) for word in words)
    if words[1:] in (["--version"], ["--help"], ["-h"], ["-V"]):
        return True
    return program in _READING or program in ("done", "do", "fi", "then", "else", "}", ")")


def _is_outside(program: str, kind: str) -> bool:
    return program in _OUTSIDE or program in _LOOPS or kind.replace(" ", ":") in _OUTSIDE_KINDS
