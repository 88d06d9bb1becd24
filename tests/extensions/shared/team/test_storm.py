"""A team in a storm: nothing stated is lost or shown twice, and no turn outlives its deadline."""

from pathlib import Path

import pytest

from tests.extensions.shared.team.storm import run_storm

pytestmark = pytest.mark.verify


@pytest.mark.parametrize(
    ("members", "repositories", "seconds"),
    [
        pytest.param(4, 2, 18, id="small"),
        pytest.param(
            50, 20, 600, marks=[pytest.mark.nightly, pytest.mark.timeout(1_800)], id="full"
        ),
    ],
)
def test_a_storm_loses_and_doubles_nothing(
    tmp_path: Path, members: int, repositories: int, seconds: float
) -> None:
    """Members and the server are killed and the network is cut while all state and ask: every
    statement is on the server once and in every store of its repository once; while nothing fails,
    each pair is judged once in the team."""
    figures = run_storm(tmp_path, members=members, repositories=repositories, seconds=seconds)
    assert figures.killed_members + figures.killed_servers + figures.cuts > 0
    assert figures.stated > 0 and not figures.lost and not figures.doubled, figures
    assert figures.judged_twice_in_calm == 0 and figures.late == 0, figures
