"""Whether a process named in a store is still running."""

import subprocess
import sys

import pytest

from xscore.platform.processes import ELSEWHERE_S, is_process_at_work, process_identity


def test_this_process_is_at_work() -> None:
    """However long ago it started."""
    assert is_process_at_work(process_identity(), age_s=0.0)
    assert is_process_at_work(process_identity(), age_s=10 * ELSEWHERE_S)


def test_a_process_that_has_ended_is_not() -> None:
    """Its id is gone, on this machine since this boot."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from xscore.platform.processes import process_identity; print(process_identity())",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not is_process_at_work(done.stdout.strip(), age_s=0.0)


def test_another_start_of_this_machine_is_over() -> None:
    """The same id after a reboot is another process."""
    pid, session, boot, place = process_identity().split(" ", 3)
    assert not is_process_at_work(f"{pid} {session} {boot[::-1]}x {place}", age_s=0.0)


def test_a_process_elsewhere_is_believed_for_a_while() -> None:
    """It cannot be seen from here."""
    elsewhere = "17 1 aaaaaaaa another-host pid:[1]"
    assert is_process_at_work(elsewhere, age_s=ELSEWHERE_S - 1)
    assert not is_process_at_work(elsewhere, age_s=ELSEWHERE_S + 1)


@pytest.mark.parametrize("life", ["", "x", "-1 2 3 4", " "])
def test_what_names_no_process_is_not_there(life: str) -> None:
    """A turn of an earlier version, or a damaged one."""
    assert not is_process_at_work(life, age_s=0.0)
