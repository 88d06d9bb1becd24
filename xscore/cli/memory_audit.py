"""`xscore memory audit`: what of the remembered deserves a look. It changes nothing but the state of stale memories."""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import bold, echo, faint, print_json
from xscore.safe_text import one_line
from xscore.wording import counted

if TYPE_CHECKING:
    from xscore.memory.audit import Audit, Finding
    from xscore.memory.store import Store

SHOWN = 10
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
def audit(flags: Flags) -> int:
    """Name duplicates, stale memories with the citation that broke, suspected secrets, layers over their caps.

    Ends with 1 where something needs doing. Nothing is sent, and nothing is erased.
    """
    found = in_store(lambda store: _audited(store, flags.given["days"]), flags)
    if flags.terminal.as_json:
        from xscore.pipeline.receipt import to_json

        print_json({**to_json(found), "is_clean": found.is_clean})
    else:
        echo(page(found, shown=len(found.findings) if flags.terminal.verbose else SHOWN))
    return 0 if found.is_clean else _NEEDS_DOING


def _audited(store: "Store", days: float | None) -> "Audit":
    from xscore.memory.audit import Caps
    from xscore.memory.audit import audit as look

    kept = store.settings
    caps = Caps(
        rows={str(layer): most for layer, most in kept.max_rows.items()},
        bytes={str(layer): most for layer, most in kept.max_bytes.items()},
    )
    return look(store, now=store.clock(), caps=caps, unused_days=kept.drop_days if days is None else days)


def page(found: "Audit", *, shown: int = SHOWN) -> str:
    """Show the findings by kind, what needs doing first, with the command that does it."""
    groups: dict[str, list[Finding]] = {}
    for finding in found.findings:
        groups.setdefault(finding.problem, []).append(finding)
    lines = []
    for problem, findings in groups.items():
        heading, remedy = _HEADINGS[problem]
        lines.append(f"{bold(f'{len(findings):,} {heading}')}  {faint(remedy)}")
        lines += [_line(finding) for finding in findings[:shown]]
        if len(findings) > shown:
            lines.append(f"  … and {len(findings) - shown:,} more (--verbose)")
    looked_at = counted(found.looked_at, "memory", "memories")
    end = "nothing needs doing" if found.is_clean else "something needs doing"
    return "\n".join([*lines, f"{looked_at} looked at: {end}."])


def _line(finding: "Finding") -> str:
    named = [f"{identifier} “{title}”" for identifier, title in zip(finding.ids, finding.titles, strict=True)]
    return one_line("  " + ", ".join(named) + (": " if named else "") + finding.because)
