"""How long do searches among vectors take, how many of the nearest do they find, and how near
duplicates grow?

    python benchmarks/vectors.py [--rows 1000 10000 100000] [--dims 384]
        [--place postgresql://… qdrant:/…] [--vectors FILE.npy --queries FILE.npy]

Without `--vectors` they are drawn around 300 centers, queries near some of them. Each size and
place is a process of its own, so that its peak memory is its own. A store has a memory for each
vector; a place is what `embedding.search` may be, and the store itself comes first. `search` is one
query for the nearest that a turn asks for: once cold, then the median and the least of
twenty, with their CPU in this process; recall@10 is against the exact cosines. Near duplicates are
sentences put together at random from a small vocabulary of real words, which is the worst case:
many share their words.
"""

import argparse
import asyncio
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

QUERIES = 20
EMBEDDER = "openai:drawn"
IN_THE_STORE = "store"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--place", nargs="*", default=[])
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--queries", type=Path)
    parser.add_argument("--only", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        way, folder = arguments.only
        print(
            json.dumps(near(arguments.rows[0]) if way == "near" else search(way, Path(folder)))
        )
        return
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            fill(folder, *vectors(arguments, rows))
            for place in (IN_THE_STORE, *arguments.place):
                figures = run(place, folder, rows)
                print(
                    f"{rows:7,} {place.partition(':')[0]:10} sent {figures['send_s']:7.1f} s"
                    f"  first {figures['first_ms']:7.1f} ms  search {figures['search_ms']:7.1f} ms"
                    f"  least {figures['least_ms']:6.1f} ms  CPU {figures['cpu_ms']:6.1f} ms"
                    f"  recall@10 {figures['recall']:.3f}  peak {figures['peak_mb']:.0f} MB"
                    f" {figures['problem']}",
                    flush=True,
                )
            figures = run("near", folder, rows)
            print(
                f"{rows:7,} near   {figures['cpu_s']:.2f} s of CPU, {figures['peak_mb']:.0f} MB"
            )


def run(way: str, folder: Path, rows: int) -> dict[str, Any]:
    words = [sys.executable, __file__, "--only", way, str(folder), "--rows", str(rows)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def vectors(arguments: argparse.Namespace, rows: int) -> tuple[Any, Any]:
    """Return float16 vectors and queries."""
    import numpy as np

    from xscore.extensions.vectors.embedders import unit_rows

    if arguments.vectors:
        return np.load(arguments.vectors)[:rows], np.load(arguments.queries)[: QUERIES + 1]
    chance = np.random.default_rng(1)
    centers = chance.normal(size=(300, arguments.dims)).astype("f4")
    noise = chance.normal(size=(rows, arguments.dims)).astype("f4")
    drawn = centers[chance.integers(0, 300, rows)] + 0.8 * noise
    near_some = drawn[chance.integers(0, rows, QUERIES + 1)]
    queries = near_some + 0.5 * chance.normal(size=near_some.shape).astype("f4")
    return unit_rows(drawn).astype("<f2"), unit_rows(queries).astype("<f2")


def fill(folder: Path, drawn: Any, queries: Any) -> None:
    """Make a store with a memory for each vector."""
    import numpy as np

    from xscore.platform import database
    from xscore.records.memory import Kind, Layer
    from xscore.store import memory_writer
    from xscore.store.vector_rows import put_vectors

    np.save(folder / "queries.npy", queries)
    with opened(folder) as store:
        for start in range(0, len(drawn), 5_000):
            part = []
            for at in range(start, min(len(drawn), start + 5_000)):
                memory, _ = memory_writer.make_memory(
                    layer=Layer.GRAPH,
                    kind=Kind.FUNCTION,
                    title=f"def f{at}()",
                    text=f"def f{at}():\n    return {at}\n",
                    path=f"p{at // 20}.py",
                    entity=f"f{at}",
                    language="python",
                    updated_at=10.0,
                )
                part.append((memory, drawn[at].tobytes()))
            with database.transaction(store.connection):
                memory_writer.put_memories(store.connection, [memory for memory, _ in part])
                put_vectors(store.connection, EMBEDDER, part)


def opened(folder: Path) -> Any:
    from xscore.platform.paths import find_root
    from xscore.store.store import Store

    root = folder / "repository"
    (root / ".git").mkdir(parents=True, exist_ok=True)
    return Store.open(find_root(root), user_data_dir=folder / "user", trust=True)


def search(place: str, folder: Path) -> dict[str, Any]:
    return asyncio.run(measured("" if place == IN_THE_STORE else place, folder))


async def measured(place: str, folder: Path) -> dict[str, Any]:
    """Send the vectors to the place, then search there."""
    import numpy as np

    from xscore.extensions.vectors import pool_search
    from xscore.extensions.vectors.pool_search import nearest_memories, send_copies
    from xscore.extensions.vectors.turn_likeness import NEAREST
    from xscore.settings import EmbeddingSettings, Secret, Settings

    pool_search.SEARCH_S = 60.0  # a slow search is to be measured, not given up
    settings = Settings(embedding=EmbeddingSettings(search=Secret(place)))
    queries = np.load(folder / "queries.npy").astype("f4")
    figures: dict[str, Any] = {"problem": ""}
    with opened(folder) as store:
        began = time.perf_counter()
        problem = await send_copies(store, settings, EMBEDDER, in_turn=False)
        figures["send_s"] = time.perf_counter() - began
        times, cpu, ranked = [], [], []
        for query in queries:
            began, began_cpu = time.perf_counter(), time.process_time()
            likeness = await nearest_memories(store, settings, EMBEDDER, query, NEAREST)
            cpu.append((time.process_time() - began_cpu) * 1000)
            times.append((time.perf_counter() - began) * 1000)
            ranked.append(list(likeness.cosines)[:10])
            figures["problem"] = problem or " ".join(likeness.warnings)
        same = 0
        exact = nearest_by_all(store, queries)
        for ids, in_fact in zip(ranked, exact, strict=True):
            same += len(in_fact & set(ids))
    return figures | {
        "first_ms": times[0],
        "search_ms": statistics.median(times[1:]),
        "least_ms": min(times[1:]),
        "cpu_ms": statistics.median(cpu[1:]),
        "recall": same / (10 * len(queries)),
        "peak_mb": peak_mb(),
    }


def nearest_by_all(store: Any, queries: Any) -> list[set[str]]:
    """Return the ten nearest of each query, by comparing all vectors at once."""
    import numpy as np

    from xscore.extensions.vectors.embedders import unit_rows
    from xscore.store.vector_rows import all_vectors, memories_with_texts

    rows = all_vectors(store.connection, EMBEDDER)
    data = b"".join([blob for _, blob in rows])
    matrix = unit_rows(np.frombuffer(data, dtype="<f2").reshape(len(rows), -1))
    ids = []
    for query in queries:
        nearest_rows = np.argsort(-(matrix @ query))[:10].tolist()
        texts = [rows[row][0] for row in nearest_rows]
        ids.append(
            {identifier for identifier, _ in memories_with_texts(store.connection, texts)}
        )
    return ids


def near(rows: int) -> dict[str, Any]:
    from xscore.store.near_duplicates import near_duplicates

    words = Path(__file__).with_name("lexical_nonsense.csv").read_text("utf-8").split()
    chance = random.Random(3)
    texts = {str(at): " ".join(chance.choices(words, k=12)) for at in range(rows)}
    near_duplicates({"1": "the tables of words", "2": "are read"})
    began = time.process_time()
    near_duplicates(texts)
    return {"cpu_s": time.process_time() - began, "peak_mb": peak_mb()}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
