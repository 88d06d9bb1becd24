"""Plugins of other packages: found by entry point if a setting names them, reported if they fail,
never from a clone.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.observers import EventList
from tests.programs import run
from xscore.extension import installed
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import UsageError
from xscore.settings import (
    EmbeddingSettings,
    JudgeSettings,
    PluginSettings,
    Settings,
    load_settings,
)

EXAMPLES = Path(__file__).parents[1] / "examples"
Install = Callable[..., Path]


def install_into(site: Path, module: str, **entries: str) -> None:
    """Install an existing module as a package with these entry points: kind -> `name =
    module:object`."""
    info = site / f"{module}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    text = "".join(f"[xscore.{kind}]\n{entry}\n" for kind, entry in entries.items())
    (info / "entry_points.txt").write_text(text)


@pytest.fixture
def install(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Install:
    """Install a module, an example or given text, for one test."""
    site = tmp_path_factory.mktemp("site")
    monkeypatch.syspath_prepend(str(site))

    def put(module: str, text: str = "", **entries: str) -> Path:
        if text:
            (site / f"{module}.py").write_text(text)
        else:
            shutil.copy(next(EXAMPLES.rglob(f"{module}.py")), site)
        install_into(site, module, **entries)
        monkeypatch.delitem(sys.modules, module, raising=False)
        return site

    return put


def command(
    root: Path, site: Path, *arguments: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command in a new process that finds the packages of `site`."""
    paths = os.pathsep.join((str(site), str(EXAMPLES.parent)))
    return run(*arguments, cwd=root, environ={"PYTHONPATH": paths, **variables})


def plugins(*names: str) -> Settings:
    """Return settings that enable these."""
    return Settings(judge=JudgeSettings(model="lexical"), plugins=PluginSettings(enabled=names))


async def test_a_source_is_read_at_each_index_run(shop: Path, install: Install) -> None:
    """Its memories are stored once, updated in place, and removed with it; a failing one changes
    nothing."""
    install("source", sources="tickets = source:tickets")
    rows = [
        {
            "id": "T1",
            "state": "open",
            "by": "Ann",
            "title": "Discount twice",
            "body": "At checkout.",
        },
        {
            "id": "T2",
            "state": "open",
            "by": "Bob",
            "title": "No receipt",
            "body": "None is sent.",
        },
    ]
    seen = []
    async with Pipeline.open(
        shop, plugins("tickets"), observer=(events := EventList())
    ) as pipeline:
        closed, changed = rows[0] | {"state": "closed"}, rows[1] | {"body": "It is sent late."}
        for entries in (rows, rows, [closed, changed], None):
            (shop / "tickets.jsonl").write_text(
                "\n".join(map(json.dumps, entries)) if entries else "{"
            )
            await pipeline.index()
            stored = pipeline.store.connection.execute(
                "SELECT id, key, text FROM memory WHERE source = 'import' AND status = 'active'"
                " ORDER BY key"
            ).fetchall()
            seen.append(stored)
    first, repeated, later, failed = seen
    assert [(key, text) for _, key, text in first] == [
        ("tickets:T1", "Discount twice\n\nAt checkout."),
        ("tickets:T2", "No receipt\n\nNone is sent."),
    ]
    assert repeated == first
    assert [(key, text) for _, key, text in later] == [
        ("tickets:T2", "No receipt\n\nIt is sent late.")
    ]
    assert failed == later
    assert len(events.notes) == 1 and "tickets failed: JSONDecodeError" in events.notes[0]


def test_a_language_cuts_its_files_also_in_parsing_processes(
    shop: Path, install: Install
) -> None:
    """Once enabled, its files are read again; a large one is parsed in another process."""
    site = install("language", languages="recipes = language:RECIPES")
    (shop / "cake.recipe").write_text("recipe sponge\n  6 eggs\n\nrecipe icing\n  sugar\n")
    long = "\n".join(f"recipe bread_{at}\n  {'flour ' * 60}\n" for at in range(200))
    (shop / "bread.recipe").write_text(long)
    before = json.loads(command(shop, site, "index", "--json").stdout)
    enabled = {"XSCORE_PLUGINS_ENABLED": "recipes"}
    after = json.loads(command(shop, site, "index", "--json", **enabled).stdout)
    assert "recipes" not in before["memories"]["by_language"]
    assert after["memories"]["by_language"]["recipes"] == 30


def test_a_search_lists_pages_and_fetches_none(shop: Path, install: Install) -> None:
    """What it finds is printed; without one, or where it fails, a line says so."""
    site = install("search", searches="bookmarks = search:bookmarks")
    enabled = {"XSCORE_PLUGINS_ENABLED": "bookmarks"}
    search = ("fetch", "--search", "refund rules", "--json")
    assert json.loads(command(shop, site, *search).stdout)["error"]["kind"] == "usage"
    failed = command(shop, site, *search, **enabled)
    assert failed.returncode == 2 and "bookmarks failed: FileNotFoundError" in failed.stdout
    pages = ("https://example.com/r Refund rules", "https://x.test/ Other")
    (shop / "bookmarks.txt").write_text("\n".join(pages))
    listed = json.loads(command(shop, site, *search, **enabled).stdout)
    assert listed["results"] == [{"address": "https://example.com/r", "title": "Refund rules"}]
    assert not (shop / ".git/xscore").exists()


