"""Boosters by name: ours through the same door as a stranger's, and never from a clone."""

from pathlib import Path

import pytest

from xscore.pipeline.boosts import BUILT_IN_BOOSTERS
from xscore.pipeline.build import Pipeline
from xscore.records.turn import Turn
from xscore.settings import BoostSettings, Settings, load_settings, repository_may_set


def test_a_clone_cannot_name_boosters(tmp_path: Path) -> None:
    """A repository's file may weigh boosts, not load code."""
    (tmp_path / ".xscore.toml").write_text('[boosts]\nboosters = ["stranger"]\ncap = 0.1\n')
    loaded = load_settings(repo_root=tmp_path, user_file=None, environ={})
    assert not repository_may_set("boosts.boosters")
    assert loaded.settings.boosts == BoostSettings(cap=0.1)
    assert "boosts.boosters" in loaded.warnings[0]


async def test_a_strangers_booster_lifts_when_it_is_named(
    shop: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package's booster is at work when its name is in the setting, and only then."""
    site = tmp_path_factory.mktemp("site")
    info = site / "stranger_boosts-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger-boosts\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[xscore.boosters]\nstranger = stranger_boosts:stranger\n")
    (site / "stranger_boosts.py").write_text(
        "from xscore.records.judgment import Boost\n"
        "def stranger(candidate, around):\n"
        "    return Boost('stranger', 0.05, 'it says so')\n"
    )
    monkeypatch.syspath_prepend(str(site))
    turn = Turn(task="put one thing into the cart: Cart.add")
    named = Settings(boosts=BoostSettings(boosters=("stranger",)))
    async with Pipeline.open(shop, named) as pipeline:
        lifted = await pipeline.context(turn)
    async with Pipeline.open(shop, Settings()) as pipeline:
        plain = await pipeline.context(turn)
    async with Pipeline.open(shop, Settings(boosts=BoostSettings(boosters=()))) as pipeline:
        unboosted = await pipeline.context(turn)
    assert unboosted.selected and not any(memory.boosts for memory in unboosted.selected), "an empty list means none"
    assert lifted.selected and {boost.name for memory in lifted.selected for boost in memory.boosts} == {"stranger"}
    assert all(boost.name in BUILT_IN_BOOSTERS for memory in plain.selected for boost in memory.boosts)
