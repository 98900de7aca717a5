"""Whole messages with file descriptors over a SOCK_SEQPACKET socket pair.

Worker, keeper and job process speak through this. A packet is a header, a body and a few
descriptors. Small packets travel inline; from 64 KiB up the content goes through a memfd,
because a large datagram would be refused (EMSGSIZE) and a large stream would block.
"""

import array
import os
import socket
import stat
import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgpack

# From here up a memfd was measured to be faster than the socket itself.
INLINE_BYTES: Final = 64 * 1024
MAX_FDS: Final = 8

_INLINE: Final = b"I"
_IN_MEMFD: Final = b"M"
_LENGTH: Final = struct.Struct("!I")
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)


class Packet(NamedTuple):
    """One received message; its descriptors belong to the receiver."""

    header: dict[str, object]
    body: bytes
    fds: list[int]


def pair() -> tuple[socket.socket, socket.socket]:
    """Make two connected sockets, neither of which survives an exec."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(
    sock: socket.socket,
    header: dict[str, object],
    body: bytes | memoryview = b"",
    fds: Sequence[int] = (),
) -> None:
    """Send one packet, whole or not at all; the caller keeps its descriptors.

    Raises:
        OSError: The peer is gone, or the socket does not block and is full.
        ValueError: Too many descriptors for one packet.
    """
    if len(fds) >= MAX_FDS:
        raise ValueError(f"{len(fds)} descriptors in one packet; at most {MAX_FDS - 1} fit")
    packed = msgpack.packb(header, unicode_errors="surrogatepass")
    head = _LENGTH.pack(len(packed)) + packed
    content = memoryview(body).cast("B")
    if len(head) + len(content) < INLINE_BYTES:
        _send_once(sock, [_INLINE, head, content], fds)
        return
    memfd = os.memfd_create("grn-packet", os.MFD_CLOEXEC)
    try:
        _write_all(memfd, memoryview(head))
        _write_all(memfd, content)
        _send_once(sock, [_IN_MEMFD], [*fds, memfd])
    finally:
        os.close(memfd)


def receive(sock: socket.socket) -> Packet | None:
    """Take the next packet; None once the peer is gone and everything was read.

    Raises:
        BlockingIOError: The socket does not block and nothing is there.
        ValueError: Not one of our packets; it was dropped.
    """
    try:
        data, fds, complete = _receive_once(sock)
    except ConnectionResetError:
        # The peer closed with unread packets of ours. Linux reports that once, ahead of
        # what the peer had sent: an exit status may still be waiting behind it.
        try:
            data, fds, complete = _receive_once(sock)
        except ConnectionResetError:
            return None
    try:
        if not data and complete:
            close_all(fds)
            return None
        if not complete:
            raise ValueError("a packet was cut short")
        return _unpack(data, fds)
    except BaseException:
        close_all(fds)
        raise


def write_file(path: str, header: dict[str, object], body: bytes) -> None:
    """Leave a packet for a receiver who cannot be reached any more.

    Raises:
        OSError: It could not be written; nothing is there then.
    """
    packed = msgpack.packb(header, unicode_errors="surrogatepass")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(f"{path}.draft", flags, 0o600)
    try:
        _write_all(fd, memoryview(_LENGTH.pack(len(packed)) + packed))
        _write_all(fd, memoryview(body))
    finally:
        os.close(fd)
    os.replace(f"{path}.draft", path)


def read_file(path: str) -> Packet | None:
    """Take a packet that was left in a file, and remove it; None if there is none.

    Raises:
        ValueError: Not one of our packets.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    os.unlink(path)
    return Packet(*_read_memfd(fd), [])


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors, whether or not they are open."""
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            pass


def _send_once(
    sock: socket.socket, parts: Sequence[bytes | memoryview], fds: Sequence[int]
) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg(parts, rights)


def _receive_once(sock: socket.socket) -> tuple[bytes, list[int], bool]:
    data, ancillary, flags, _ = sock.recvmsg(
        INLINE_BYTES + 1, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
    )
    fds = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    complete = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
    return data, list(fds), complete


def _unpack(data: bytes, fds: list[int]) -> Packet:
    """Read the content of a packet; takes the memfd, if any, out of `fds`."""
    if data[:1] == _INLINE and len(data) > _LENGTH.size:
        start = 1 + _LENGTH.size
        end = start + _LENGTH.unpack_from(data, 1)[0]
        return Packet(_header(data[start:end]), data[end:], fds)
    if data == _IN_MEMFD and fds:
        return Packet(*_read_memfd(fds.pop()), fds)
    raise ValueError("not a packet")


def _read_memfd(fd: int) -> tuple[dict[str, object], bytes]:
    """Take header and body from a descriptor, and close it."""
    # Read, not mapped: the sender could shrink the file under a mapping (SIGBUS).
    with open(fd, "rb", buffering=0) as content:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("not a packet: its content is no file")
        content.seek(0)
        length = content.read(_LENGTH.size)
        if len(length) < _LENGTH.size:
            raise ValueError("not a packet: its content is cut short")
        return _header(content.read(_LENGTH.unpack(length)[0])), content.readall()


def _header(packed: bytes) -> dict[str, object]:
    header = msgpack.unpackb(packed, unicode_errors="surrogatepass")
    if not isinstance(header, dict):
        raise ValueError("a packet's header is not a map")
    return header


def _write_all(fd: int, content: memoryview) -> None:
    while content:
        content = content[os.write(fd, content) :]
