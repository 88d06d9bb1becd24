"""`xscore memory suggest`: what you usually do and this project has said nothing of."""

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import echo, print_json
from xscore.learning.suggestions import Suggestion, Suggestions
from xscore.learning.suggestions import suggest as look
from xscore.pipeline.receipt import to_json
from xscore.safe_text import one_line
from xscore.wording import counted


@click.command()
@options(OUTPUT)
def suggest(flags: Flags) -> None:
    """Say what you usually do that nothing here speaks of yet; `xscore memory mute KEY` silences a key.

    Nothing is applied: `xscore memory add` what holds here too.
    """
    terminal = flags.terminal
    found = in_store(lambda store: look(store, at_least=store.settings.inferred_confidence), flags)
    if terminal.as_json:
        print_json(to_json(found))
    elif found.suggestions:
        echo(page(found))
    else:
        terminal.note("nothing to suggest")


def page(found: Suggestions) -> str:
    """The sentence, then one line each."""
    return "\n".join([one_line(found.text), "", *map(_line, found.suggestions)])


def _line(each: Suggestion) -> str:
    where = f", in {counted(each.projects, 'project')}" if each.projects else ""
    return f"{one_line(each.key):<20} {one_line(each.value)}  (confidence {each.confidence:.2f}{where})"
