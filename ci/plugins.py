"""Write the plugins of coding agents and the entry for the MCP registry from the one table of
clients.

`python -m ci.plugins` writes them; a test compares. Nothing in those files is written by hand. They
call `xscore` by name and download nothing: a plugin works where xscore is installed.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from xscore.extensions.agents.clients import (
    CLIENTS,
    INSTRUCTIONS,
    KEY_VARIABLES,
    SERVER,
    Client,
    hook_entries,
    server_entry,
    skill_text,
    subagent_text,
)

CHECKOUT = Path(__file__).parents[1]
FOLDER = "plugins"
REGISTRY_NAME = f"io.github.xscore/{SERVER}"
"""Name in the MCP registry; the part before the slash has to be shown to be ours when it is
published."""
ABOUT = (
    "A small model judges every memory of this repository against the task; what matters joins the"
    " prompt."
)
_SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_SDK = "mcp>=2.3,<3"
"""The SDK, as in the extra `mcp`."""
_OWNER = {"name": "the xscore maintainers"}
_SKILL = f"skills/{SERVER}/SKILL.md"


def plugin_files() -> dict[str, str]:
    """Path -> text of every file."""
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"][
        "version"
    ]
    about = {"name": SERVER, "version": version, "description": ABOUT}
    more = {"author": _OWNER, "license": "MIT", "keywords": ["context", "memory", "retrieval"]}
    files = {
        **_plugin("claude-code", "hooks/hooks.json", ".mcp.json"),
        **_plugin("codex", "hooks/hooks.json", ".mcp.json"),
        **_plugin("cursor", "hooks/hooks.json", "mcp.json"),
        **_plugin("gemini", "hooks/hooks.json", ""),
        f"{FOLDER}/claude-code/.claude-plugin/plugin.json": {**about, **more},
        f"{FOLDER}/codex/.codex-plugin/plugin.json": {
            **about,
            **more,
            "skills": "./skills/",
            "mcpServers": "./.mcp.json",
            "hooks": "./hooks/hooks.json",
        },
        f"{FOLDER}/cursor/.cursor-plugin/plugin.json": {
            **about,
            **more,
            "skills": "./skills/",
            "mcpServers": "./mcp.json",
            "hooks": "./hooks/hooks.json",
        },
        f"{FOLDER}/gemini/gemini-extension.json": {**about, **_servers(CLIENTS["gemini"])},
        # an MCP server of a plugin has another name than one of the settings
        f"{FOLDER}/claude-code/agents/{SERVER}.md": subagent_text(
            tool=f"mcp__plugin_{SERVER}_{SERVER}__context"
        ),
        f"{FOLDER}/agents-md-section.md": f"## Context\n\n{INSTRUCTIONS}",
        "server.json": _registry_entry(version),
        **_marketplaces(),
    }
    return {
        path: form if isinstance(form, str) else _json(form) for path, form in files.items()
    }


def _plugin(name: str, hooks_file: str, servers_file: str) -> dict[str, Any]:
    client, place = CLIENTS[name], f"{FOLDER}/{name}"
    hooks: dict[str, Any] = {"version": client.hooks_version} if client.hooks_version else {}
    hooks["hooks"] = {}
    for entry in hook_entries(client, SERVER):
        hooks["hooks"].setdefault(entry.event, []).append(entry.value)
    servers = {f"{place}/{servers_file}": _servers(client)} if servers_file else {}
    return {f"{place}/{hooks_file}": hooks, f"{place}/{_SKILL}": skill_text(), **servers}


def _servers(client: Client) -> dict[str, Any]:
    return {"mcpServers": {SERVER: server_entry(client, SERVER)}}


def _marketplaces() -> dict[str, Any]:
    """One list a client of what can be installed from here: this plugin."""
    one = {"name": SERVER, "description": ABOUT}
    codex = {
        **one,
        "source": {"source": "local", "path": f"./{FOLDER}/codex"},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Productivity",
    }
    return {
        ".claude-plugin/marketplace.json": {
            "name": SERVER,
            "description": ABOUT,
            "owner": _OWNER,
            "plugins": [{**one, "source": f"./{FOLDER}/claude-code"}],
        },
        ".agents/plugins/marketplace.json": {"name": SERVER, "plugins": [codex]},
        ".cursor-plugin/marketplace.json": {
            "name": SERVER,
            "owner": _OWNER,
            "metadata": {"description": ABOUT},
            "plugins": [{**one, "source": f"{FOLDER}/cursor"}],
        },
    }


def _registry_entry(version: str) -> dict[str, Any]:
    package = {
        "registryType": "pypi",
        "identifier": SERVER,
        "version": version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        # The registry names a package without extras, so the SDK is asked for as well.
        "runtimeArguments": [{"type": "named", "name": "--with", "value": _SDK}],
        "packageArguments": [{"type": "positional", "value": "mcp"}],
        "environmentVariables": [
            {
                "name": name,
                "description": "A key of the judge's host; without one, words rank.",
                "isSecret": True,
            }
            for name in KEY_VARIABLES
        ],
    }
    return {
        "$schema": _SERVER_SCHEMA,
        "name": REGISTRY_NAME,
        "title": SERVER,
        "description": (
            "Judges every memory of a repository against the task; gives an agent what matters."
        ),
        "version": version,
        "packages": [package],
    }


def _json(form: object) -> str:
    return json.dumps(form, indent=2) + "\n"


def main() -> None:
    """Write every file below the checkout."""
    for path, text in plugin_files().items():
        place = CHECKOUT / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
