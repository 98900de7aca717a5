"""What jobs get of queues with declared resources, on six stand-in GPUs."""

import json
from pathlib import Path

import pytest

from grn_zmq import job
from tests.cli.gates import Gates
from tests.cli.queuing import MakeQueue, enqueue, left_of, refused
from tests.cli.verbs import facts, grn, row_of, said, until_ended, until_state
from tests.nvml.driver import FakeDriver
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("no_queues")]


def test_g03_two_queues_have_capacities_of_their_own(queue: MakeQueue, gates: Gates) -> None:
    with queue("one", "{slot:1}"), queue("two", "{slot:1}"):
        enqueue("one", "{slot:1}", *gates.command("a"))
        second = enqueue("one", "{slot:1}", *gates.command("b"))
        enqueue("two", "{slot:1}", *gates.command("c"))
        gates.await_begun("a", "c")

        assert row_of(second)["state"] == "queued"
        assert gates.begun().count("b") == 0
        gates.open("a")
        gates.await_begun("b")
        gates.open()


def test_g05_g51_instances_of_a_number_are_the_first_devices(
    queue: MakeQueue, gates: Gates, six_gpus: FakeDriver
) -> None:
    with queue("q", "{gpu:4}"):
        numbers = [enqueue("q", "{gpu:1}", *gates.command(f"job{n}", "all")) for n in range(5)]
        seen = [gates.seen(f"job{n}") for n in range(4)]

        assert {one["GRN_DEVICE"] for one in seen} == {f"nvml:{n}" for n in range(4)}
        for one in seen:
            index = one["GRN_DEVICE"].partition(":")[2]
            assert one["CUDA_VISIBLE_DEVICES"] == six_gpus.uuid(int(index))
            assert json.loads(one["GRN_RESOURCES"]) == {"gpu": {index: "1"}}
            assert (one["GRN_RESOURCE_GPU"], one["GRN_AMOUNT_GPU"]) == (index, "1")
        assert row_of(numbers[4])["state"] == "queued"
        gates.open()
        gates.await_begun("job4")


def test_g06_a_list_has_instances_of_these_amounts(queue: MakeQueue, gates: Gates) -> None:
    with queue("q", "{hdd:[32,64,128]}"):
        enqueue("q", "{hdd:100}", *gates.command("large", "all"))
        seen = gates.seen("large")

        assert seen["GRN_RESOURCE_HDD"] == "2"
        assert seen["GRN_AMOUNT_HDD"] == "100"
        assert left_of("q")["hdd"] == {"0": "32", "1": "64", "2": "28"}
        gates.open()


def test_g07_only_the_devices_that_were_named_are_given(queue: MakeQueue, gates: Gates) -> None:
    with queue("q", "{gpu:{'2':1,'4':1}}"):
        for n in range(5):
            enqueue("q", "{gpu:0.5}", *gates.command(f"job{n}", f"gate{n}"))
        gates.await_begun(*(f"job{n}" for n in range(4)))
        gates.open("gate0")
        gates.await_begun("job4")
        gates.open()

        devices = {gates.seen(f"job{n}")["GRN_DEVICE"] for n in range(5)}
        assert devices == {"nvml:2", "nvml:4"}


def test_g08_one_pool_runs_what_many_units_reject_at_once(
    queue: MakeQueue, gates: Gates
) -> None:
    with queue("pool", "{RAM:[512]}"), queue("units", "{RAM:512}"):
        enqueue("pool", "{RAM:300}", *gates.command("fits"))
        gates.await_begun("fits")
        text = refused("enqueue", "units", "--json", "{RAM:300}", "--", "true")

        assert "300 are needed" in text
        assert "[512]" in text
        gates.open()


def test_g09_a_resource_may_be_anything(queue: MakeQueue, gates: Gates) -> None:
    with queue("q", "{gpu:2,printer:{'front-desk':1},licence:3}"):
        enqueue("q", "{gpu:1,printer:1,licence:2}", *gates.command("all"))
        seen = gates.seen("all")

        assert seen["GRN_RESOURCE_PRINTER"] == "front-desk"
        assert seen["GRN_AMOUNT_LICENCE"] == "2"
        assert seen["GRN_DEVICE"] in ("nvml:0", "nvml:1")
        gates.open()


