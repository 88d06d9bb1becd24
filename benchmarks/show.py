"""What the page of a turn costs: bytes and CPU over 10,000 memories; first paint and frames of a
zoom over 50,000 and 75,000, in a real browser.

    python -m benchmarks.show [--memories 10000] [--drawn 50000 75000] [--axe axe.min.js]

A tree of small functions is written, indexed and judged by a script that gives every memory a
reason; `xscore show` is then a process of its own. Its CPU has two anchors of the same run: a
process that only imports what it does, and `import click`. The large pages are the same record
with its folders repeated. A frame of the zoom is counted when the browser has drawn it; the CPU of
the page's thread is counted too, since frames a second say how loaded the machine is. Needs
Chromium; `--axe` names a copy of axe-core, which then looks at the page. What it does not measure:
a GPU, and a page on a telephone.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from benchmarks.measuring import CHECKOUT, XSCORE, commit_tree, take
from tests.servers import browser
from xscore.extensions.pages.reading import read_turn_page
from xscore.extensions.pages.records import TurnPage
from xscore.extensions.pages.turn_page import render_turn_page
from xscore.pipeline.build import Pipeline
from xscore.settings import Settings

MOST_BYTES, MOST_CPU_S, MOST_PAINT_S, LEAST_FRAMES = 1_500_000, 0.6, 0.5, 30
FUNCTIONS_IN_FILE = 12
TASK = "Where is the discount of an order worked out?"
IMPORTS = "import xscore.extensions.pages.commands, xscore.pipeline.build, xscore.cli.main"
ZOOM = """
new Promise(done => {
  const target = leafOf[inOrder[0]].parent, began = performance.now();
  let frames = 0;
  const count = () => {
    frames += 1;
    if (performance.now() - began < 3000) requestAnimationFrame(count);
  };
  requestAnimationFrame(count);
  const selection = parts.select(canvas);
  const x = width / 2 - 12 * (target.x0 + target.x1), y = height / 2 - 12 * (target.y0 + target.y1);
  const near = parts.zoomIdentity.translate(x, y).scale(24);
  selection.transition().duration(1450).call(zooming.transform, near)
    .transition().duration(1450).call(zooming.transform, parts.zoomIdentity);
  setTimeout(() => done({ frames, seconds: (performance.now() - began) / 1000 }), 3050);
})
"""
DRAWS = """
(() => {
  const times = [];
  for (let step = 0; step <= 40; step += 1) {
    const k = 1 + (step % 20) * 1.1;
    view = parts.zoomIdentity.translate(-width * (k - 1) * 0.4, -height * (k - 1) * 0.4).scale(k);
    const began = performance.now();
    draw();
    times.push(performance.now() - began);
  }
  times.sort((a, b) => a - b);
  return times[20];
})()
"""


def write_tree(root: Path, memories: int) -> None:
    """Write folders of small functions."""
    for number in range(memories // FUNCTIONS_IN_FILE):
        lines: list[str] = []
        for at in range(FUNCTIONS_IN_FILE):
            name = f"discount_of_order_{number}_{at}"
            body = f"    total = amount - {at}\n    return total * {number % 9 + 1}\n"
            lines.append(f'def {name}(amount):\n    """Take {at} off the order."""\n{body}')
        path = root / f"area_{number % 12}" / f"part_{number % 7}" / f"orders_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(lines))


def write_script(path: Path) -> str:
    """Write a script that gives every memory a score and a reason of ten words; name it."""
    rules: list[dict[str, object]] = []
    for digit in range(10):
        score = (digit / 10) ** 3
        reason = f"works on orders of the {digit}th area, and takes {digit} off them"
        rules.append({"entity": f"*_{digit}", "score": score, "reason": reason})
    path.write_text(json.dumps({"default": 0.05, "rules": rules}))
    return f"scripted:{path}"


async def read_record(root: Path) -> tuple[TurnPage, float]:
    """Return the record of the latest turn, and the CPU seconds of reading and rendering it."""
    async with Pipeline.open(root, Settings(), make=False) as pipeline:
        began = time.process_time()
        record = read_turn_page(pipeline.parts)
        render_turn_page(record)
        return record, time.process_time() - began


def repeated(record: TurnPage, memories: int) -> TurnPage:
    """Return the record with its folders repeated until it has this many memories."""
    many = list(record.memories)
    copy = 0
    while len(many) < memories:
        copy += 1
        for memory in record.memories[: memories - len(many)]:
            path = f"copy_{copy}/{memory.path}" if memory.path else ""
            many.append(memory._replace(path=path))
    return replace(record, memories=tuple(many))


async def look_at(page: Path, axe: Path | None) -> dict[str, Any]:
    """Return what a browser says of a page."""
    program = browser.installed()
    if program is None:
        raise SystemExit("there is no chromium: apt-get install chromium")
    with (
        tempfile.TemporaryDirectory() as home,
        browser.chromium(program, Path(home)) as address,
    ):
        async with browser.tab(address) as tab:
            await tab.look(width=1600, height=1000)
            await tab.send("Performance.enable", timeDomain="threadTicks")
            await tab.open(page)
            await tab.settle()
            paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
            seen: dict[str, Any] = {"paint_ms": await tab.run(paint)}
            seen["ready_ms"] = await tab.run(
                "performance.getEntriesByType('navigation')[0].loadEventEnd"
            )
            seen["load_cpu_s"] = await _thread_cpu(tab)
            seen["draw_ms"] = await tab.run(DRAWS)
            before = await _thread_cpu(tab)
            seen |= await tab.run(ZOOM)
            seen["zoom_cpu_s"] = await _thread_cpu(tab) - before
            if axe is not None:
                seen["axe"] = await _axe(tab, axe)
            seen["complaints"] = tab.complaints
            return seen


async def _thread_cpu(tab: browser.Tab) -> float:
    metrics = (await tab.send("Performance.getMetrics"))["metrics"]
    return float(next(entry["value"] for entry in metrics if entry["name"] == "TaskDuration"))


async def _axe(tab: browser.Tab, axe: Path) -> list[str]:
    """Return what axe-core finds serious or critical."""
    await tab.run(axe.read_text("utf-8") + "; 0")
    rules = "axe.run({ resultTypes: ['violations'] }).then(result => result.violations.map("
    shown = "one => [one.impact, one.id, one.nodes.length, one.nodes[0].html.slice(0, 160)]))"
    violations: list[list[Any]] = await tab.run(rules + shown)
    return [str(violation) for violation in violations]


def main() -> int:
    """Measure, print, and end with 1 where a target is missed."""
    options = read_options()
    misses: list[str] = []

    def check(name: str, is_met: bool) -> None:
        if not is_met:
            misses.append(name)

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        write_tree(root, options.memories)
        commit_tree(root)
        judge = write_script(Path(folder) / "script.json")
        take([*XSCORE, "ask", TASK, "--judge", judge, "--no-answer", "-q", "-y"], cwd=root)
        page = Path(folder) / "page.html"
        show = take([*XSCORE, "show", "-o", str(page), "-q"], cwd=root)
        imports = take([sys.executable, "-c", IMPORTS], cwd=CHECKOUT)
        click = take([sys.executable, "-c", "import click"], cwd=CHECKOUT)
        record, cpu_s = asyncio.run(read_record(root))
        size = page.stat().st_size
        print(f"{len(record.memories):,} memories: {size:,} bytes (most {MOST_BYTES:,})")
        print(
            f"read and rendered in {cpu_s:.2f} s of CPU (most {MOST_CPU_S}); the whole command"
            f" {show.cpu_s:.2f} s, {show.peak_mb:.0f} MB; anchors: its imports"
            f" {imports.cpu_s:.2f} s, import click {click.cpu_s:.2f} s"
        )
        check("bytes", size <= MOST_BYTES)
        check("CPU", cpu_s <= MOST_CPU_S)
        seen = asyncio.run(look_at(page, options.axe))
        print_seen(len(record.memories), seen)
        check("first paint", seen["paint_ms"] <= MOST_PAINT_S * 1_000)
        for drawn in options.drawn:
            large = Path(folder) / f"large_{drawn}.html"
            many = repeated(record, drawn)
            began = time.process_time()
            large.write_text(render_turn_page(many), "utf-8")
            rendered_s = time.process_time() - began
            size = large.stat().st_size
            print(f"{drawn:,}: {size:,} bytes, rendered in {rendered_s:.2f} s of CPU")
            seen = asyncio.run(look_at(large, None))
            print_seen(drawn, seen)
            check(f"frames over {drawn:,}", seen["frames"] / seen["seconds"] >= LEAST_FRAMES)
    print("missed: " + ", ".join(misses) if misses else "every target is met")
    return int(bool(misses))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--drawn", type=int, nargs="+", default=[50_000, 75_000])
    parser.add_argument("--axe", type=Path)
    return parser.parse_args()


def print_seen(memories: int, seen: dict[str, Any]) -> None:
    """Print what the browser said."""
    frames = seen["frames"]
    print(
        f"{memories:,} drawn: first paint {seen['paint_ms']:.0f} ms, loaded {seen['ready_ms']:.0f}"
        f" ms ({seen['load_cpu_s']:.2f} s of CPU); a drawing {seen['draw_ms']:.1f} ms; zoom"
        f" {frames / seen['seconds']:.0f} frames/s, {seen['zoom_cpu_s'] / frames * 1_000:.1f} ms of"
        " CPU a frame"
    )
    for line in (*seen.get("axe", ()), *seen["complaints"]):
        print(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
