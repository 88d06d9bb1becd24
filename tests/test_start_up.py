"""What a start imports: counts of modules, never times."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import commit_all
from tests.servers import AnthropicServer, OpenAIServer
from tests.servers.decision_server import DecisionServer

PROBE = """
import json, os, sys

leave = os._exit

def list_and_leave(code):
    print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr, flush=True)
    leave(code)

# Every command ends with it: at once where a thread still reads, else as the last thing.
os._exit = list_and_leave
from xscore.cli import main
sys.argv = ["xscore", *sys.argv[1:]]
main.run_command_line()
"""
HEAVY = {
    "pydantic",
    "polars",
    "openai",
    "anthropic",
    "aiohttp",
    "httpx2",
    "numpy",
    "rich",
    "asyncio",
    "random",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small indexed repository with a script as its judge."""
    home = tmp_path_factory.mktemp("start_up")
    (home / "repo").mkdir()
    (home / "repo" / "cart.py").write_text(
        'def total(items):\n    """Sum prices."""\n    return sum(items)\n'
    )
    (home / "script.json").write_text(json.dumps({"default": 0.9}))
    commit_all(home / "repo")
    # The first turn after a commit reads git's log.
    modules_loaded(home / "repo", "context", "Where are prices summed?")
    return home / "repo"


def modules_loaded(repository: Path, *arguments: str, **variables: str) -> set[str]:
    """Run a command in a new process and home; return the modules loaded at its end."""
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(repository.parent),
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    environ |= variables
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        cwd=repository,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return set(modules)


def check_own_modules(modules: set[str], *, limit: int) -> None:
    """Fail if more modules of xscore than `limit` are loaded, and name them."""
    loaded = sorted(name for name in modules if name.split(".")[0] == "xscore")
    assert len(loaded) <= limit, (
        f"{len(loaded)} modules are loaded, {limit} are allowed: import what only some runs need"
        f" where it is used, or raise the limit here. Loaded: {' '.join(loaded)}"
    )


def test_help_loads_the_list_of_commands_and_no_command(repository: Path) -> None:
    """`--help` lists the commands without importing them."""
    modules = modules_loaded(repository, "--help")
    check_own_modules(modules, limit=10)
    assert not HEAVY & modules


def test_status_loads_the_store_and_no_pipeline(repository: Path) -> None:
    """`status` counts the store's contents without a model, a server or an array library."""
    modules = modules_loaded(repository, "status")
    check_own_modules(modules, limit=84)
    assert not HEAVY & modules


def test_a_cached_ask_loads_neither_judge_nor_sdk(repository: Path) -> None:
    """X28: a turn with all judgments stored imports nothing that parses, sends, scores or knows a
    price."""
    script = f"scripted:{repository.parent / 'script.json'}"
    ask = [
        "ask",
        "Where are prices summed?",
        "--judge",
        script,
        "--no-answer",
        "--json",
        "-q",
        "-y",
    ]
    modules_loaded(repository, *ask)
    modules = modules_loaded(repository, *ask)
    check_own_modules(modules, limit=126)
    # No package is searched, no rule parsed.
    unused = {"importlib.metadata", "tomllib", "tree_sitter", "genai_prices"}
    assert not (HEAVY | unused) & modules
    assert "xscore.scorer.model_judge" not in modules
    assert "xscore.pipeline.resources" not in modules


def test_a_lexical_ask_loads_no_vendor(repository: Path) -> None:
    """Looking for a key imports no provider, and lexical judging makes no call and needs no array
    or event loop."""
    modules = modules_loaded(
        repository, "ask", "Where are prices summed?", "--judge", "lexical", "--no-answer", "-q"
    )
    check_own_modules(modules, limit=140)
    assert not (HEAVY | {"xscore.pipeline.resources"}) & modules
    vendors = {
        "xscore.providers.openai",
        "xscore.providers.anthropic",
        "xscore.providers.transport",
    }
    assert not vendors & modules


HOOK_PROBE = """
import os, sys  # nothing else: what the probe loads is not missed in a hook
from xscore.__main__ import run

listing, leave = sys.argv[1], os._exit

def list_and_leave(code):
    # What only stands for a module until it is used has no spec.
    loaded = [name for name, module in sys.modules.items() if vars(module).get("__spec__")]
    with open(listing, "w") as file:
        file.write("\\n".join(sorted(loaded)))
    leave(code)

os._exit = list_and_leave  # a hook ends with it
sys.argv = ["xscore", "hook", "prompt", *sys.argv[2:]]
run()
"""


