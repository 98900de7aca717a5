"""No two pools of workers have one GPU, nor one number of a host device."""

import os
import threading
import time
from pathlib import Path

import pytest

from workers import claims
from workers.claims import Claims, GpuTaken
from workers.devices.choose import gpu_of, open_device

GPUS = ["nvml:0/GPU-a", "nvml:1/GPU-b"]
HOST = ["host:0of2/100of200", "host:1of2/100of200"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "BRIEFLY_S", 0.05)


def test_a_gpu_of_another_broker_is_refused_and_that_broker_is_named(
    environ: dict[str, str], tmp_path: Path
) -> None:
    first, second = Claims(), Claims()
    assert first.claim(GPUS[:1], {**environ, "GRN_NAME": "a"}) == GPUS[:1]

    with pytest.raises(GpuTaken) as refused:
        second.claim(GPUS, {**environ, "GRN_NAME": "b"})

    text = str(refused.value)
    assert f"GPU 0 is managed already, by the broker in {tmp_path / 'grn-a'}" in text
    assert f"pid {os.getpid()}" in text
    assert "--devices" in text
    assert second.claim(GPUS[1:], {**environ, "GRN_NAME": "b"}) == GPUS[1:]


def test_a_second_pool_of_one_broker_cannot_have_its_gpu(environ: dict[str, str]) -> None:
    first = Claims()
    first.claim(GPUS, environ)

    with pytest.raises(GpuTaken, match="by another pool of workers of this broker"):
        Claims().claim(GPUS[1:], environ)


def test_a_gpu_is_waited_for_while_the_pool_that_has_it_is_leaving(
    environ: dict[str, str],
) -> None:
    first, second = Claims(), Claims()
    first.claim(GPUS[:1], environ)
    first.leave()

    def end() -> None:
        time.sleep(4 * claims.BRIEFLY_S)
        for fd in first._gpus:
            os.close(fd)

    thread = threading.Thread(target=end)
    thread.start()

    assert second.claim(GPUS[:1], environ) == GPUS[:1]
    thread.join()


def test_g42_a_second_pool_of_host_memory_has_other_numbers(environ: dict[str, str]) -> None:
    first, second = Claims(), Claims()

    assert first.claim(HOST, environ) == HOST
    assert second.claim(HOST, environ) == ["host:2of2/100of200", "host:3of2/100of200"]
    assert Claims().claim(HOST[:1], {**environ, "GRN_NAME": "other"}) == HOST[:1]


def test_devices_of_two_pools_have_different_uuids(environ: dict[str, str]) -> None:
    first, second = Claims(), Claims()
    names = [*first.claim(HOST, environ), *second.claim(HOST, environ)]

    infos = [open_device(name).info for name in names]

    assert [one.index for one in infos] == [0, 1, 2, 3]
    assert len({one.uuid for one in infos}) == 4


def test_numbers_of_a_pool_that_is_leaving_are_free_at_once(environ: dict[str, str]) -> None:
    first, second = Claims(), Claims()
    first.claim(HOST, environ)

    first.leave()

    assert second.claim(HOST, environ) == HOST


def test_only_gpus_are_told_by_a_uuid() -> None:
    assert gpu_of(GPUS[1]) == (1, "GPU-b")
    assert gpu_of(HOST[0]) is None
