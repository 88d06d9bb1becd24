"""Do purposes of files help with the questions that developers type, without a key?

    python benchmarks/card_questions.py --repositories DIR --cards DIR

DIR/OWNER+NAME is a clone; cards are in DIR/OWNER+NAME.jsonl as `cards` reads them. The
questions of `keyless_questions` about repositories that have cards are asked twice of the real
pipeline: of a store without purposes, and of the same store with those of files. A card counts
for the file of its path, or for the only file of its name where that moved. Ends with 1 where
something is kept for more questions about what is not there than before, beyond chance.
"""

import argparse
import asyncio
import json
import posixpath
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from keyless_questions import PARTS, Question, Reply, read_questions, read_trees, replies
from msgspec import Struct
from msgspec.structs import replace
from trees import as_repository, checked_out

from xscore.pipeline.build import Pipeline
from xscore.platform import database
from xscore.settings import JudgeSettings, Settings, StoreSettings
from xscore.store.purposes import (
    Purpose,
    PurposeKey,
    PurposeKind,
    erase_purposes,
    save_purposes,
)

DRAWS = 4_000


class Pair(Struct, frozen=True):
    """One question without and with purposes."""

    repository: str
    before: Reply
    after: Reply


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--cards", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(".cache/lexical"))
    options = parser.parse_args()
    pairs: list[Pair] = []
    questions = read_questions()
    commits = {**read_trees(PARTS[0]), **read_trees(PARTS[1])}
    for path in sorted(options.cards.glob("*.jsonl")):
        repository = path.stem.replace("+", "/")
        if repository not in questions:
            print(f"{repository}: no questions")
            continue
        target = options.cache.resolve() / "questions" / path.stem
        tree = as_repository(
            checked_out(options.repositories, repository, commits[repository], target)
        )
        pairs += asyncio.run(asked_twice(tree, repository, questions[repository], path))
    present = [pair for pair in pairs if pair.before.question.gold]
    absent = [pair for pair in pairs if not pair.before.question.gold]
    show("there, any gold kept", present, lambda reply: reply.has_gold)
    show("there, memories kept", present, lambda reply: reply.kept)
    show("absent, the hook speaks", absent, lambda reply: reply.hook_speaks)
    lowest = show("absent, something kept", absent, lambda reply: reply.kept > 0)
    for pair in pairs:
        if pair.before.has_gold != pair.after.has_gold or (pair.before.kept > 0) != (
            pair.after.kept > 0
        ):
            print(f"  {pair.repository}: {pair.before.question.text}")
            print(f"    gold {pair.before.has_gold} -> {pair.after.has_gold}", end="")
            print(f", kept {pair.before.kept} -> {pair.after.kept}")
    return int(lowest > 0)


async def asked_twice(
    tree: Path, repository: str, questions: Sequence[Question], cards: Path
) -> list[Pair]:
    """Ask each question without and with the purposes that cards give."""
    await write_purposes(tree, {})
    before = await replies(tree, questions)
    count = await write_purposes(tree, read_file_cards(cards))
    after = await replies(tree, questions)
    await write_purposes(tree, {})
    print(f"{repository}: {count} files have a purpose", flush=True)
    return [Pair(repository, *both) for both in zip(before, after, strict=True)]


def read_file_cards(path: Path) -> dict[str, str]:
    """Return the cards of files, by path."""
    cards: dict[str, str] = {}
    for line in path.read_text("utf-8").splitlines():
        card = json.loads(line)
        if card["kind"] == "file":
            cards[card["path"]] = card["card"]
    return cards


async def write_purposes(tree: Path, cards: Mapping[str, str]) -> int:
    """Replace the purposes of a tree's store by these; return how many files have one."""
    user = StoreSettings(user_data_dir=tree.parent / "user")
    settings = replace(Settings(), judge=JudgeSettings(model="lexical"), store=user)
    async with Pipeline.open(tree, settings) as pipeline:
        await pipeline.index()
        store = pipeline.store
        files = store.connection.execute(
            "SELECT path, file_hash FROM file WHERE excluded = ''"
        ).fetchall()
        paths_of_name: dict[str, list[str]] = {}
        for path, _ in files:
            paths_of_name.setdefault(posixpath.basename(path), []).append(path)
        card_of_path: dict[str, str] = {}
        for path, card in cards.items():
            namesakes = paths_of_name.get(posixpath.basename(path), [])
            if len(namesakes) == 1:
                card_of_path[namesakes[0]] = card
        card_of_path |= cards
        purposes: list[Purpose] = []
        for path, file_hash in files:
            if path in card_of_path:
                key = PurposeKey(PurposeKind.FILE, file_hash)
                line = card_of_path[path]
                purposes.append(Purpose(key=key, path=path, line=line, writer="cards"))
        with database.transaction(store.connection) as connection:
            erase_purposes(connection)
            save_purposes(connection, purposes, now=0.0)
    return len(purposes)


def show(name: str, pairs: Sequence[Pair], value: Callable[[Reply], float]) -> float:
    """Print both means and the mean gain with an interval of 95 % from draws of repositories and of
    their questions; return its lower end."""
    rng = np.random.default_rng(7)
    repositories = sorted({pair.repository for pair in pairs})
    before = np.array([value(pair.before) for pair in pairs], float)
    after = np.array([value(pair.after) for pair in pairs], float)
    gain = after - before
    rows_of = [
        np.flatnonzero([pair.repository == repository for pair in pairs])
        for repository in repositories
    ]
    means: list[float] = []
    for _ in range(DRAWS):
        drawn = rng.integers(len(repositories), size=len(repositories))
        rows = np.concatenate(
            [rng.choice(rows_of[place], len(rows_of[place])) for place in drawn]
        )
        means.append(float(gain[rows].mean()))
    low, high = np.quantile(means, (0.025, 0.975))
    up, down = int((gain > 0).sum()), int((gain < 0).sum())
    print(
        f"{name}: n {len(pairs)}, {before.mean():.3f} -> {after.mean():.3f},"
        f" {gain.mean():+.3f} [{low:+.3f}, {high:+.3f}], up {up}, down {down}"
    )
    return float(low)


if __name__ == "__main__":
    raise SystemExit(main())
