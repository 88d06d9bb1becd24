"""Run the command line as a user does: in a new process and folder, or in this process where many
runs are needed."""

import io
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests import programs
from tests.cli.basket import FILES, SCRIPT, script_flags
from tests.conftest import MakeRepo
from tests.servers.billing import BillingServer, vendor
from xscore.cli.main import xscore_command as front_door
from xscore.cli.start import run_and_report
from xscore.cli.terminal import set_color
from xscore.platform.paths import find_root, user_data_dir
from xscore.store.store import Store

Run = Callable[..., subprocess.CompletedProcess[str]]


def own_store(folder: Path) -> Store:
    """Open the store of a folder as its user's commands do."""
    return Store.open(find_root(folder), user_data_dir=user_data_dir(None))


@pytest.fixture
def basket(make_repo: MakeRepo) -> Path:
    """A committed repository of a few files."""
    return make_repo(FILES)


@pytest.fixture
def scripted(tmp_path: Path) -> tuple[str, ...]:
    """Flags for a scripted judge and answering model."""
    return script_flags(tmp_path / "script.json", SCRIPT)


@pytest.fixture
def judge(scripted: tuple[str, ...]) -> tuple[str, ...]:
    """Flags for the scripted judge alone."""
    return scripted[:2]


@pytest.fixture
def host() -> Iterator[BillingServer]:
    """A vendor with prices that delays each call a little, so that many are in flight at once."""
    with BillingServer(latency_s=0.15, keep_bodies=False) as running:
        yield running


@pytest.fixture
def priced(host: BillingServer) -> Iterator[Mapping[str, str]]:
    """The environment in which that vendor is called, without a probe or a cap."""
    with vendor(host) as environ:
        yield {**environ, "XSCORE_JUDGE_PROBE": "false"}


@pytest.fixture
def process() -> Run:
    """Run `xscore …` in a process without a terminal; return its streams and exit code."""

    def run(
        *arguments: str,
        cwd: Path | None = None,
        stdin: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        return programs.run(
            *arguments,
            cwd=cwd or Path.cwd(),
            stdin=stdin,
            environ={"COLUMNS": "100", **(environ or {})},
        )

    return run


@pytest.fixture
def xscore(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Run `xscore …` in this process by the same entry point: ten times faster, but start-up is not
    tested."""

    def run(
        *arguments: str,
        cwd: Path | None = None,
        stdin: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        def work() -> object:
            with front_door.make_context("xscore", list(arguments)) as context:
                return front_door.invoke(context)

        capfd.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(cwd or Path.cwd())
            patch.setenv("COLUMNS", "100")
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
            for name, value in (environ or {}).items():
                patch.setenv(name, value)
            code = run_and_report(work, arguments)
        set_color(None)  # what one command was told about colours, no other is
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, err)

    return run