@pytest.mark.parametrize("options", [(), ("--client", "claude-code"), ("--quiet",)])
def test_a_hook_as_agents_run_it_loads_no_command_line(
    repository: Path, options: tuple[str, ...]
) -> None:
    """What `agent install` writes is answered without click; other arguments are parsed, with the
    same answer."""
    listing = repository.parent / "modules"
    message = {
        "cwd": str(repository),
        "prompt": "Where are prices summed?",
        "session_id": " ".join(options),
    }
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(repository.parent),
        "PYTHONPATH": str(Path(__file__).parents[1]),
        # What is loaded is counted here, not how fast: a busy machine may take its time.
        "XSCORE_AGENTS_HOOK_DEADLINE_S": "60",
    }
    done = subprocess.run(
        [sys.executable, "-c", HOOK_PROBE, str(listing), *options],
        input=json.dumps(message).encode(),
        env=environ,
        capture_output=True,
        check=True,
    )
    assert "cart.py" in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    modules = set(listing.read_text().split("\n"))
    assert ("click" in modules) is ("--quiet" in options)
    assert not HEAVY & modules
    if "click" not in modules:
        check_own_modules(modules, limit=144)
        unused = {
            "typing_extensions",
            "inspect",
            "shutil",
            "xscore.extensions.agents.tool_gate",
        }
        unused |= {"hashlib", "_hashlib", "hmac", "msgspec.inspect", "textwrap"}
        unused |= {"ipaddress", "locale"}
        assert unused & modules == set()


STAND_INS = """
import subprocess, sys, urllib.parse
from xscore.__main__ import _load_when_used

for name in ("ipaddress", "locale"):
    sys.modules.pop(name, None)
    _load_when_used(name)
sys.modules.pop("subprocess"), sys.modules.pop("urllib.parse")
import subprocess, urllib.parse

text = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True).stdout
assert text == "1\\n"
assert urllib.parse.urlsplit("http://[::1]:80/").port == 80
import ipaddress, locale
assert ipaddress.ip_address("::1") and locale.getencoding()
assert ipaddress.__spec__ and locale.__spec__
try:
    ipaddress.no_such_name
except AttributeError:
    print("whole")
"""


def test_what_stands_for_a_module_loads_it_when_it_is_used() -> None:
    """Whoever imported it before then has the whole module, and so has who imports it later."""
    done = subprocess.run(
        [sys.executable, "-c", STAND_INS],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "whole\n", done.stderr


def test_an_mcp_server_starts_without_what_only_a_call_needs(repository: Path) -> None:
    """Agents start it with every session: apart from the SDK it loads no pipeline and no
    vendor's package."""
    modules = modules_loaded(repository.parent, "mcp")
    assert "mcp" in modules
    check_own_modules(modules, limit=78)
    assert not {"openai", "anthropic", "polars", "numpy", "xscore.pipeline.build"} & modules


@pytest.mark.parametrize("judge", ["openai-chat:small", "anthropic:small", "decisions:small"])
def test_judging_loads_no_sdk(repository: Path, judge: str) -> None:
    """A turn that only judges, by any API, imports an HTTP client and no vendor's package."""
    with OpenAIServer() as chat, AnthropicServer() as messages, DecisionServer() as decisions:
        urls = {
            "OPENAI_BASE_URL": chat.url,
            "ANTHROPIC_BASE_URL": messages.url,
            "DECISIONS_BASE_URL": decisions.url,
        }
        task = f"Where are prices summed, says {judge}?"
        modules = modules_loaded(
            repository, "ask", task, "--judge", judge, "--no-answer", "-q", "-y", **urls
        )
        assert chat.counts.requests or messages.counts.requests or decisions.requests
    assert "aiohttp" in modules
    assert not {"openai", "anthropic", "httpx2"} & modules


def test_an_index_of_an_edit_loads_no_grammar(repository: Path) -> None:
    """Without a change no rule of redaction is loaded; after one, neither a grammar nor what cuts
    files."""
    unchanged = modules_loaded(repository, "index")
    check_own_modules(unchanged, limit=91)
    assert not {"xscore.store.redaction", "xscore.indexer.languages", "tree_sitter"} & unchanged
    (repository / "cart.py").write_text(
        'def total(items):\n    """Sum all prices."""\n    return sum(items)\n'
    )
    edited = modules_loaded(repository, "index")
    assert "xscore.indexer.workers" in edited
    assert not {name for name in edited if name.startswith("tree_sitter")}
    unused = {
        "multiprocessing",
        "importlib.resources",
        "tomllib",
        "xscore.indexer.memories",
        "xscore.indexer.syntax",
    }
    assert not unused & edited


PRESSED = """
import os, signal, sys

class Press:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
from xscore.__main__ import run
run()
"""


@pytest.mark.parametrize(
    "module", ["xscore.cli.main", "click", "xscore.platform.errors", "xscore.cli.status"]
)
def test_ctrl_c_while_modules_load_is_quiet(repository: Path, module: str) -> None:
    """From the first import on it ends with 130, without a traceback."""
    done = subprocess.run(
        [sys.executable, "-c", PRESSED.replace("MODULE", repr(module)), "status"],
        cwd=repository,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(repository.parent),
            "PYTHONPATH": str(Path(__file__).parents[1]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr, done.stdout) == (130, False, "")


THREADS = """
import os, sys
from xscore.__main__ import run
sys.argv = ["xscore", "--version"]
try:
    run()
except SystemExit:
    import numpy
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.parametrize(("chosen", "threads"), [("", 1), ("2", 2)])
def test_numpy_starts_no_threads_unless_the_user_says_so(chosen: str, threads: int) -> None:
    """They would take a third of its import, and nothing here uses them."""
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[1])}
    if chosen:
        environment["OPENBLAS_NUM_THREADS"] = chosen
    command = [sys.executable, "-c", THREADS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) == min(threads, len(os.sched_getaffinity(0)))
