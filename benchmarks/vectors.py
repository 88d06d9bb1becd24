"""How long do searches among vectors take, what memory, and how near duplicates grow?

    python benchmarks/vectors.py [--rows 1000 10000 100000] [--dims 384]

Each size and way is a process of its own, so that its peak memory is its own. `load` reads float16
blobs from a SQLite table and makes unit rows of them; `search` is one query for the ten nearest,
once cold and then as the median of twenty. Near duplicates are sentences put together at random
from a small vocabulary of real words, which is the worst case: many share their words.
"""

import argparse
import json
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

QUERIES = 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--only", nargs=2, metavar=("WAY", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        way, file = arguments.only
        print(
            json.dumps(
                near(arguments.rows[0]) if way == "near" else search(Path(file), arguments.dims)
            )
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        for rows in arguments.rows:
            file = Path(folder) / f"{rows}.db"
            fill(file, rows, arguments.dims)
            figures = {way: run(way, file, rows, arguments.dims) for way in ("search", "near")}
            of_search = figures["search"]
            print(
                f"{rows:7,} search load {of_search['load_ms']:8.1f} ms "
                f" first {of_search['first_ms']:7.1f} ms  search {of_search['search_ms']:7.2f} ms "
                f" peak {of_search['peak_mb']:6.0f} MB"
            )
            print(
                f"{rows:7,} near   {figures['near']['cpu_s']:.2f} s of CPU, peak"
                f" {figures['near']['peak_mb']:.0f} MB"
            )


def run(way: str, file: Path, rows: int, dims: int) -> dict:
    command = [
        sys.executable,
        __file__,
        "--only",
        way,
        str(file),
        "--rows",
        str(rows),
        "--dims",
        str(dims),
    ]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def fill(file: Path, rows: int, dims: int) -> None:
    import numpy as np

    from xscore.extensions.vectors.embedders import unit_rows

    chance = np.random.default_rng(1)
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE vec (memory_id TEXT, data BLOB)")
    for start in range(0, rows, 10_000):
        part = unit_rows(
            chance.normal(size=(min(10_000, rows - start), dims)).astype(np.float32)
        ).astype("<f2")
        connection.executemany(
            "INSERT INTO vec VALUES (?, ?)",
            [(f"m_{start + at:020}", row.tobytes()) for at, row in enumerate(part)],
        )
    connection.commit()
    connection.close()


def search(file: Path, dims: int) -> dict:
    import numpy as np

    from xscore.extensions.vectors.embedders import nearest

    began = time.perf_counter()
    vectors = sqlite3.connect(file).execute("SELECT memory_id, data FROM vec").fetchall()
    loaded = time.perf_counter()
    queries = np.random.default_rng(2).normal(size=(QUERIES + 1, dims)).astype(np.float32)
    times = []
    for query in queries:
        start = time.perf_counter()
        nearest(vectors, query, 10)
        times.append((time.perf_counter() - start) * 1000)
    return {
        "load_ms": (loaded - began) * 1000,
        "first_ms": times[0],
        "search_ms": statistics.median(times[1:]),
        "peak_mb": peak_mb(),
    }


def near(rows: int) -> dict:
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
