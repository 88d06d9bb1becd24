"""Environment variables that a project's own files set for what an agent runs, such as our hooks.

An agent may take variables from a file of the project, and with a clone that file is a stranger's.
A hook cannot tell such a variable from one of yours, so `xscore agent install` and `xscore doctor`
name those that would redirect it. Values are not shown: they may be keys. A file that is there to
hold secrets (`.env`) is not even read; one that came with the repository is named. Trade-off:
someone who set them for good reasons is warned, too.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from xscore.extensions.agents.clients import CLIENTS, Client
from xscore.extensions.agents.config_edits import without_comments
from xscore.platform.files import FileRefused, opened_folder, read_file_under
from xscore.platform.git import run_git
from xscore.platform.toml_text import parse_toml
from xscore.providers.transport import ACCOUNT_HEADERS, CERTIFICATE_FILES, CERTIFICATE_FOLDER
from xscore.settings.load import DECISION_VENDORS, VENDORS

MAX_BYTES = 1_000_000
_VENDORS = "|".join(name.upper() for name in (*VENDORS, *DECISION_VENDORS))
_CERTIFICATES = "|".join((*CERTIFICATE_FILES, CERTIFICATE_FOLDER))
_EFFECTS = (
    (
        rf"(?:{_VENDORS})_BASE_URL",
        "xscore sends your key and your text to the host named there",
    ),
    (r"(?i:https?|all|no)_(?i:proxy)", "xscore's requests go through the proxy named there"),
    (_CERTIFICATES, "the owner of the certificates named there can read your key in transit"),
    (
        rf"(?:{_VENDORS})_(?:API_KEY|CUSTOM_HEADERS)|{'|'.join(ACCOUNT_HEADERS)}",
        "your text is sent under the account named there",
    ),
    (r"XSCORE_\w+", "it overrides your own settings of xscore, such as judge, caps and trust"),
    (
        r"HOME|XDG_\w+",
        "xscore reads your settings and your own store in the folder named there",
    ),
    (r"PATH|PYTHON\w*|LD_\w+|DYLD_\w+", "it decides which code runs as xscore"),
    (r"OTEL_\w+", "figures of your turns go to the collector named there"),
)
"""Pattern of a variable's name, and what the variable does."""
KEEP_IT = "Keep it only if you wrote it, or trust who did."


def environment_warnings(
    root: Path, clients: Iterable[Client] = CLIENTS.values()
) -> Iterator[str]:
    """Say which variables files of this project set for these agents, and what each would do.

    Raises nothing.
    """
    for client in clients:
        for file in client.secret_files:
            if run_git(root, "ls-files", "-z", "--", file):
                yield (
                    f"{file} came with this repository, and {client.title} sets its variables for"
                    " what it runs: look for one that names a host, a proxy or a key"
                )
        for file, place in client.environment_files.items():
            yield from _warnings_of(root, file, place, f"for what {client.title} runs")


def _warnings_of(root: Path, file: str, place: str, whom: str) -> Iterator[str]:
    try:
        names = _variables(root, file, place)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (FileRefused, ValueError, RecursionError, OSError):
        yield f"{file} may set variables {whom}, and cannot be read: check it by hand"
        return
    for pattern, effect in _EFFECTS:
        redirecting = sorted(name for name in names if re.fullmatch(pattern, name))
        if redirecting:
            yield f"{file} sets {', '.join(redirecting)} {whom}: {effect}. {KEEP_IT}"


def _variables(root: Path, file: str, place: str) -> list[str]:
    """Return the names of the variables that a file sets. place: the keys that lead to them."""
    with opened_folder(root) as top:
        data = read_file_under(top, file, max_bytes=MAX_BYTES)
    value: Any = _parsed(data, is_toml=file.endswith(".toml"))
    for key in place.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, dict):
        return list(value)
    return []


def _parsed(data: bytes, *, is_toml: bool) -> object:
    """Return what a settings file says; nothing for an empty one.

    Raises ValueError, RecursionError.
    """
    if is_toml:
        return parse_toml(data.decode("utf-8-sig"))
    plain = without_comments(data).decode("utf-8-sig")
    if plain.strip():
        return json.loads(plain)
    return None
