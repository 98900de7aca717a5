"""Packets over a socket pair, both ends in this process."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from grn_zmq import channel

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Two connected sockets; no descriptor may be left open besides them."""
    before = os.listdir("/proc/self/fd")
    near, far = channel.pair()
    yield near, far
    near.close()
    far.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize(
    "size", [0, 1, channel.INLINE_BYTES - 64, channel.INLINE_BYTES, 3_000_000]
)
def test_a_packet_arrives_whole_whatever_its_size(ends: Ends, size: int) -> None:
    body = os.urandom(size)

    channel.send(ends[0], {"n": 1, "text": "\udcff"}, body)

    assert channel.receive(ends[1]) == ({"n": 1, "text": "\udcff"}, body, [])


def test_packets_keep_their_borders_and_their_order(ends: Ends) -> None:
    for number in range(5):
        channel.send(ends[0], {"number": number})

    got = [channel.receive(ends[1]) for _ in range(5)]

    assert [packet and packet.header["number"] for packet in got] == list(range(5))


def test_a_header_may_be_larger_than_a_datagram(ends: Ends) -> None:
    header: dict[str, object] = {"environment": {"BIG": "x" * 500_000}}

    channel.send(ends[0], header, b"body")

    assert channel.receive(ends[1]) == (header, b"body", [])


@pytest.mark.parametrize("size", [10, 200_000])
def test_descriptors_travel_with_their_packet_and_close_on_exec(
    ends: Ends, tmp_path: Path, size: int
) -> None:
    file = (tmp_path / "file").open("w")
    with file:
        channel.send(ends[0], {}, bytes(size), [file.fileno()])
    packet = channel.receive(ends[1])

    assert packet is not None
    assert len(packet.body) == size
    assert [os.get_inheritable(fd) for fd in packet.fds] == [False]
    os.write(packet.fds[0], b"through")
    channel.close_all(packet.fds)
    assert (tmp_path / "file").read_text() == "through"


def test_the_end_of_the_peer_is_none(ends: Ends) -> None:
    ends[0].close()

    assert channel.receive(ends[1]) is None


def test_what_a_peer_said_last_is_read_although_it_left_packets_unread(ends: Ends) -> None:
    channel.send(ends[1], {"unread": True})
    channel.send(ends[0], {"status": 3})
    ends[0].close()

    packet = channel.receive(ends[1])

    assert packet is not None
    assert packet.header == {"status": 3}
    assert channel.receive(ends[1]) is None


@pytest.mark.parametrize("data", [b"x", b"I", b"I\0\0\0\1\xc1", b"I\0\0\0\1\x01", b"M"])
def test_what_is_not_a_packet_is_refused_and_its_descriptors_closed(
    ends: Ends, data: bytes
) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    fds = [null] if data != b"M" else []
    socket.send_fds(ends[0], [data], fds)
    os.close(null)

    with pytest.raises(ValueError):
        channel.receive(ends[1])


def test_an_oversized_datagram_is_refused_and_not_cut(ends: Ends) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    socket.send_fds(ends[0], [bytes(channel.INLINE_BYTES + 100)], [null])
    os.close(null)

    with pytest.raises(ValueError, match="cut short"):
        channel.receive(ends[1])


def test_content_that_is_not_ours_is_refused_and_closed(ends: Ends, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"x")
    for path in (str(tmp_path / "short"), os.devnull):
        fd = os.open(path, os.O_RDONLY)
        socket.send_fds(ends[0], [b"M"], [fd])
        os.close(fd)

        with pytest.raises(ValueError, match="not a packet"):
            channel.receive(ends[1])


def test_sending_to_nobody_raises_and_leaks_nothing(ends: Ends) -> None:
    ends[1].close()

    with pytest.raises(BrokenPipeError):
        channel.send(ends[0], {}, bytes(200_000))


def test_too_many_descriptors_are_refused_before_anything_is_sent(ends: Ends) -> None:
    with pytest.raises(ValueError, match="at most 7"):
        channel.send(ends[0], {}, b"", [0] * 8)


def test_nothing_there_is_an_error_on_a_socket_that_does_not_block(ends: Ends) -> None:
    ends[1].setblocking(False)

    with pytest.raises(BlockingIOError):
        channel.receive(ends[1])
