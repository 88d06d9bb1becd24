"""`xscore view` as a process: its link, its end, and a running turn that is watched and stopped."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.basket import FILES
from tests.conftest import MakeRepo
from tests.programs import begin
from tests.waiting import wait_until
from xscore.extensions.view.stopping import why_not_stoppable
from xscore.platform.processes import process_identity
from xscore.store.turn_history import RunningTurn


@contextmanager
def viewing(
    folder: Path, *arguments: str, **environ: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the command until the test is done; yield its link and its process."""
    process = begin("view", *arguments, cwd=folder, environ=environ)
    assert process.stdout is not None
    try:
        link = process.stdout.readline().strip()
        assert link.startswith("http://127.0.0.1:"), process.communicate(timeout=30)
        yield link, process
    finally:
        process.kill()
        process.communicate(timeout=30)


def asked(link: str, path: str = "", *, post: bool = False) -> tuple[int, str]:
    """Return status and text of a page."""
    address = urlsplit(link)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    headers = {"Origin": f"http://{address.netloc}"} if post else {}
    if post:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request(
        "POST" if post else "GET", address.path + path, "" if post else None, headers
    )
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_it_prints_a_link_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    """The link opens the pages, no two starts have the same key, and Ctrl-C is no error."""
    with viewing(tmp_path) as (link, process):
        assert asked(link)[0] == 200
        assert asked(link.rstrip("/")[:-1] + "x/")[0] == 404
        if sys.platform == "linux":  # it can give memory back
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
            assert b"PYTHONMALLOC=malloc" in environment.split(b"\0")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    with viewing(tmp_path) as (later_link, _):
        assert urlsplit(later_link).path != urlsplit(link).path


def test_it_ends_when_nobody_looks(tmp_path: Path) -> None:
    """It ends by itself after the time that was set, with exit code 0; under --json the link is in
    an object."""
    process = begin("view", "--idle", "0.2s", "--json", cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["url"].startswith("http://127.0.0.1:") and "Traceback" not in err


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """The error says which port, and is one of usage."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = begin("view", "--port", str(port), cwd=tmp_path)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and str(port) in err


def test_the_browser_is_given_a_file_that_only_its_user_reads(tmp_path: Path) -> None:
    """The key is on no command line; the file goes with the server."""
    note = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\nstat -c %a "${{1#file://}}" > {note}; echo "$1" >> {note}\n'
    )
    browser.chmod(0o700)
    with viewing(tmp_path, "--open", BROWSER=str(browser)) as (link, process):
        wait_until(lambda: note.exists() and len(note.read_text().split()) == 2, process)
        mode, address = note.read_text().split()
        opened = Path(urlsplit(address).path)
        assert mode == "600" and link in opened.read_text() and link not in address
        process.send_signal(signal.SIGINT)
        process.wait(30)
    assert not opened.exists()


def _running_turn(link: str) -> str:
    """Return the id of the turn that runs; empty if there is none yet."""
    running = re.search(
        r'turn/(t_[0-9a-f]+)".*?<em class="state running">', asked(link)[1], re.DOTALL
    )
    return running[1] if running else ""


@pytest.mark.verify
def test_a_running_turn_is_watched_and_stopped(
    make_repo: MakeRepo, slow: Mapping[str, str]
) -> None:
    """Two viewers see it judge; the button ends it as Ctrl-C does, with a receipt and what was
    paid for."""
    files = {f"shop/m{number}.py": FILES["shop/basket.py"] for number in range(40)}
    root = make_repo(files)
    options = ("--yes", "--concurrency", "1", "--pack-size", "4", "--no-answer", "--json")
    with viewing(root, "--edit") as (link, server), viewing(root) as (reader, _):
        turn = begin("ask", "where is the total?", *options, cwd=root, environ=slow)
        wait_until(lambda: bool(_running_turn(link)), turn)
        turn_id = _running_turn(link)

        def judged() -> int:
            return int(json.loads(asked(reader, f"turn/{turn_id}/now")[1])["judged"])

        wait_until(lambda: judged() > 0, turn)
        assert 'role="progressbar"' in asked(reader, f"turn/{turn_id}")[1]
        assert asked(reader, f"turn/{turn_id}/stop", post=True)[0] == 400, "it only reads"
        assert asked(link, f"turn/{turn_id}/stop")[0] == 404, "a link changes nothing"
        assert asked(link, f"turn/{turn_id}/stop", post=True)[0] == 303
        assert asked(link, f"turn/{turn_id}/stop", post=True)[0] in (303, 404), (
            "and once is enough"
        )
        out, err = turn.communicate(timeout=60)
        receipt = json.loads(out)
        assert turn.returncode == 130, err
        assert 0 < receipt["coverage"]["judged"] < receipt["coverage"]["candidates"]
        assert asked(link, f"turn/{turn_id}/stop", post=True)[0] == 404
        assert turn_id in asked(reader, f"turn/{turn_id}")[1]
        assert server.poll() is None


@pytest.mark.verify
def test_a_server_that_is_killed_leaves_the_store_as_it_is(make_repo: MakeRepo) -> None:
    """SIGKILL in the middle of requests: the next server answers as if nothing had been."""
    root = make_repo(FILES)
    done = begin("ask", "total", "--judge", "lexical", "--no-answer", cwd=root)
    done.communicate(timeout=60)
    with viewing(root, "--edit") as (link, process):
        address = urlsplit(link)
        request = f"GET {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n"
        where = (str(address.hostname), address.port or 0)
        with ExitStack() as clients:
            for _ in range(8):
                client = clients.enter_context(socket.create_connection(where, 30))
                client.sendall(request.encode())
            process.kill()
            process.wait(30)
    with viewing(root) as (link, _):
        status, page = asked(link)
        assert status == 200 and "total" in page


def test_only_a_command_of_ours_is_signalled() -> None:
    """A turn of a server or of a program, and the process of another boot, machine or session, are
    left alone."""
    this_process = process_identity()
    pid, session, boot, place = this_process.split(" ", 3)
    strangers = [
        RunningTurn(this_process, "mcp"),
        RunningTurn(this_process, "hook"),
        RunningTurn(this_process, "ask"),  # this process is no `xscore`: it only asks turns
        RunningTurn(f"{pid} {int(session) + 1} {boot} {place}", "ask"),
        RunningTurn(f"{pid} {session} {boot} {place} elsewhere", "ask"),
        RunningTurn(f"{pid} {session} 00000000 {place}", "ask"),
        RunningTurn(f"-1 {session} {boot} {place}", "ask"),
        RunningTurn("", "ask"),
    ]
    assert all(map(why_not_stoppable, strangers))
    assert os.getpid() == int(pid)
