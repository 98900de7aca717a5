"""Checks of brokers: ours, and others that share the devices without knowing of it."""

import os
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ... import wire
from ...discovery import Address, find_address, is_locked, lock_holder
from ...errors import RequestRefused, UnsafeDirectory
from ...paths import Places
from ..asking import Asker
from ..common import counted
from .finding import OK, PROBLEM, WARNING, Finding, Process

ANSWER_S: Final = 1.0
AGAIN: Final = "grn stop --drain && grn start --detach"


def check_broker(places: Places) -> Finding:
    """Whether our broker answers, and is of this installation."""
    name = "broker"
    try:
        address = find_address(places)
    except UnsafeDirectory:
        text = f"not looked for: {places.directory} is not private"
        return Finding(name, WARNING, text, "mend the runtime directory first")
    if address is None and is_locked(places):
        text = f"one is starting, or keeps dying, in {places.directory}"
        return Finding(name, WARNING, text, "`grn status`, and the log that `grn start` named")
    if address is None:
        text = f"none is running in {places.directory}; `grn start --detach` starts one"
        return Finding(name, OK, text)
    return _answering(address)


def _answering(address: Address) -> Finding:
    try:
        with Asker(address.clients) as asker:
            answer = asker.ask(wire.AskDevices(), wire.DevicesAre, ANSWER_S)
    except RequestRefused as error:
        return Finding("broker", PROBLEM, f"pid {address.pid} refuses: {error}", AGAIN)
    if answer is None:
        text = f"pid {address.pid} has not answered within {ANSWER_S:.0f} s"
        return Finding("broker", PROBLEM, text, "look at its log; then grn stop, grn start")
    other = _other_installation(address.pid) if address.near else ""
    if other:
        text = f"pid {address.pid} is of another installation, {other}"
        return Finding("broker", WARNING, text, f"use the grn beside it, or {AGAIN}")
    devices = counted(len(answer.rows), "device")
    text = f"pid {address.pid} answers, protocol {wire.PROTOCOL}, {devices}"
    if not answer.rows:
        return Finding("broker", PROBLEM, text, f"no worker has joined: {AGAIN}")
    return Finding("broker", OK, text)


def _other_installation(pid: int) -> str:
    """Give the interpreter of a broker that is not beside ours."""
    try:
        first = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])
    except OSError:
        return ""
    same = os.path.dirname(first) in ("", os.path.dirname(sys.executable))
    return "" if same else first


def check_others(places: Places, processes: Sequence[Process], cards: int) -> Finding:
    """Whether other brokers use the same devices; `cards` counts the GPUs here."""
    ours = {lock_holder(places), os.getpid()}
    others = [one for one in processes if _is_broker(one) and one.pid not in ours]
    if not others:
        return Finding("other brokers", OK, "none on this machine that could be seen")
    listed = ", ".join(f"pid {one.pid} of {_user(one.uid)}" for one in others[:5])
    text = f"{counted(len(others), 'other broker')} here: {listed}"
    fix = f"to each it is foreign what the other runs; {_apart(cards)}"
    return Finding("other brokers", WARNING, text, fix)


def _apart(cards: int) -> str:
    """How brokers can do without what the others have."""
    if cards == 1:
        return "one of them is enough for one GPU: stop the others"
    own = 'GPUs: devices = "nvml:0,1"' if cards else 'share: devices = "host:2x2GiB"'
    return f"give each its own {own}"


def _is_broker(process: Process) -> bool:
    return "grn_zmq.broker" in process.words[1:3] or any(
        os.path.basename(word) == "grn-broker" for word in process.words[:2]
    )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
