"""`grn service`: the unit it writes, and what it asks of systemd."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from grn_zmq.cli import service as verb
from grn_zmq.cli.hosting import supervisor
from grn_zmq.cli.hosting.unitfile import STOP_S, carried, unit_path, unit_text
from grn_zmq.cli.service import service
from tests.cli.scripts import started
from tests.waiting import PATIENCE

pytestmark = pytest.mark.e2e

HOME: Final = Path("/home/ada")

# Writes down what it is told, and answers `show` from a file.
SYSTEMCTL: Final = """#!/bin/sh
echo "$@" >> "{directory}/told"
case "$2" in
    show) cat "{directory}/state" ;;
    "$(cat "{directory}/broken" 2>/dev/null)")
        echo "Created symlink a -> b" >&2
        echo "Job for grn.service failed." >&2
        exit 1 ;;
esac
"""


class FakeSystemd:
    """A `systemctl` on PATH that does nothing but remember."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        script = directory / "systemctl"
        script.write_text(SYSTEMCTL.format(directory=directory))
        script.chmod(0o755)
        self.is_in("inactive", 0)

    def is_in(self, active: str, pid: int) -> None:
        state = (
            f"LoadState=loaded\nUnitFileState=enabled\nActiveState={active}\nMainPID={pid}\n"
        )
        (self.directory / "state").write_text(state)

    def fails(self, order: str) -> None:
        (self.directory / "broken").write_text(order)

    def told(self) -> list[str]:
        """The orders it got, without questions."""
        lines = (self.directory / "told").read_text().splitlines()
        return [line for line in lines if " show " not in line]


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    """A home of one's own with a stand-in for systemd, and no broker in it."""
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(name, str(tmp_path / name))
    fake = FakeSystemd(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{fake.directory}:{os.environ['PATH']}")
    return fake


def invoke(*words: str) -> Result:
    return CliRunner().invoke(service, list(words))


def the_unit() -> Path:
    return unit_path(os.environ, Path.home())


def test_the_unit_starts_this_installation_and_ends_as_grn_start_does() -> None:
    text = unit_text(sys.executable, {})

    assert f'ExecStart="{sys.executable}" -m grn_zmq.cli.main start\n' in text
    for line in ("Restart=on-failure", "KillMode=mixed", "OOMPolicy=continue", "Type=notify"):
        assert f"\n{line}\n" in text
    takes_s = supervisor.ANSWER_S + supervisor.LEAVE_S + supervisor.BROKER_LEAVE_S
    assert takes_s < STOP_S


def test_what_differs_from_every_login_is_carried_over() -> None:
    environ = {
        "XDG_RUNTIME_DIR": "/run/user/1000",
        "XDG_STATE_HOME": "/data/ada",
        "XDG_CONFIG_HOME": "/home/ada/.config",
        "GRN_DEVICES": "nvml:0",
        "GRN_JOB_ID": "not a setting",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "EDITOR": "vi",
    }

    found = carried(environ, HOME, 1000)

    assert found == {
        "XDG_STATE_HOME": "/data/ada",
        "GRN_DEVICES": "nvml:0",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }


def test_the_unit_is_where_systemd_looks() -> None:
    there = unit_path({}, HOME)

    assert there == HOME / ".config/systemd/user/grn.service"
    assert unit_path({"XDG_CONFIG_HOME": "/c"}, HOME) == Path("/c/systemd/user/grn.service")


def test_install_writes_enables_and_starts(systemd: FakeSystemd) -> None:
    done = invoke("install")

    assert done.exit_code == 0, done.output
    assert systemd.told() == ["--user daemon-reload", "--user enable --now grn.service"]
    assert f"XDG_STATE_HOME={os.environ['XDG_STATE_HOME']}" in the_unit().read_text()
    assert str(the_unit()) in done.stdout
    assert "journalctl --user -u grn" in done.stdout


def test_print_prints_the_unit_and_does_nothing(systemd: FakeSystemd) -> None:
    done = invoke("install", "--print")

    assert done.stdout.startswith("# Written by")
    assert "[Install]\nWantedBy=default.target\n" in done.stdout
    assert not the_unit().exists()
    assert not (systemd.directory / "told").exists()


def test_a_unit_that_is_different_is_shown_and_left_alone_unless_forced(
    systemd: FakeSystemd,
) -> None:
    the_unit().parent.mkdir(parents=True)
    the_unit().write_text("[Service]\nExecStart=/mine\n")

    refused = invoke("install")
    left = the_unit().read_text()
    forced = invoke("install", "--force")

    assert refused.exit_code == 1
    assert "-ExecStart=/mine" in refused.stdout
    assert "+Type=notify" in refused.stdout
    assert "--force" in refused.stderr
    assert left == "[Service]\nExecStart=/mine\n"
    assert forced.exit_code == 0, forced.output
    assert "Type=notify" in the_unit().read_text()
    assert invoke("install").exit_code == 0  # the same once more is no difference


def test_without_systemctl_the_commands_to_run_are_named(
    systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    done = invoke("install")
    removed = invoke("uninstall")

    assert done.exit_code == 1
    assert "systemctl is not here" in done.stderr
    assert "systemctl --user daemon-reload" in done.stderr
    assert "systemctl --user enable --now grn.service" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert removed.exit_code == 0
    assert not the_unit().exists()


def test_a_service_that_does_not_come_up_is_reported_in_systemds_words(
    systemd: FakeSystemd,
) -> None:
    systemd.fails("enable")

    done = invoke("install")

    assert done.exit_code == 1
    assert "failed: Job for grn.service failed" in done.stderr
    assert "journalctl --user -u grn" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_broker_that_was_started_otherwise_is_in_the_way(
    systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "occupant", lambda: 4711)

    refused = invoke("install")
    systemd.is_in("active", 4711)
    again = invoke("install")

    assert refused.exit_code == 1
    assert "pid 4711" in refused.stderr
    assert again.exit_code == 0
    assert "systemctl --user restart grn" in again.stdout


def test_uninstall_stops_and_removes(systemd: FakeSystemd) -> None:
    nothing = invoke("uninstall")
    invoke("install")
    (systemd.directory / "told").unlink()

    done = invoke("uninstall")

    assert nothing.exit_code == 1
    assert "nothing to uninstall" in nothing.stderr
    assert done.exit_code == 0
    assert systemd.told() == ["--user disable --now grn.service", "--user daemon-reload"]
    assert not the_unit().exists()


def test_a_service_that_cannot_be_stopped_keeps_its_unit(systemd: FakeSystemd) -> None:
    invoke("install")
    systemd.fails("disable")

    done = invoke("uninstall")

    assert done.exit_code == 1
    assert f"rm {the_unit()}" in done.stderr
    assert the_unit().exists()


def test_status_says_whether_it_is_installed_and_runs(systemd: FakeSystemd) -> None:
    before = invoke("status")
    invoke("install")
    systemd.is_in("active", 4711)
    words = invoke("status")
    facts = json.loads(invoke("status", "--json").stdout)

    assert before.exit_code == 3
    assert "Not installed" in before.stdout
    assert words.exit_code == 0
    assert "enabled, active, pid 4711" in words.stdout
    assert facts == {
        "path": str(the_unit()),
        "installed": True,
        "enabled": "enabled",
        "active": "active",
        "pid": 4711,
        "lingering": facts["lingering"],
    }


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_itself_understands_the_unit(tmp_path: Path) -> None:
    python = tmp_path / "100% sure" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    unit = tmp_path / "grn.service"
    variables = {"GRN_ON_END": 'say "50%" \\ $HOME\nand more', "XDG_STATE_HOME": "/a b"}
    unit.write_text(unit_text(str(python), variables))

    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)],
        capture_output=True,
        text=True,
        timeout=20 * PATIENCE,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_start_tells_its_service_manager_when_it_is_ready(home: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(home / "notify"))
        manager.settimeout(20 * PATIENCE)
        environment = {"NOTIFY_SOCKET": str(home / "notify")}
        with started("--devices", "host:1x200MiB", environment=environment):
            said = manager.recv(100)

    assert said == b"READY=1"
