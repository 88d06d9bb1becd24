"""A repository cannot control money, hosts or scores: seen from the command line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo, store_dir
from tests.servers.openai_server import OpenAIServer

pytestmark = pytest.mark.verify

FILES = {"shop.py": "def total(lines):\n    return sum(lines)\n", "README.md": "# Shop\n"}
TASK = "Why is the total wrong?"


def with_judge(server: OpenAIServer) -> tuple[tuple[str, ...], dict[str, str]]:
    """Flags and environment of a user who chose this host."""
    return ("--judge", "openai:judge-2", "--no-answer", "--json"), {
        "OPENAI_BASE_URL": server.url
    }


def test_planted_scores_are_neither_used_nor_salvaged(
    xscore: Run, make_repo: MakeRepo, tmp_path: Path
) -> None:
    """A clone's store is refused with 6; a rebuild sets it aside, reuses nothing and pays for every
    candidate."""
    root = make_repo(FILES)
    with OpenAIServer() as server:
        flags, environ = with_judge(server)
        assert xscore("ask", TASK, *flags, cwd=root, environ=environ).returncode == 0
        clone = tmp_path / "clone"
        shutil.copytree(root, clone)
        server.reset()
        refused = xscore("ask", TASK, *flags, cwd=clone, environ=environ)
        assert refused.returncode == 6 and server.counts.requests == 0
        assert json.loads(refused.stdout)["error"]["kind"] == "store_untrusted"
        rebuilt = xscore("store", "rebuild", cwd=clone, environ=environ)
        assert rebuilt.returncode == 0, rebuilt.stderr
        assert "salvaged nothing" in rebuilt.stdout
        paid = json.loads(xscore("ask", TASK, *flags, cwd=clone, environ=environ).stdout)[
            "coverage"
        ]
    assert paid["cached"] == 0 and paid["judged"] == paid["candidates"] > 0
    assert (store_dir(clone) / "aside-1" / "memory.db").is_file()


@pytest.mark.parametrize(
    "line",
    [
        '[openai]\nbase_url = "{url}"',
        '[judge]\nmodel = "openai:dear-1"',
        "[budget]\nmax_usd = 1000",
        '[boosts]\nboosters = ["planted"]',
        "[store]\ntrust = true",
    ],
)
def test_a_repositorys_settings_cannot_redirect_or_spend(
    xscore: Run, make_repo: MakeRepo, line: str
) -> None:
    """A host, model, budget, plugin or trust set by the repository is ignored; a warning names
    it."""
    with OpenAIServer() as chosen, OpenAIServer() as planted:
        root = make_repo({**FILES, ".xscore.toml": line.format(url=planted.url) + "\n"})
        flags, environ = with_judge(chosen)
        done = xscore("ask", TASK, *flags, cwd=root, environ=environ)
        assert planted.counts.requests == 0
        assert {body.get("model") for body in chosen.counts.bodies} <= {"judge-2"}
    name = line.split("\n")[1].split(" ", maxsplit=1)[0]
    assert "Traceback" not in done.stderr
    assert name in done.stderr + done.stdout


ASK_AS_NOBODY = """
import os, sys
from xscore.cli.main import xscore_command
writable, read_only, home, *arguments = sys.argv[1:]

def ask(folder):
    os.chdir(folder)
    with xscore_command.make_context("xscore_command", list(arguments)) as context:
        assert not xscore_command.invoke(context)

