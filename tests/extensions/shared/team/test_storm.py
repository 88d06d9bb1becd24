"""A team in a storm: nothing stated is lost or shown twice, and no turn outlives its deadline."""

from pathlib import Path

import pytest

from tests.extensions.shared.team.storm import run_storm

pytestmark = pytest.mark.verify


@pytest.mark.parametrize(
    ("hot", "members", "repositories", "seconds"),
    [
        pytest.param("postgres", 4, 2, 18, id="small"),
        pytest.param("redis", 4, 2, 24, id="redis"),
        pytest.param(
            "redis",
            50,
            20,
            600,
            marks=[pytest.mark.nightly, pytest.mark.timeout(1_800)],
            id="full",
        ),
    ],
)
def test_a_storm_loses_and_doubles_nothing(
    tmp_path: Path, hot: str, members: int, repositories: int, seconds: float
) -> None:
    """Members and servers are killed, Redis is replaced by an empty one, and the network is cut
    and slow while all state and ask: every statement is on the server once and in every store of
    its repository once; while nothing fails, each pair is judged once in the team."""
    figures = run_storm(
        tmp_path, members=members, repositories=repositories, seconds=seconds, hot=hot
    )
    assert sum(figures.faults.values()) > 0
    assert figures.stated > 0 and not figures.lost and not figures.doubled, figures
    assert figures.judged_twice_in_calm == 0 and figures.late == 0, figures
