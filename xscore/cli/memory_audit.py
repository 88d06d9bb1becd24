"""`xscore memory audit`: what of the remembered deserves a look. It changes nothing but the state of stale memories.

`xscore memory stats`: what each layer holds beside code, against its caps, and how much of it is used.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.phrases import format_age
from xscore.cli.terminal import bold, faint, print_json, write_stdout
from xscore.platform.text import counted, format_bytes, one_line

if TYPE_CHECKING:
    from xscore.extensions.learning.audit import AuditFinding, MemoryAudit
    from xscore.records import LayerStats
    from xscore.store.store import Store


FINDINGS_SHOWN = 10
"""Findings of one kind that are listed; `--verbose` and `--json` show all."""
_NEEDS_DOING = 1
"""Exit code."""
_HEADINGS = {
    "secret": ("suspected secrets", "xscore memory delete ID"),
    "stale": ("stale", "xscore memory update ID --cite PATH:LINES, or delete ID"),
    "duplicate": ("the same twice", "xscore memory consolidate, or delete all but the first"),
    "near_duplicate": ("the same in other words", "xscore memory consolidate, or delete all but the first"),
    "over_cap": ("over their caps", "xscore memory consolidate, or raise memory.max_rows, memory.max_bytes"),
    "unused": ("never chosen", "good to know; consolidate retires them"),
    "doubtful": ("of low confidence", "good to know; xscore memory feedback ID accept|reject"),
}
DAYS = {
    "days": click.option(
        "--days",
        metavar="N",
        type=click.FloatRange(min=0),
        help="Name what no turn chose in so many days: memory.drop_days unless set.",
    )
}


@click.command()
@options(DAYS, OUTPUT)
def audit_memories(flags: Flags) -> int:
    """Name duplicates, stale memories with the citation that broke, suspected secrets, layers over their caps.

    Ends with 1 where something needs doing. Nothing is sent, and nothing is erased.
    """
    found = in_store(lambda store: _audited(store, flags.given["days"]), flags)
    if flags.terminal.as_json:
        from xscore.pipeline.json_form import to_json

        print_json({**to_json(found), "is_clean": found.is_clean})
    else:
        write_stdout(render_audit(found, shown=len(found.findings) if flags.terminal.verbose else FINDINGS_SHOWN))
    return 0 if found.is_clean else _NEEDS_DOING


def _audited(store: "Store", days: float | None) -> "MemoryAudit":
    from xscore.extensions.learning.audit import LayerCaps
    from xscore.extensions.learning.audit import audit_memories as look

    kept = store.settings
    caps = LayerCaps(
        rows={str(layer): most for layer, most in kept.max_rows.items()},
        bytes={str(layer): most for layer, most in kept.max_bytes.items()},
    )
    return look(store, now=store.clock(), caps=caps, unused_days=kept.drop_days if days is None else days)


def render_audit(found: "MemoryAudit", *, shown: int = FINDINGS_SHOWN) -> str:
    """Show the findings by kind, what needs doing first, with the command that does it."""
    groups: dict[str, list[AuditFinding]] = {}
    for finding in found.findings:
        groups.setdefault(finding.problem, []).append(finding)
    lines = []
    for problem, findings in groups.items():
        heading, remedy = _HEADINGS[problem]
        lines.append(f"{bold(f'{len(findings):,} {heading}')}  {faint(remedy)}")
        lines += [_finding_line(finding) for finding in findings[:shown]]
        if len(findings) > shown:
            lines.append(f"  … and {len(findings) - shown:,} more (--verbose)")
    looked_at = counted(found.looked_at, "memory", "memories")
    end = "nothing needs doing" if found.is_clean else "something needs doing"
    return "\n".join([*lines, f"{looked_at} looked at: {end}."])


def _finding_line(finding: "AuditFinding") -> str:
    named = [f"{identifier} “{title}”" for identifier, title in zip(finding.ids, finding.titles, strict=True)]
    return one_line("  " + ", ".join(named) + (": " if named else "") + finding.because)


_STATS_HEAD = f"{'layer':<11}{'rows':>8}{'of':>9}{'bytes':>10}{'of':>9}{'uses':>7}{'unused':>8}  oldest     newest"


@click.command()
@options(OUTPUT)
def memory_stats(flags: Flags) -> None:
    """Count rows and bytes of each layer against its caps, with age and use. Memories of files are not counted."""

    def work(store: "Store") -> None:
        from xscore.pipeline.json_form import SCHEMA, record_json
        from xscore.store.lookup import layer_stats

        found = layer_stats(store)
        if flags.terminal.as_json:
            print_json({"schema": SCHEMA, "layers": [record_json(one) for one in found]})
        else:
            write_stdout("\n".join([_STATS_HEAD, *(render_layer_stats(one, now=store.clock()) for one in found)]))

    in_store(work, flags)


def render_layer_stats(one: "LayerStats", *, now: float) -> str:
    """One layer; `-` where there is no cap, or nothing to be of an age."""
    ages = [format_age(at, now) if one.rows else "-" for at in (one.oldest_at, one.newest_at)]
    caps = [f"{one.max_rows:,}" if one.max_rows else "-", format_bytes(one.max_bytes) if one.max_bytes else "-"]
    return (
        f"{one.layer:<11}{one.rows:>8,}{caps[0]:>9}{format_bytes(one.bytes):>10}{caps[1]:>9}{one.uses:>7,}{one.never_used:>8,}"
        f"  {ages[0]:<10} {ages[1]}"
    )
