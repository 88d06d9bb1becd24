"""`xscore cache key`: a new key for machines that share their caches; and how the commands beside it find theirs."""

import click

from xscore.cache.exchange_key import ExchangeKey, chosen_key, key_of, new_key
from xscore.cli.opening import read_settings
from xscore.cli.options import FILE, OUTPUT, Flags, Option, options
from xscore.cli.terminal import print_json

KEY: dict[str, Option] = {
    "key_file": click.option(
        "--key-file", metavar="FILE", type=FILE, help="Holds the key that your machines share, else XSCORE_CACHE_KEY."
    )
}


@click.command()
@options(OUTPUT)
def key(flags: Flags) -> None:
    """Print a new key and keep it nowhere: give it to each machine as XSCORE_CACHE_KEY, or in a file of yours alone.

    Whoever has it can make every machine that has it believe any score.
    """
    from xscore.pipeline.receipt import SCHEMA

    made = new_key()
    name = key_of(made, where="the new key").id
    if flags.terminal.as_json:
        print_json({"schema": SCHEMA, "key": made, "id": name})
        return
    flags.terminal.data(made)
    flags.terminal.note(f"a new key, called {name}; it is kept nowhere: put it into XSCORE_CACHE_KEY on each machine")


def key_in_force(flags: Flags) -> ExchangeKey | None:
    """Return the key of the file or of the environment; None: there is none. Raises UsageError."""
    cache = read_settings(flags).settings.cache
    return chosen_key(cache.key.get_secret_value(), cache.key_file)
