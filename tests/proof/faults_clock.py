"""`xscore` under a wall clock that jumps: `python faults_clock.py JUMPS ARGUMENTS…`.

JUMPS is a list of seconds, `0,86400,-3600`: each look at the wall clock is off by the next of them,
over and over; one entry alone is a clock that is wrong all the time. The monotonic clock, which no
user can set, is left as it is.
"""

import itertools
import sys
import time


def jump(offsets: list[float]) -> None:
    """Make this process's wall clock jump from now on; call it before anything stores
    `time.time`."""
    ring = itertools.cycle(offsets)
    right_time = time.time

    def wrong_time() -> float:
        return right_time() + next(ring)

    time.time = wrong_time
    time.time_ns = lambda: int(wrong_time() * 1e9)


if __name__ == "__main__":
    jump([float(seconds) for seconds in sys.argv.pop(1).split(",")])
    from xscore.cli.main import run_command_line

    run_command_line()
