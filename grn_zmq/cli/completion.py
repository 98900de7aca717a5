"""`grn completion`: the script that lets a shell complete verbs and options."""

import click
from click.shell_completion import ShellComplete, get_completion_class

from .common import fail, flush, one_line_errors

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), metavar="bash|zsh|fish")
@one_line_errors
def completion(shell: str) -> None:
    """Print what makes a shell complete `grn sta<TAB>`; no broker is needed.

    \b
    eval "$(grn completion bash)"          in ~/.bashrc
    eval "$(grn completion zsh)"           in ~/.zshrc, after compinit
    grn completion fish > ~/.config/fish/completions/grn.fish
    """
    found = get_completion_class(shell)
    if found is None:
        fail(f"this version of click knows no completion for {shell}: upgrade click", 1)
    click.echo(script(found), nl=False)
    flush()


def script(shell: type[ShellComplete]) -> str:
    """Write the script for `grn`, which asks `grn` itself what there is to complete."""
    from .main import grn

    asker = shell(grn, {}, "grn", "_GRN_COMPLETE")
    text = asker.source_template % asker.source_vars()
    # Where we have nothing to offer, as after `grn run --`, files are meant.
    return text.replace("complete -o nosort ", "complete -o nosort -o bashdefault -o default ")
