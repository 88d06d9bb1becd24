"""`xscore doctor`: whether models, keys, store and settings are fit for use."""

import click

from xscore.cli.failures import EXIT_CODES
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import MODELS, OUTPUT, Flags, options
from xscore.cli.progress import Watch
from xscore.cli.terminal import bold, echo, print_json
from xscore.pipeline.receipt import to_json
from xscore.records import Diagnosis
from xscore.safe_text import one_line

TO_MEND = 3
assert TO_MEND in EXIT_CODES


@click.command()
@click.option(
    "--probe", is_flag=True, help="Have the judge score two made-up functions, and ask the hosts for their models."
)
@options(MODELS, OUTPUT)
def doctor(probe: bool, flags: Flags) -> int:
    """Check models, keys, hosts, store and settings, and say what to mend.

    Ends with 3 where something is to be mended. Nothing is sent unless you say --probe, which may cost a fraction of a
    cent and sends nothing of the repository.
    """
    terminal = flags.terminal
    watch = Watch(terminal)
    found = in_pipeline(lambda open_: open_.doctor(probe=probe), read_settings(flags), watch)
    if terminal.as_json:
        print_json(to_json(found))
    else:
        echo(page(found))
    return 0 if all(finding.ok for finding in found.findings) else TO_MEND


def page(found: Diagnosis) -> str:
    """One line a finding, with its hint below where something is to be mended."""
    width = max((len(finding.name) for finding in found.findings), default=0)
    lines: list[str] = []
    for finding in found.findings:
        mark = "ok  " if finding.ok else bold("mend")
        lines.append(f"{mark}  {finding.name:<{width}}  {one_line(finding.detail)}")
        if finding.hint:
            lines.append(f"      {'':<{width}}  {one_line(finding.hint)}")
    return "\n".join(lines)
