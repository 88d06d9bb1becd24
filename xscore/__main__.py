"""`python -m xscore` is `xscore`."""

from xscore.cli.main import run_command_line

run_command_line()