def test_g12_what_is_needed_is_granted_together_or_not_at_all(
    queue: MakeQueue, gates: Gates
) -> None:
    with queue("q", "{gpu:1,cpu:4}"):
        enqueue("q", "{gpu:0.5,cpu:4}", *gates.command("first"))
        gates.await_begun("first")
        second = enqueue("q", "{gpu:0.5,cpu:4}", *gates.command("second"))

        reason = facts("why", str(second))
        assert left_of("q")["gpu"] == {"0": "0.5"}
        assert reason["code"] == "resource-missing"
        told = {one["name"]: one for one in reason["resources"]}
        assert (told["cpu"]["needed"], told["cpu"]["left"]) == ("4", "0")
        gates.open("first")
        assert gates.seen("second")["GRN_AMOUNT_CPU"] == "4"
        gates.open()


def test_g13_a_job_that_needs_nothing_runs_at_once(queue: MakeQueue, gates: Gates) -> None:
    with queue("q", "{gpu:1,cpu:1}"):
        enqueue("q", "{gpu:1,cpu:1}", *gates.command("everything"))
        gates.await_begun("everything")

        number = int(said("enqueue", "q", "--quiet", "--", *gates.command("nothing")))

        seen = gates.seen("nothing")
        assert (seen["CUDA_VISIBLE_DEVICES"], seen["NV_GPU"]) == ("", "")
        assert "GRN_RESOURCES" not in seen
        gates.open()
        until_ended(number)
        assert row_of(number)["started_at"] is not None


def test_g14_two_halves_of_a_gpu_run_at_once_and_a_third_waits(
    queue: MakeQueue, gates: Gates
) -> None:
    with queue("q", "{gpu:1}"):
        third = [enqueue("q", "{gpu:0.5}", *gates.command(name)) for name in "abc"][-1]
        gates.await_begun("a", "b")

        assert until_state(third, "queued")["waits_for"] == "resource-missing"
        assert gates.seen("a")["GRN_GPU_MEMORY_MB"] == "500"
        assert gates.seen("a")["GRN_DEVICE"] == gates.seen("b")["GRN_DEVICE"] == "nvml:0"
        gates.open("b")
        gates.await_begun("c")
        gates.open()


def test_g15_ten_tenths_run_at_once_and_leave_exactly_one(
    queue: MakeQueue, gates: Gates
) -> None:
    with queue("q", "{gpu:1}"):
        words = gates.command("job{array}", "all")
        said("enqueue", "q", "--json", "{gpu:0.1}", "--array", "1-11", "--", *words)
        until(lambda: len(gates.begun()) == 10, 30)

        assert left_of("q") == {"gpu": {"0": "0"}}
        gates.open()
        until(lambda: len(gates.begun()) == 11, 20)
        until(lambda: left_of("q") == {"gpu": {"0": "1"}}, 20)


def test_g20_equal_jobs_start_in_the_order_in_which_they_came(
    queue: MakeQueue, tmp_path: Path
) -> None:
    order = tmp_path / "order"
    code = f"echo {{array}} >> {order}"
    with queue("q", "{slot:1}"):
        said("enqueue", "q", "--json", "{slot:1}", "--array", "1-25", "--", "sh", "-c", code)
        until(lambda: order.exists() and order.read_text().count("\n") == 25, 60)

    assert order.read_text().split() == [str(number) for number in range(1, 26)]


def test_g21_small_jobs_run_past_a_large_one_which_then_comes_first(
    queue: MakeQueue, gates: Gates
) -> None:
    with queue("q", "{slot:3}"):
        enqueue("q", "{slot:2}", *gates.command("before"))
        gates.await_begun("before")
        large = enqueue("q", "{slot:3}", *gates.command("large"))
        small = enqueue("q", "{slot:1}", *gates.command("small"))
        gates.await_begun("small")
        last = enqueue("q", "{slot:2}", *gates.command("last"))

        assert row_of(large)["state"] == "queued"
        gates.open("small")
        until_ended(small)
        gates.open("before")
        gates.await_begun("large")
        assert row_of(last)["state"] == "queued"
        gates.open()
        gates.await_begun("last")


