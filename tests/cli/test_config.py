"""Settings: which of flag, variable, file and default counts, and what cannot be."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.settings import Settings
from grn_zmq.cli.common import job_default
from grn_zmq.cli.config import config
from grn_zmq.config import BadSetting, Config, JobDefaults, read_config, report_setting
from grn_zmq.config_keys import KEYS
from grn_zmq.options import JobOptions
from tests.cli.scripts import TRACEBACK, descendants, run, started
from tests.test_imports import LOADED, isolated


def a_file(directory: Path, text: str) -> dict[str, str]:
    """Write settings, and give the environment that finds them."""
    (directory / "grn").mkdir(exist_ok=True)
    (directory / "grn" / "grn.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(directory)}


def nothing(directory: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(directory)}


def test_without_flag_variable_and_file_all_is_default(tmp_path: Path) -> None:
    found = read_config(nothing(tmp_path))

    assert found == Config()
    assert {found.source(key.name) for key in KEYS} == {"default"}


def test_a_flag_counts_before_a_variable_and_a_variable_before_the_file(tmp_path: Path) -> None:
    environ = a_file(tmp_path, 'devices = "host:1"\nmax_jobs = 1\noverflow = 0.1\n')
    environ |= {"GRN_DEVICES": "host:2", "GRN_MAX_JOBS": "2"}

    found = read_config(environ, {"devices": "host:3", "max_jobs": None})

    assert (found.devices, found.source("devices")) == ("host:3", "--devices")
    assert (found.max_jobs, found.source("max_jobs")) == (2, "GRN_MAX_JOBS")
    file = str(tmp_path / "grn" / "grn.toml")
    assert (found.overflow, found.source("overflow")) == (0.1, file)
    assert found.source("on_end") == "default"


def test_defaults_of_jobs_are_a_table_and_variables_with_two_underscores(
    tmp_path: Path,
) -> None:
    environ = a_file(tmp_path, '[job]\npriority = -3\ngrace = "1m"\ntime_limit = 90\n')

    found = read_config({**environ, "GRN_JOB__TIME_LIMIT": "2h"})

    assert found.job == JobDefaults(priority=-3, grace=60.0, time_limit=7200.0)
    assert found.source("job.time_limit") == "GRN_JOB__TIME_LIMIT"


def test_an_empty_variable_sets_nothing(tmp_path: Path) -> None:
    assert read_config({**nothing(tmp_path), "GRN_MAX_JOBS": ""}) == Config()


def test_whoever_has_a_supervisor_reads_flags_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".config").mkdir()
    a_file(tmp_path / ".config", "overflow = 0.3\n")

    assert read_config({}).overflow == 0.3
    assert read_config(None, {"overflow": "0.2"}).overflow == 0.2
    assert read_config(None) == Config()


@pytest.mark.parametrize(
    ("name", "bad", "allowed"),
    [
        ("GRN_DEVICES", "potato", "host:4x2GiB"),
        ("GRN_DEVICES", "host:0", "host:4x2GiB"),
        ("GRN_DEVICES", "host:0x2GiB", "host:4x2GiB"),
        ("GRN_MAX_JOBS", "0", "whole number from 1"),
        ("GRN_MAX_JOBS", "two", "whole number from 1"),
        ("GRN_OVERFLOW", "nan", "from 0.0001 to 0.5"),
        ("GRN_ON_END", "ftp://example.org", "http"),
        ("GRN_JOB__PRIORITY", "1.5", "whole number"),
        ("GRN_JOB__GRACE", "soon", "15m"),
        ("GRN_JOB__OOM_RETRIES", "101", "from 0 to 100"),
        ("GRN_JOB__TIME_LIMIT", "0", "more than 0"),
        ("GRN_JOB__TIME_LIMIT", "99999d", "15m"),
    ],
)
def test_a_variable_that_cannot_be_is_named_with_what_can(
    tmp_path: Path, name: str, bad: str, allowed: str
) -> None:
    with pytest.raises(BadSetting) as caught:
        read_config({**nothing(tmp_path), name: bad})

    assert f"{name}={bad}" in str(caught.value)
    assert allowed in str(caught.value)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("max_jobs = true", "max_jobs = true"),
        ('max_jobs = "4"', "max_jobs = '4'"),
        ("overflow = 0.9", "overflow = 0.9"),
        ("devices = 2", "devices = 2"),
        ("report = 1", "report = 1"),
        ('on_end = ["a"]', "on_end = ['a']"),
        ('[job]\ngrace = "soon"', "job.grace = 'soon'"),
        ("job = 3", "job = 3"),
        ("max_job = 3", "no setting max_job; there are devices, max_jobs"),
        ("[job]\nmemory = 3", "no setting job.memory"),
        ("max_jobs =", "no TOML"),
    ],
)
def test_a_line_of_the_file_that_cannot_be_is_named_with_its_file(
    tmp_path: Path, line: str, named: str
) -> None:
    environ = a_file(tmp_path, line)

    with pytest.raises(BadSetting) as caught:
        read_config(environ)

    assert str(tmp_path / "grn" / "grn.toml") in str(caught.value)
    assert named in str(caught.value)


def test_a_file_that_is_named_must_be_there_and_readable(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    with pytest.raises(BadSetting, match=r"GRN_CONFIG=.*no such file"):
        read_config({"GRN_CONFIG": str(other)})
    with pytest.raises(BadSetting, match="cannot be read"):
        read_config({"GRN_CONFIG": str(tmp_path)})
    other.write_bytes(b"\xff")
    with pytest.raises(BadSetting, match="not UTF-8"):
        read_config({"GRN_CONFIG": str(other)})
    other.write_text("max_jobs = 7\n")

    assert read_config({"GRN_CONFIG": str(other)}).max_jobs == 7


def test_defaults_are_those_of_the_broker_and_of_the_decorator() -> None:
    assert Config().overflow == Settings().overflow
    assert Config().on_end == Settings().on_end
    assert JobDefaults().oom_retries == JobOptions().oom_retries
    assert JobDefaults().grace == JobOptions().grace_s
    assert JobDefaults().priority == JobOptions().priority
    assert JobDefaults().time_limit == JobOptions().time_limit_s


def test_reports_are_wanted_as_the_file_says_unless_the_variable_does(tmp_path: Path) -> None:
    environ = a_file(tmp_path, "report = true\n")

    assert report_setting(environ) == "1"
    assert report_setting({**environ, "GRN_REPORT": "0"}) == "0"
    assert report_setting(nothing(tmp_path / "none")) == ""
    assert report_setting({**a_file(tmp_path, "report = 1"), "GRN_REPORT": "1"}) == "1"


@pytest.mark.parametrize(
    ("text", "expected"), [("1", True), ("true", True), ("0", False), ("False", False)]
)
def test_warm_starts_are_switched_off_by_word_or_number(
    tmp_path: Path, text: str, expected: bool
) -> None:
    assert read_config({**nothing(tmp_path), "GRN_WARM": text}).warm is expected


def test_toml_is_loaded_only_where_there_is_a_file(tmp_path: Path) -> None:
    code = f"from grn_zmq.config import read_config; read_config({nothing(tmp_path)}); {LOADED}"

    assert isolated(code, "tomllib").strip() == "[]"


def test_config_shows_name_value_and_source_also_as_json(tmp_path: Path) -> None:
    written = '[job]\ngrace = 30\ntime_limit = "12h"\n'
    environ = a_file(tmp_path, written) | {"GRN_MAX_JOBS": "3"}
    runner = CliRunner(env=environ)

    table = runner.invoke(config, [])
    facts = json.loads(runner.invoke(config, ["--json"]).stdout)
    path = runner.invoke(config, ["path"])

    assert table.exit_code == 0
    lines = [line.split("  ") for line in table.stdout.splitlines()]
    assert lines[0][0] == "NAME"
    assert any(line[0] == "max_jobs" and line[-1] == "GRN_MAX_JOBS" for line in lines)
    shown = {line.split()[0]: line.split()[1] for line in table.stdout.splitlines()}
    assert (shown["job.grace"], shown["job.time_limit"]) == ("30s", "12h")
    file = str(tmp_path / "grn" / "grn.toml")
    assert facts["settings"]["job.grace"] == {
        "value": 30.0,
        "source": file,
        "variable": "GRN_JOB__GRACE",
    }
    assert (facts["path"], facts["exists"]) == (file, True)
    assert path.stdout == f"{file}\n"


def test_a_bad_setting_is_one_line_and_a_usage_error(tmp_path: Path) -> None:
    runner = CliRunner(env=a_file(tmp_path, "overflow = 2.0\n"))

    plain = runner.invoke(config, [])
    as_json = runner.invoke(config, ["--json"])

    assert plain.exit_code == as_json.exit_code == 2
    assert plain.stderr.startswith("grn: ")
    assert len(plain.stderr.splitlines()) == 1
    assert "overflow = 2.0" in json.loads(as_json.stdout)["error"]


def test_the_default_of_an_option_is_read_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = job_default("priority")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    before = default()
    a_file(tmp_path, "[job]\npriority = 5\n")

    assert (before, default()) == (0, 5)
    a_file(tmp_path, "[job]\npriority = 5.5\n")
    with pytest.raises(SystemExit, match="2"):
        default()


@pytest.mark.e2e
def test_start_runs_with_what_is_set_and_says_so_with_debug(home: Path) -> None:
    a_file(home / "config", 'devices = "host:2x300MiB"\nmax_jobs = 3\n')
    set_here = {"GRN_DEVICES": "host:1x200MiB", "GRN_OVERFLOW": "0.04"}
    with started("--debug", environment=set_here) as server:
        rows = json.loads(run("grn", "devices", "--json").stdout)
        commands = [
            Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(server.pid)
        ]
        (said,) = [line for line in server.err.splitlines() if " settings " in line]

    assert [(row["total_bytes"], row["max_jobs"]) for row in rows] == [(200 << 20, 3)]
    (broker,) = [one for one in commands if b"grn_zmq.broker" in one]
    assert b"--overflow\0" + b"0.04\0" in broker
    assert " DEBUG " in said
    assert "devices=host:1x200MiB (GRN_DEVICES)" in said
    assert f"max_jobs=3 ({home / 'config' / 'grn' / 'grn.toml'})" in said
    assert "overflow=0.04 (GRN_OVERFLOW)" in said
    assert "on_end=nothing (default)" in said


@pytest.mark.e2e
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "words",
    [("grn", "start"), ("grn", "start", "--detach"), ("grn-broker",), ("grn-workers",)],
)
def test_nothing_starts_with_a_setting_that_cannot_be(tmp_path: Path, words: list[str]) -> None:
    environ = a_file(tmp_path, "max_job = 3\n")

    refused = run(*words, environment=environ)

    assert refused.returncode == 2
    assert b"max_jobs" in refused.stderr
    assert TRACEBACK.encode() not in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == ["grn"]
