"""`xscore completion`: the script a shell sources to complete commands and options."""

import click

from xscore.cli.terminal import echo

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    bash: eval "$(xscore completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish: save it as
    ~/.config/fish/completions/xscore.fish.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "xscore", "_XSCORE_COMPLETE")
    echo(ShellComplete.source(script))  # the class's own checks the installed bash; the script does not need it
