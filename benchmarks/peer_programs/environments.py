"""A virtual environment of its own for each peer, below `.cache/peers/`, from the configured
package index.

Versions are pinned. LOTUS asks for torch and a CUDA runtime (3 GB) through sentence-transformers,
which `sem_filter` does not use, so it is installed without its dependencies and then given those it
needs. It decides nothing about what is measured. Trade-off: what a peer depends on is the newest
that the index has, so a rebuilt environment may differ.
"""

import subprocess
import sys
from pathlib import Path

from msgspec import Struct

LITELLM = "litellm==1.106.2"


class Peer(Struct, frozen=True):
    """A program to compare with."""

    name: str
    title: str
    driver: str
    packages: tuple[str, ...]
    without_dependencies: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """Whose versions are told."""
    has_cache: bool = True
    """Whether it has a cache that outlives its process, off by default."""


PEERS = (
    Peer(
        "lotus",
        "LOTUS `sem_filter`",
        "lotus_filter.py",
        (
            LITELLM,
            "tenacity",
            "numpy<2",
            "pandas<3",
            "backoff",
            "tqdm",
            "tiktoken",
            "faiss-cpu",
            "pillow",
        ),
        ("lotus-ai==1.2.4",),
        ("lotus-ai", "litellm"),
    ),
    Peer(
        "llama_index",
        "LlamaIndex `LLMRerank`",
        "llama_index_rerank.py",
        ("llama-index-core==0.14.25", "llama-index-llms-openai-like==0.8.1"),
        shown=("llama-index-core", "llama-index-llms-openai-like", "openai"),
        has_cache=False,
    ),
    Peer(
        "litellm",
        "litellm `batch_completion`",
        "litellm_batch.py",
        (LITELLM, "tenacity", "diskcache", "fastapi", "orjson", "soundfile"),
        shown=("litellm", "openai"),
    ),
)
_VERSIONS = """
import sys
from importlib.metadata import version
print(", ".join(f"{name} {version(name)}" for name in sys.argv[1:]))
"""


def python_of(peer: Peer, folder: Path) -> Path | str:
    """Return the peer's Python, its environment made where it is not there yet; otherwise why
    it cannot be had."""
    home = folder / peer.name
    python, done = home / "bin" / "python", home / ".installed"
    requirements = "\n".join((*peer.packages, *peer.without_dependencies))
    if done.exists() and done.read_text("utf-8") == requirements:
        return python
    commands = [[sys.executable, "-m", "venv", str(home)]]
    install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    if peer.without_dependencies:
        commands.append([*install, "--no-deps", *peer.without_dependencies])
    commands.append([*install, *peer.packages])
    for command in commands:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            errors = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")]
            return (
                f"{' '.join(command[-3:])}:"
                f" {(errors or ran.stderr.splitlines() or ['no message'])[-1][:300]}"
            )
    done.write_text(requirements, "utf-8")
    return python


def versions(peer: Peer, python: Path) -> str:
    """Return `name version, …` of what is told about a peer."""
    ran = subprocess.run(
        [str(python), "-c", _VERSIONS, *peer.shown], capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()