async def test_an_embedder_orders_the_judging(shop: Path, install: Install) -> None:
    """Vectors of a package's embedder are stored under its name; a failing one costs a warning."""
    install("embedder", embedders="pairs = embedder:connect")
    broken = (
        "async def embed(texts): raise RuntimeError('no model file')\n"
        "async def aclose(): pass\n"
        "name = 'x'\n"
    )
    install(
        "broken_embedder",
        broken + "connect = lambda model, settings: __import__('broken_embedder')\n",
        embedders="broken = broken_embedder:connect",
    )
    settings = Settings(
        judge=JudgeSettings(model="lexical"), embedding=EmbeddingSettings(model="pairs:64")
    )
    async with Pipeline.open(shop, settings) as pipeline:
        answer = await pipeline.context("the discount is taken twice")
        names = pipeline.store.connection.execute(
            "SELECT DISTINCT embedder FROM vec"
        ).fetchall()
        report = await pipeline.doctor()
    assert ("pairs:64",) in names and answer.selected
    assert any("pairs:64, of another package" in finding.detail for finding in report.findings)
    failing = Settings(
        judge=JudgeSettings(model="lexical"), embedding=EmbeddingSettings(model="broken:1")
    )
    async with Pipeline.open(shop, failing) as pipeline:
        answer = await pipeline.context("the discount is taken twice")
    assert any(
        "broken failed: RuntimeError: no model file" in warning for warning in answer.warnings
    )


async def test_a_judge_of_ones_own_is_cached_like_a_model(shop: Path, install: Install) -> None:
    """The turn has its scores and reasons, and the next turn does not call it."""
    install("judge", providers="by_path = judge:connect")
    settings = Settings(judge=JudgeSettings(model="by_path:1"))
    async with Pipeline.open(shop, settings) as pipeline:
        first = await pipeline.context("what does the shop sell?")
        repeated = await pipeline.context("what does the shop sell?")
    assert {memory.path for memory in first.selected} == {"shop/cart.py", "shop/prices.py"}
    assert {memory.reason for memory in first.selected} == {"the task names shop"}
    assert repeated.coverage.cached == first.coverage.judged > 0


async def test_a_broken_plugin_is_told_by_name(shop: Path, install: Install) -> None:
    """An unimportable, a failing and a missing plugin each give an error that says so."""
    install("absent", "import nosuch", boosters="absent = absent:booster")
    install(
        "rude",
        "def booster(candidate, around): raise KeyError('owner')",
        boosters="rude = rude:booster",
    )
    install(
        "nothing",
        "connect = lambda model, settings: 1 / 0",
        providers="nothing = nothing:connect",
    )
    turn = "Cart.add puts one thing into the cart"
    for settings, words in (
        (plugins("absent"), "absent .absent:booster. failed: ModuleNotFoundError"),
        (plugins("rude"), "the plugin rude failed: KeyError: 'owner'"),
        (plugins("gone"), "plugins.enabled names `gone`"),
        (Settings(judge=JudgeSettings(model="nothing:1")), "nothing failed: ZeroDivisionError"),
    ):
        with pytest.raises(UsageError, match=words):
            async with Pipeline.open(shop, settings) as pipeline:
                await pipeline.context(turn)


async def test_a_provider_that_breaks_its_word_loses_no_candidate(
    shop: Path, install: Install
) -> None:
    """What its call raises is the cause of the unjudged, with the provider's name."""
    text = (
        "class Broken:\n    name, host = 'broken', '-'\n"
        "    async def complete(self, request, on_text=None): raise ValueError('no such head')\n"
        "    async def aclose(self): pass\n"
        "def connect(model, settings): return Broken()\n"
    )
    install("broken", text, providers="broken = broken:connect")
    async with Pipeline.open(
        shop, Settings(judge=JudgeSettings(model="broken:1", fallback=()))
    ) as pipeline:
        answer = await pipeline.context("what does the shop sell?")
    assert answer.coverage.unjudged == answer.coverage.candidates > 0
    assert any(
        "broken failed: ValueError: no such head" in absent.detail
        for absent in answer.unjudged.sample
    )


def test_a_clone_registers_nothing(shop: Path, tmp_path: Path) -> None:
    """Neither settings nor metadata in a clone's folder add a plugin, even if Python imports from
    it."""
    (shop / ".xscore.toml").write_text('[plugins]\nenabled = ["planted"]\n')
    (shop / "planted.py").write_text("raise SystemExit('ran code of a clone')\n")
    install_into(
        shop, "planted", boosters="planted = planted:booster", languages="planted = planted:row"
    )
    done = command(shop, tmp_path, "context", "Cart.add in shop/cart.py", "--judge", "lexical")
    assert done.returncode in (0, 1) and "only you may set" in done.stderr
    done = command(
        shop, tmp_path, "ask", "what is sold?", "--no-answer", XSCORE_PLUGINS_ENABLED="planted"
    )
    assert done.returncode == 2 and "which no package offers" in done.stderr


def test_each_kind_is_a_kind(install: Install) -> None:
    """An entry point of an unknown group is ignored."""
    install("language", languages="recipes = language:RECIPES", rubrics="x = language:RECIPES")
    assert "recipes" in installed()["languages"] and "rubrics" not in installed()
    assert (
        load_settings(repo_root=None, user_file=None, environ={}).settings.plugins.enabled == ()
    )
