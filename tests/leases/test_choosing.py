"""Which devices a process may lease: counts, what is visible to it, what is free. Pure."""

from typing import Any

import pytest

from grn_zmq.choosing import (
    ALL,
    Choice,
    checked_count,
    choose,
    counted_devices,
    free_devices,
    tell_free,
    visible_entries,
)
from grn_zmq.errors import DeviceError
from grn_zmq.facts import DeviceRow
from grn_zmq.records import DeviceProcess
from tests.builders import a_device, a_device_row


def a_card(index: int, **changes: Any) -> DeviceRow:
    """A GPU that nobody has."""
    display = changes.pop("display", False)
    facts = a_device(index, kind="nvml", uuid=f"GPU-{index:04}-abcd", display=display)
    return a_device_row(index, facts=facts, **{"jobs": 0, **changes})


CARDS = [a_card(index) for index in range(6)]
STRANGER = DeviceProcess(4711, 100, "")


@pytest.mark.parametrize("count", [0, -2, -100, 0.5, 1.0])
def test_s24_p05_silly_counts_raise_value_error(count: object) -> None:
    with pytest.raises(ValueError, match=f"gpus={count}: a lease"):
        checked_count(count)


@pytest.mark.parametrize("count", [True, "2", None])
def test_s24_what_is_no_whole_number_raises_type_error(count: object) -> None:
    with pytest.raises(TypeError, match="must be a whole number"):
        checked_count(count)


def test_counts_and_all_are_taken_as_they_are() -> None:
    class Counts:
        def __index__(self) -> int:
            return 3

    assert [checked_count(one) for one in (1, 8, ALL, Counts())] == [1, 8, -1, 3]


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("5", ("5",)),
        ("0, 2,GPU-0003", ("0", "2", "GPU-0003")),
        ("0,-1,2", ("0",)),
        ("-1", ()),
        ("", ()),
        (" ", ()),
        ("0,,1", ("0",)),
    ],
)
def test_what_is_visible_ends_where_it_ends_for_cuda(text: str, entries: Any) -> None:
    assert visible_entries({"CUDA_VISIBLE_DEVICES": text}) == entries


def test_without_the_variable_nothing_is_restricted() -> None:
    assert visible_entries({"NV_GPU": "0"}) is None


def test_s23_a_claim_is_among_what_is_visible() -> None:
    assert choose(1, ["5"], CARDS) == Choice(1, ("GPU-0005-abcd",))
    assert choose(2, ["GPU-0002", "4"], CARDS) == Choice(2, ("GPU-0002-abcd", "GPU-0004-abcd"))


def test_s23_all_means_all_that_are_visible() -> None:
    assert choose(ALL, ["1", "3"], CARDS) == Choice(2, ("GPU-0001-abcd", "GPU-0003-abcd"))


def test_s23_a_device_that_is_not_managed_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(DeviceError, match=r"DEVICES=9 is all .* it has 0, 1, 2, 3"):
        choose(1, ["9"], CARDS)


def test_s23_more_than_are_visible_is_an_error_with_both_numbers() -> None:
    with pytest.raises(DeviceError, match=r"gpus=3: CUDA_VISIBLE_DEVICES=0,1 leaves 2 of"):
        choose(3, ["0", "1"], CARDS)


def test_s23_a_process_that_sees_no_gpu_cannot_lease_any() -> None:
    with pytest.raises(DeviceError, match="hides every GPU"):
        choose(1, [], CARDS)


def test_what_cuda_shows_does_not_concern_host_memory() -> None:
    assert choose(2, [], [a_device_row(0), a_device_row(1)]) == Choice(2)


def test_s15_free_is_what_neither_we_nor_strangers_have() -> None:
    rows = [a_card(0, jobs=1), a_card(1, processes=(STRANGER,)), a_card(2), a_card(10)]

    free = free_devices(rows)

    assert [row.facts.index for row in free] == [2, 10]
    assert tell_free(3, free, rows) == "3 wanted, of 4 devices 2 are free: nvml:2, nvml:10"
    assert tell_free(ALL, [], rows) == "all wanted, of 4 devices none is free"


def test_s18_the_only_device_is_free_although_the_display_is_on_it() -> None:
    shown = a_card(0, display=True, processes=(STRANGER,))

    assert free_devices([shown]) == [shown]
    assert free_devices([shown, a_card(1)]) == [a_card(1)]


def test_devices_are_counted_in_words() -> None:
    assert [counted_devices(one) for one in (1, 2, ALL)] == [
        "1 device",
        "2 devices",
        "all devices",
    ]
