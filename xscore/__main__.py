"""`python -m xscore` is `xscore`."""

from xscore.cli.main import run

run()
