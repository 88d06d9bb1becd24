"""Boosters of other packages: used in addition to ours when enabled, and never from a clone."""

from pathlib import Path

import pytest

from tests.test_plugins import Install, install
from xscore.pipeline.boosts import BOOSTERS
from xscore.pipeline.build import Pipeline
from xscore.records.turn import Turn
from xscore.settings import (
    BoostSettings,
    PluginSettings,
    Settings,
    load_settings,
    repository_may_set,
)

__all__ = ["install"]


def test_a_clone_cannot_name_plugins(tmp_path: Path) -> None:
    """A repository's file may weigh boosts but not load code."""
    (tmp_path / ".xscore.toml").write_text(
        '[boosts]\ncap = 0.1\n[plugins]\nenabled = ["stranger"]\n'
    )
    loaded = load_settings(repo_root=tmp_path, user_file=None, environ={})
    assert not repository_may_set("plugins.enabled")
    assert loaded.settings == Settings(boosts=BoostSettings(cap=0.1))
    assert "plugins.enabled" in loaded.warnings[0]


async def test_what_the_team_owns_ranks_higher(
    shop: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example booster lifts by CODEOWNERS only when enabled; ours work in both cases."""
    install("codeowners_booster", boosters="owned = codeowners_booster:owned")
    (shop / "CODEOWNERS").write_text(
        "# who looks\n* @shop/all\n/shop/prices.py @shop/billing\n"
    )
    monkeypatch.chdir(shop)
    monkeypatch.setenv("TEAM", "@shop/billing")
    task = "put one thing into the cart and add the prices up: Cart.add, total"
    answers = {}
    for name, settings in (
        ("owned", Settings(plugins=PluginSettings(enabled=("owned",)))),
        ("plain", Settings()),
    ):
        async with Pipeline.open(shop, settings) as pipeline:
            answers[name] = await pipeline.context(Turn(task=task, file="shop/prices.py"))
    boosts = {
        name: {(memory.path, b.name) for memory in answer.selected for b in memory.boosts}
        for name, answer in answers.items()
    }
    assert {path for path, name in boosts["owned"] if name == "owned"} == {"shop/prices.py"}
    ours = {booster.__name__ for booster in BOOSTERS}
    assert {name for _, name in boosts["plain"]} <= ours and {
        name for _, name in boosts["owned"]
    } & ours
