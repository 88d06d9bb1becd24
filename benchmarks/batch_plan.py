"""CPU and peak memory of 50,000 requests planned, committed and written as batch input.

    python benchmarks/batch_plan.py [--requests 50000]

Three lists over stores made for it: 100 questions that share 500 packs of 20; 10 questions to 5,000 memories, one
a prompt; and one question to 50,000 memories, one a prompt, of which nothing is shared. Each runs in a process of its
own: the questions are prepared and planned, the job is committed, and all its batches are written into a file without a
name, as they are before an upload. The anchor, in the same process, is `json.dumps` of the same bodies, parsed again
from one batch, as a program would write them that renders each by itself. The least CPU of three runs. Ends with 1
where one of the first two takes more than 3 s of CPU or 300 MB; the last, in which every prompt is fetched, checked and
rendered for one question alone, is told beside them.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from xscore.extensions.batch import job_rows
from xscore.extensions.batch.rendering import BatchRenderer, effective_batch_limits, open_input_file
from xscore.extensions.batch.submitting import batch_judge_factory, draft_job, save_job
from xscore.extensions.batch.vendor import batch_host_of_provider
from xscore.pipeline.build import Pipeline
from xscore.platform import database
from xscore.platform.paths import find_root, user_data_dir
from xscore.records import Kind, Layer, MemorySource, Scope
from xscore.records.batch import Question, QuestionList
from xscore.settings import JudgeSettings, OpenAISettings, Secret, Settings
from xscore.store import memory_writer
from xscore.store.store import Store

MOST_CPU_S, MOST_MB = 3.0, 300
RUNS = 3
LISTS = {
    "packs of 20, 100 questions": (100, 20),
    "one a prompt, 10 questions": (10, 1),
    "one a prompt, 1 question": (1, 1),
}
"""Questions and pack size; as many memories as make the requests."""
IN_A_PACK = 18
"""Memories with which a new pack of at most 20 is begun (`slots.FILL_SIZE`)."""
HELD = tuple(LISTS)[:2]
LINE = "    total = discount(sum(line.price for line in self.lines), rate=RATES[{}])\n"


class Taken(Struct):
    """What one list took."""

    requests: int
    prompts: int
    batches: int
    mb: float
    """Written."""
    plan_s: float
    keep_s: float
    write_s: float
    anchor_s: float
    """The same bodies by `json.dumps`, each by itself."""
    peak_mb: float

    @property
    def cpu_s(self) -> float:
        """Planned, committed and written."""
        return self.plan_s + self.keep_s + self.write_s


def fill(root: Path, memories: int) -> None:
    """Write so many functions of some 100 tokens into the store of this folder."""
    with Store.open(find_root(root), user_data_dir=user_data_dir(None)) as store:
        for start in range(0, memories, 10_000):
            with database.transaction(store.connection):
                memory_writer.put_memories(
                    store.connection, [function(at) for at in range(start, min(start + 10_000, memories))]
                )


def function(number: int):
    """Make one memory."""
    text = f"def checkout_{number}(self) -> int:\n" + "".join(LINE.format(number + line) for line in range(5))
    memory, _ = memory_writer.make_memory(
        layer=Layer.GRAPH,
        kind=Kind.FUNCTION,
        title=f"checkout_{number}",
        text=text,
        path=f"shop/f{number // 20:05}.py",
        entity=f"checkout_{number}",
        start_line=1 + number % 20 * 8,
        end_line=7 + number % 20 * 8,
        language="python",
        source=MemorySource.INDEX,
        created_at=1.0,
        updated_at=1.0,
    )
    return memory


async def measure(root: Path, questions: int, pack_size: int) -> Taken:
    """Plan, commit and write one list."""
    asked = tuple(
        Question(id=f"q{number}", task=f"Review {number}: is the discount taken once? " + "Look at rates. " * 20)
        for number in range(questions)
    )
    settings = Settings(
        judge=JudgeSettings(model="openai:gpt-5-nano", probe=False, pack_size=pack_size),
        openai=OpenAISettings(api_key=Secret("sk-benchmark-0000000000")),
    )
    async with Pipeline.open(root, settings) as pipeline:
        parts, store = pipeline.parts, pipeline.store
        host = batch_host_of_provider(batch_judge_factory(parts).provider)
        limits = effective_batch_limits(host.limits, settings.batch)
        started = time.process_time()
        drawn = draft_job(parts, QuestionList(asked, "digest"), scope=Scope(), limits=limits)
        planned = time.process_time()
        job = job_rows.read_job(store.connection, save_job(parts, drawn))
        kept = time.process_time()
        todo = job_rows.planned_requests(store.connection, job.id)
        rendering, done, written, batches = BatchRenderer(store, host, job), 0, 0, 0
        while done < len(todo):
            with open_input_file(store) as into:
                batches += 1
                filled = rendering.fill(into, todo[done:], mark=f"xs_benchmark_{batches}", limits=limits)
                done, written = done + len(filled.taken), written + filled.bytes
                if batches == 1:
                    paused = time.process_time()
                    into.seek(0)
                    bodies = [json.loads(line) for _, line in zip(range(2_000), into, strict=False)]
                    paused = time.process_time() - paused
        wrote = time.process_time() - paused
        parsing = time.process_time()
        for line in bodies:
            json.dumps(line)
        anchor = (time.process_time() - parsing) / len(bodies) * len(todo)
        store.connection.execute("DELETE FROM job")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000
    return Taken(
        requests=len(todo),
        prompts=len(drawn.plan.asks),
        batches=batches,
        mb=written / 1e6,
        plan_s=planned - started,
        keep_s=kept - planned,
        write_s=wrote - kept,
        anchor_s=anchor,
        peak_mb=peak,
    )


def in_a_process(root: Path, questions: int, pack_size: int) -> Taken:
    """Measure one list in a process of its own."""
    command = [sys.executable, __file__, "--one", str(root), str(questions), str(pack_size)]
    return Taken(**json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        root, questions, pack_size = options.one
        print(json.dumps(asdict(asyncio.run(measure(Path(root), int(questions), int(pack_size))))))
        return 0
    failed = False
    for name, (questions, pack_size) in LISTS.items():
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder), options.requests * min(pack_size, IN_A_PACK) // questions)
            runs = [in_a_process(Path(folder), questions, pack_size) for _ in range(RUNS)]
        best = min(runs, key=lambda run: run.cpu_s)
        peak = max(run.peak_mb for run in runs)
        is_held = best.cpu_s <= MOST_CPU_S and peak <= MOST_MB
        failed |= not is_held and name in HELD
        print(
            f"{name}: {best.requests:,} requests of {best.prompts:,} prompts, {best.batches} batches, {best.mb:.0f} MB:"
            f" {best.cpu_s:.2f} s of CPU (plan {best.plan_s:.2f}, commit {best.keep_s:.2f}, write {best.write_s:.2f}),"
            f" peak {peak:.0f} MB; json.dumps of the same bodies {best.anchor_s:.2f} s, ratio"
            f" {best.cpu_s / best.anchor_s:.2f}{'' if is_held else '; missed'}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
