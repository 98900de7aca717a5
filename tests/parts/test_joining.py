"""`grn-workers --broker`: from a directory or an address to the broker that is meant."""

from pathlib import Path

import pytest

from grn_zmq.config import BadSetting
from grn_zmq.paths import find_places
from workers.joining import variables_for

CWD = Path("/somewhere")


@pytest.mark.parametrize(
    "where",
    [
        "/run/user/7/grn-b",
        "ipc:///run/user/7/grn-b/workers/broker.sock",
        "ipc:///run/user/7/grn-b/clients/broker.sock",
    ],
)
def test_g42_a_broker_is_named_by_its_directory_or_its_address(where: str) -> None:
    assert variables_for(where, CWD) == {"XDG_RUNTIME_DIR": "/run/user/7", "GRN_NAME": "b"}


def test_a_broker_without_name_is_meant_whatever_the_variable_says() -> None:
    assert variables_for("grn", CWD) == {"XDG_RUNTIME_DIR": "/somewhere", "GRN_NAME": ""}


def test_a_broker_without_runtime_directory_is_found_where_it_keeps_its_jobs() -> None:
    variables = variables_for("/home/ada/.local/state/grn-b/run", CWD)

    assert find_places(variables).directory == Path("/home/ada/.local/state/grn-b/run")


@pytest.mark.parametrize("where", ["tcp://10.0.0.1:5555", "tcp://localhost:5555"])
def test_an_address_of_another_machine_is_refused_kindly(where: str) -> None:
    with pytest.raises(BadSetting) as refused:
        variables_for(where, CWD)

    text = str(refused.value)
    assert where in text
    assert "will come with keys" in text
    assert "`grn status` names it" in text


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("ipc:///run/x.sock", "no broker has a socket there"),
        ("/run/user/7/other", "is called grn or grn-NAME, not other"),
        ("/run/user/7/grn-a b", "letters, digits"),
        ("/", "is called grn or grn-NAME"),
    ],
)
def test_what_is_no_broker_is_refused_with_the_reason(where: str, why: str) -> None:
    with pytest.raises(BadSetting, match=why):
        variables_for(where, CWD)