def test_g22_all_that_fits_starts_when_something_becomes_free(
    queue: MakeQueue, gates: Gates
) -> None:
    with queue("q", "{gpu:1}"):
        enqueue("q", "{gpu:1}", *gates.command("whole"))
        gates.await_begun("whole")
        for name in ("left", "right"):
            enqueue("q", "{gpu:0.5}", *gates.command(name))

        gates.open("whole")

        gates.await_begun("left", "right")
        gates.open()


def test_g35_the_first_declared_of_equal_instances_is_taken(
    queue: MakeQueue, gates: Gates
) -> None:
    with queue("q", "{bay:{'left':1,'door':1,'attic':1}}"):
        taken = []
        for name in ("a", "b", "c"):
            enqueue("q", "{bay:0.6}", *gates.command(name))
            taken.append(gates.seen(name)["GRN_RESOURCE_BAY"])
        enqueue("q", "{bay:0.4}", *gates.command("d"))
        taken.append(gates.seen("d")["GRN_RESOURCE_BAY"])

        assert taken == ["left", "door", "attic", "left"]
        gates.open()


def test_g37_two_gpus_are_two_whole_devices_and_two_and_a_half_are_refused(
    queue: MakeQueue, gates: Gates, six_gpus: FakeDriver
) -> None:
    with queue("q", "{gpu:3}"):
        enqueue("q", "{gpu:2}", "--env", "MINE={gpu}", *gates.command("two"))
        seen = gates.seen("two")
        other = enqueue("q", "{gpu:2}", *gates.command("other"))
        part = enqueue("q", "{gpu:0.5}", *gates.command("part"))
        gates.await_begun("part")

        indices = seen["GRN_RESOURCE_GPU"].split(",")
        assert len(set(indices)) == 2
        assert seen["MINE"] == ",".join(indices)
        uuids = [six_gpus.uuid(int(index)) for index in indices]
        assert seen["CUDA_VISIBLE_DEVICES"].split(",") == uuids
        assert row_of(other)["state"] == "queued"
        assert gates.seen("part")["GRN_RESOURCE_GPU"] not in indices
        halves = grn("enqueue", "q", "--json", "{gpu:2.5}", "--", "true")
        assert halves.exit_code == 2
        assert "2.5 GPUs cannot be had: it is a whole number of them" in halves.stderr
        grn("cancel", str(part), str(other))
        gates.open()


def test_g51_outside_of_queues_a_share_starts_at_once_and_resources_are_the_brokers(
    gates: Gates,
) -> None:
    (own,) = [one for one in facts("show") if not one["name"]]
    cores = own["capacity"]["cpu"]["0"]
    needs = ("--gpus", "0.25", "--resource", f"cpu={cores}")

    for name in ("first", "second"):
        said("submit", "--quiet", *needs, "--env", "MINE={cpu}", "--", *gates.command(name))
    seen = gates.seen("first")

    assert (seen["GRN_GPU_MEMORY_MB"], seen["MINE"]) == ("250", "0")
    assert json.loads(seen["GRN_RESOURCES"]) == {"cpu": {"0": cores}}
    assert facts("why", "@")["code"] == "resource-missing"
    assert "is needed" in refused("submit", "--resource", "cpu=1000", "--", "true")
    gates.open("first")
    gates.await_begun("second")
    gates.open()
    until(lambda: facts("ps") == [], 20)


@pytest.mark.parametrize(
    ("gpus", "devices"), [("0", 0), ("0.5", 1), ("2", 2), ("-1", 6), ("all", 6)]
)
def test_commands_and_functions_get_as_many_devices_as_they_say(
    gates: Gates, gpus: str, devices: int
) -> None:
    def visible() -> str:
        import os

        return os.environ["CUDA_VISIBLE_DEVICES"]

    said("submit", "--quiet", "--gpus", gpus, "--", *gates.command("command"))
    seen = gates.seen("command")["CUDA_VISIBLE_DEVICES"]
    gates.open()
    called = job(gpus=gpus, type=f"visible {gpus}")(visible)()

    for uuids in (seen, called):
        assert len(set(filter(None, uuids.split(",")))) == devices
