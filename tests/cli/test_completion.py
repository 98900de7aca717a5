"""`grn completion`: real shells complete verbs, options and choices, without a broker."""

import os
import pty
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest

from grn_zmq.cli.main import VERBS
from tests.cli.scripts import BIN, run
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("home")]

# What a person does not notice: several times what it takes on an idle machine.
SOON_S: Final = 1.0

BASH: Final = """
eval "$(grn completion bash)"
COMP_WORDS=({words}); COMP_CWORD={last}; COMPREPLY=()
_grn_completion grn
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH: Final = """
autoload -U compinit; compinit -D
eval "$(grn completion zsh)"
(( ${+_comps[grn]} )) && print registered
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}


def shell(name: str, script: str) -> str:
    done = subprocess.run(
        [name, "-c", script],
        capture_output=True,
        text=True,
        timeout=20 * PATIENCE,
        cwd="/",
        env=environment(),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def completed(*words: str) -> list[str]:
    """What bash offers after these words, the last of which is not finished."""
    listed = " ".join(map(shlex.quote, words))
    return shell("bash", BASH.format(words=listed, last=len(words) - 1)).split()


def test_bash_completes_verbs() -> None:
    assert completed("grn", "sta") == ["start", "status"]


def test_bash_completes_options_of_a_verb() -> None:
    assert completed("grn", "start", "--de") == ["--devices", "--debug", "--detach"]


def test_bash_completes_verbs_of_a_verb_and_choices() -> None:
    assert completed("grn", "service", "un") == ["uninstall"]
    assert completed("grn", "completion", "") == ["bash", "zsh", "fish"]


def test_bash_lists_every_verb() -> None:
    assert completed("grn", "") == list(VERBS)


def test_completing_is_quick_and_needs_no_broker() -> None:
    asked = {
        "_GRN_COMPLETE": "bash_complete",
        "COMP_WORDS": "grn\nstart\n--",
        "COMP_CWORD": "2",
    }
    begun = time.monotonic()

    done = run("grn", environment=asked)

    assert time.monotonic() - begun < SOON_S * PATIENCE
    assert b"plain,--devices" in done.stdout
    assert done.stderr == b""


def test_a_tab_at_a_terminal_completes_the_word() -> None:
    """The whole way: readline, our function, `grn`, and the word on the screen."""
    rc = Path(os.environ["XDG_STATE_HOME"]) / "rc"
    rc.write_text("PS1='$ '\nbind 'set bell-style none'\neval \"$(grn completion bash)\"\n")
    pid, terminal = pty.fork()
    if pid == 0:
        command = ["bash", "--noprofile", "--rcfile", str(rc), "-i"]
        os.execvpe("bash", command, {**environment(), "TERM": "dumb"})
    try:
        _read_until(terminal, b"$ ")
        os.write(terminal, b"grn stat\t")
        _read_until(terminal, b"grn status ")
        os.write(terminal, b"\x15exit\r")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def _read_until(terminal: int, text: bytes) -> None:
    said = b""
    deadline = time.monotonic() + 20 * PATIENCE
    while text not in said:
        assert time.monotonic() < deadline, said
        said += os.read(terminal, 4096)


@pytest.mark.skipif(not shutil.which("zsh"), reason="there is no zsh")
def test_zsh_takes_its_script() -> None:
    assert "registered" in shell("zsh", ZSH)


@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish")
def test_fish_completes_verbs() -> None:
    said = shell("fish", "grn completion fish | source; complete -C 'grn sta'")

    assert [line.split("\t")[0] for line in said.splitlines()] == ["start", "status"]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_script_asks_grn_itself(name: str) -> None:
    done = run("grn", "completion", name)

    assert done.returncode == 0
    assert f"_GRN_COMPLETE={name}_complete".encode() in done.stdout
    assert done.stderr == b""


def test_files_are_completed_where_we_have_nothing_to_offer() -> None:
    assert b"-o bashdefault -o default" in run("grn", "completion", "bash").stdout


def test_a_shell_we_do_not_know_is_refused_with_those_we_do() -> None:
    refused = run("grn", "completion", "tcsh")

    assert refused.returncode == 2
    assert b"'bash', 'zsh', 'fish'" in refused.stderr
    assert run("grn", "completion").returncode == 2