ask(writable)  # all modules are loaded now, from wherever only root may read them
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
os.environ["HOME"] = home
ask(read_only)
ask(read_only)
"""


def test_a_read_only_root_works_all_the_same(make_repo: MakeRepo, open_ground: Path) -> None:
    """Where the git folder is read-only the store is in the user's own folder, and asking again is
    free.

    Nothing is read-only to root, so root asks as the user `nobody`.
    """
    writable, root, home = make_repo(FILES), open_ground / "repo", open_ground / "home"
    shutil.copytree(writable, root)
    home.mkdir()
    if os.geteuid() == 0:
        for path in (root, home, *root.rglob("*")):
            os.chown(path, 65534, 65534)
    for folder in (root / ".git", root):
        folder.chmod(0o555)
    try:
        with OpenAIServer() as server:
            flags, environ = with_judge(server)
            done = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    ASK_AS_NOBODY,
                    *map(str, (writable, root, home)),
                    "ask",
                    TASK,
                    *flags,
                ],
                env={**os.environ, **environ},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
    finally:
        for folder in (root, root / ".git"):
            folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    first, repeated = (
        json.loads("{" + text)["coverage"] for text in done.stdout.split("\n{")[1:]
    )
    assert first["judged"] == repeated["cached"] > 0
    assert not (store_dir(root)).exists() and (store_dir(writable)).exists()
    assert list(home.rglob("memory.db"))


COMMANDS_AS_NOBODY = """
import json, os, sys
from pathlib import Path
from xscore.cli.main import xscore_command
from xscore.cli.start import run_and_report
root, home, *flags = sys.argv[1:]
os.chdir(root)

def command(*arguments):
    def work():
        with xscore_command.make_context("xscore", list(arguments)) as context:
            return xscore_command.invoke(context)
    print(json.dumps({"exit": run_and_report(work, arguments)}), flush=True)

ask = ("ask", "Why is the total wrong?", *flags)
command(*ask)  # all modules are loaded now, from wherever only root may read them
command("memory", "add", "--kind", "decision", "prices are cents", "--json")
command("memory", "wipe", "--layer", "governance", "--dry-run")
command("memory", "list", "--json")
command("status", "--json")
if os.geteuid() == 0:
    for place in (Path(root), *Path(root).rglob("*"), Path(home), *Path(home).rglob("*")):
        os.chown(place, 65534, 65534)
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
for folder in (Path(root, ".git", "xscore"), Path(root, ".git"), Path(root), Path(home)):
    folder.chmod(0o555)
print("read-only", flush=True)
print("read-only", file=sys.stderr, flush=True)
command(*ask)
command("memory", "list", "--json")
command("memory", "add", "--kind", "decision", "totals are cents too")
command("memory", "wipe", "--layer", "governance", "--yes")
command("status", "--json")
"""


def test_a_read_only_store_is_read_and_keeps_nothing(
    make_repo: MakeRepo, open_ground: Path
) -> None:
    """In a sandbox that may write neither git folder nor home, turns use what is paid; stating and
    erasing fail."""
    root, home = open_ground / "repo", open_ground / "home"
    shutil.copytree(make_repo(FILES), root)
    home.mkdir()
    with OpenAIServer() as server:
        flags, environ = with_judge(server)
        try:
            done = subprocess.run(
                [sys.executable, "-c", COMMANDS_AS_NOBODY, str(root), str(home), *flags],
                env={**os.environ, **environ, "HOME": str(home)},
                capture_output=True,
                text=True,
                timeout=90,
                check=False,
            )
        finally:
            for folder in (home, root, root / ".git", root / ".git" / "xscore"):
                folder.chmod(0o755)
        assert done.returncode == 0, done.stderr
    before, after = done.stdout.split("read-only\n")
    codes = [
        json.loads(line)["exit"] for line in after.splitlines() if line.startswith('{"exit"')
    ]
    assert codes == [0, 0, 6, 6, 0], after + done.stderr
    status = json.loads("{" + after.rsplit("\n{", 2)[1])
    assert status["store"] == str(root / ".git" / "xscore" / "memory.db")
    assert status["trusted"] is True
    paid = json.loads("{" + before.split("\n{")[0].split("{", 1)[1])["coverage"]["judged"]
    assert paid > 0
    assert '"cached": ' + str(paid) in after
    assert "prices are cents" in after and "totals are cents" not in after
    notes = done.stderr.split("read-only\n")[1]
    assert "cannot be written here: nothing from this run is kept" in notes
    assert not (root / ".xscore").exists()
