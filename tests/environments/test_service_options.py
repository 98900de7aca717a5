"""How services are started: devices, log, file, and what they can do without."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from loguru import logger

import grn_zmq as grn
from grn_zmq.config import read_config
from grn_zmq.environments.catalogue import Catalogue
from grn_zmq.environments.local import Prefix
from tests.cli.scripts import run
from tests.conftest import forget_client
from tests.e2e.listed import all_devices
from tests.nvml.driver import FakeDriver
from tests.waiting import PATIENCE, until
from workers.environments import Environments, Farewell
from workers.farewells import Farewells
from workers.worker import read_catalogue

TABLE = '[environments.tf]\nkind = "prefix"\ncommand = "env"\n'


@pytest.mark.e2e
def test_p15_the_number_of_devices_is_what_the_driver_says(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeDriver(home / "three", [500, 500, 500])
    for name, value in driver.environment().items():
        monkeypatch.setenv(name, value)

    with grn.start(max_jobs=1):
        assert [row.facts.kind for row in all_devices()] == ["nvml"] * 3
        forget_client()


@pytest.mark.e2e
@pytest.mark.usefixtures("home")
def test_p15_p18_without_a_driver_an_option_says_how_many() -> None:
    with grn.start("host:3x100MiB", max_jobs=1):
        assert len(all_devices()) == 3
        forget_client()


@pytest.mark.e2e
@pytest.mark.usefixtures("home")
def test_p15_nobody_guesses_gpus_that_cannot_be_counted() -> None:
    done = run("grn", "start", "--devices", "nvml")

    assert done.returncode != 0
    assert b"Managing" not in done.stdout
    assert b"nvml" in done.stderr.lower()


@pytest.mark.e2e
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("words", [("grn", "start"), ("grn-workers",)])
def test_a_file_that_cannot_be_is_refused_at_the_start(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    path = tmp_path / "lab.toml"
    path.write_text("[environments.tf]\nkind = 'docker'\n")

    done = run(*words, "--devices", "host:1x100MiB", "--environments", str(path))

    assert done.returncode == 2
    assert f"{path}: [environments.tf] has no image: add image = …".encode() in done.stderr
    assert b"Traceback" not in done.stderr


def test_the_file_of_settings_may_hold_the_tables_itself(tmp_path: Path) -> None:
    path = tmp_path / "grn.toml"
    path.write_text(f"max_jobs = 2\n{TABLE}")

    found = read_config({"GRN_CONFIG": str(path)})

    assert (found.max_jobs, found.environments) == (2, str(path))
    assert found.source("environments") == str(path)


def test_or_name_another_file_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "grn.toml"
    path.write_text('environments = "lab.toml"\n')

    assert read_config({"GRN_CONFIG": str(path)}).environments == str(tmp_path / "lab.toml")
    given = read_config({"GRN_CONFIG": str(path)}, {"environments": "mine.toml"})
    assert (given.environments, given.source("environments")) == ("mine.toml", "--environments")


def test_a_worker_whose_file_broke_since_offers_nothing_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text("[environments.tf\n")
    told: list[str] = []
    sink = logger.add(lambda line: told.append(str(line)), format="{message} {extra[facts]}")
    try:
        assert read_catalogue(str(path)).offers == ()
    finally:
        logger.remove(sink)

    assert "no environments are offered" in told[0]
    assert "is no TOML" in told[0]


def test_p23_the_log_and_the_devices_are_given_from_outside() -> None:
    """Whoever starts the parts by hand adds a sink of their own; ours adds none by itself."""
    heard = io.StringIO()
    sink = logger.add(heard, format="{message}", level="ERROR")
    try:
        Farewells(set()).begin(Farewell(["/no/such/program"]), 0.0, lambda: None)
    finally:
        logger.remove(sink)

    assert heard.getvalue() == "what a killed job left could not be ended\n"
    mine = Environments(Catalogue([Prefix(name="mine", command=("env",))]), "0" * 32)
    assert [one.name for one in mine.offers] == ["mine"]


def looked(farewells: Farewells) -> bool:
    """Look once; say whether all are over."""
    farewells.look(1.0)
    return not len(farewells)


@pytest.mark.e2e
def test_a_farewell_holds_up_only_what_waits_for_it() -> None:
    known: set[int] = set()
    farewells, done = Farewells(known), list[str]()

    farewells.begin(Farewell(["sh", "-c", "exit 1"]), 0.0, lambda: done.append("waited"))
    farewells.begin(Farewell(), 0.0, lambda: done.append("at once"))
    assert done == ["at once"]
    assert len(known) == 1
    until(lambda: looked(farewells))

    assert done == ["at once", "waited"]
    assert known == set()


@pytest.mark.e2e
def test_a_farewell_that_hangs_is_given_up() -> None:
    farewells, done = Farewells(set()), list[str]()

    farewells.begin(Farewell(["sleep", "600"]), 0.0, lambda: done.append("over"))
    farewells.look(9.9)
    assert done == []
    farewells.look(10.0)

    assert done == ["over"]
    assert farewells.filenos() == []


BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pynvml", "torch", "tensorflow", "psutil"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""


@pytest.mark.e2e
@pytest.mark.usefixtures("home")
def test_p39_broker_and_client_need_no_gpu_library() -> None:
    serve = f"{BLOCKED}\nfrom grn_zmq.broker.__main__ import main\nmain([])"
    ask = (
        f"{BLOCKED}\nimport grn_zmq as grn\n"
        "from grn_zmq.cli.main import grn as verbs\n"
        "job = grn.job(environment='tensorflow', timeout=0)(lambda: 1)\n"
        "try:\n    job()\nexcept grn.WaitTimeout as error:\n    print(error)\n"
        "verbs(['status', '--json'], standalone_mode=False)\n"
        "assert 'pynvml' not in sys.modules"
    )
    broker = subprocess.Popen([sys.executable, "-c", serve], stderr=subprocess.PIPE)
    try:
        until(lambda: grn_runs() or broker.poll() is not None, 20)
        client = subprocess.run(
            [sys.executable, "-c", ask], capture_output=True, text=True, timeout=60 * PATIENCE
        )
    finally:
        broker.terminate()
        _, said = broker.communicate(timeout=20 * PATIENCE)

    assert client.returncode == 0, (client.stderr, said)
    first, _, status = client.stdout.partition("\n")
    assert "tensorflow" in first
    assert json.loads(status)["pid"] == broker.pid


def grn_runs() -> bool:
    from grn_zmq.starting import running_pid

    return running_pid() is not None
