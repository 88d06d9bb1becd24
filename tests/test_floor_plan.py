"""The drawn floor plan matches the import contracts."""

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def test_the_floor_plan_is_up_to_date() -> None:
    """`make docs` would change nothing."""
    done = subprocess.run([sys.executable, CHECKOUT / "benchmarks" / "floor_plan.py", "--check"], check=False)
    assert done.returncode == 0, "run `make docs`"
