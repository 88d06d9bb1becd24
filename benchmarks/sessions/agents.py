"""How to run each agent headless, how it learns of xscore, and where it reports its tokens.

Nothing of a person's own setup is changed: hooks and servers are given for one session. Trade-off:
an agent's login stays its own, so its home folder is the real one.
"""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from xscore.extensions.agents.clients import CLIENTS, SERVER, hook_entries, server_entry

MEMORY = {"hook": "first", "hook-every": "every", "hook-off": "off"}
"""Condition with the hooks -> when they tell of earlier work (`agents.memory`)."""
CONDITIONS = ("bare", "mcp", *MEMORY)
PROGRAM = str(Path(sys.executable).with_name("xscore"))
Lines = Sequence[dict[str, Any]]


class Session(Struct, frozen=True):
    """One agent at one task under one condition."""

    prompt: str
    condition: str
    repository: Path
    outside: Path
    """A folder outside the repository, for files that only this session reads."""

    def hooks(self, client: str) -> dict[str, list[Any]]:
        """Return event -> hooks of this condition."""
        if self.condition not in MEMORY:
            return {}
        by_event: dict[str, list[Any]] = {}
        for entry in hook_entries(CLIENTS[client], PROGRAM):
            by_event.setdefault(entry.event, []).append(self._recorded(entry.value))
        return by_event

    @property
    def injected(self) -> Path:
        """What the hooks added, a reply a line."""
        return self.outside / "injected.jsonl"

    def _recorded(self, entry: Any) -> Any:
        """Return an entry whose commands also write what they reply outside the repository."""
        if isinstance(entry, list):
            return [self._recorded(part) for part in entry]
        if not isinstance(entry, dict):
            return entry
        copied = {name: self._recorded(value) for name, value in entry.items()}
        if isinstance(copied.get("command"), str):
            place = shlex.quote(str(self.injected))
            copied["command"] = f"{{ {copied['command']}; }} | tee -a {place}"
        return copied

    def servers(self, client: str) -> dict[str, Any]:
        """Return name -> MCP server of this condition."""
        return (
            {SERVER: server_entry(CLIENTS[client], PROGRAM)} if self.condition == "mcp" else {}
        )

    def claude_files(self) -> tuple[str, str]:
        """Write settings and servers as Claude Code reads them; return their paths."""
        settings, servers = self.outside / "settings.json", self.outside / "mcp.json"
        settings.write_text(json.dumps({"hooks": self.hooks("claude-code")}))
        servers.write_text(json.dumps({"mcpServers": self.servers("claude-code")}))
        return str(settings), str(servers)


class Agent(Struct, frozen=True):
    """A command line that works without a person."""

    program: str
    command: Callable[[Session], list[str]]
    tokens: Callable[[Lines], int]
    """All tokens of a session, cached ones too, from the lines that it wrote."""
    variables: Mapping[str, str] = {}

    def version(self) -> str:
        """Return what the program says of itself; empty if it is not installed."""
        if shutil.which(self.program) is None:
            return ""
        done = subprocess.run(
            [self.program, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout.strip()


def records_of(output: str) -> list[dict[str, Any]]:
    """Return each line of an agent's output: its JSON, or its text."""
    return [
        json.loads(line) if line.startswith("{") else {"text": line}
        for line in output.splitlines()
    ]


def _claude(session: Session) -> list[str]:
    settings, servers = session.claude_files()
    return [
        *(
            "claude",
            "-p",
            session.prompt,
            "--output-format",
            "stream-json",
            "--verbose",
            "--no-session-persistence",
        ),
        *(
            "--permission-mode",
            "acceptEdits",
            "--allowedTools",
            f"Bash(python3:*),mcp__{SERVER}__context",
        ),
        *(
            "--setting-sources",
            "",
            "--settings",
            settings,
            "--strict-mcp-config",
            "--mcp-config",
            servers,
        ),
    ]


def _codex(session: Session) -> list[str]:
    config = {f"mcp_servers.{name}": entry for name, entry in session.servers("codex").items()}
    config |= {f"hooks.{event}": groups for event, groups in session.hooks("codex").items()}
    options = [
        word for name, value in config.items() for word in ("-c", f"{name}={_toml(value)}")
    ]
    # The hooks are our own.
    trust = ["--dangerously-bypass-hook-trust"] if session.condition in MEMORY else []
    words = (
        "--json",
        "--ephemeral",
        "--ignore-user-config",
        "--sandbox",
        "workspace-write",
        *trust,
        *options,
    )
    return ["codex", "exec", *words, session.prompt]


def _toml(value: object) -> str:
    """Return a value as TOML in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
    return (
        "[" + ", ".join(map(_toml, value)) + "]"
        if isinstance(value, list)
        else json.dumps(value)
    )


def _gemini(session: Session) -> list[str]:
    folder = session.repository / ".gemini"  # where it takes settings from, besides the user's
    folder.mkdir(exist_ok=True)
    form = {"hooks": session.hooks("gemini"), "mcpServers": session.servers("gemini")}
    (folder / "settings.json").write_text(json.dumps(form))
    return ["gemini", "-p", session.prompt, "-o", "stream-json", "--approval-mode", "auto_edit"]


def _counted(kind: str, field: str, *names: str) -> Callable[[Lines], int]:
    """Return what adds up these counts over the lines of a kind."""
    return lambda lines: sum(
        line[field].get(name) or 0
        for line in lines
        if line.get("type") == kind and field in line
        for name in names
    )


def _scripted(session: Session) -> list[str]:
    return [
        sys.executable,
        str(Path(__file__).with_name("scripted_agent.py")),
        session.prompt,
        *session.claude_files(),
    ]


_CLAUDE_TOKENS = _counted(
    *(
        "result",
        "usage",
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
    )
)
AGENTS = {
    "claude": Agent("claude", _claude, _CLAUDE_TOKENS),
    "codex": Agent(
        "codex", _codex, _counted("turn.completed", "usage", "input_tokens", "output_tokens")
    ),
    "gemini": Agent(
        *("gemini", _gemini, _counted("result", "stats", "total_tokens")),
        {
            "GEMINI_CLI_TRUST_WORKSPACE": "true"
        },  # of an untrusted project it reads no settings; --skip-trust is too late
    ),
    "scripted": Agent(sys.executable, _scripted, _CLAUDE_TOKENS),
}
