"""Lease a device by the protocol alone, without this package; see docs/protocol.md.

grn start --detach
python examples/plain_client.py        # until Enter is pressed
python examples/plain_client.py 5      # for five seconds
"""

import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import msgpack
import zmq

# A record is the array of its fields, in this order; bytes are told by how many they are.
LEASE: dict[str, Any] = dict(  # noqa: C408
    job_id=uuid.uuid4().hex, job_type="a plain lease", name="", kind="lease", by={},
    policy="spread", function="", context="", parent="", pin="", stdin="", detached=False,
    has_stand_in=False, reuse=False, version="", memory_bytes=0, priority=0, oom_retries=0,
    enforce=False, payload=0, timeout_s=None, time_limit_s=None, retries=0, retry_on=[],
    grace_s=5.0, token="", title="", variables={}, after=[], after_any=[], begin_s=None,
    held=False, exclusive=True, on_end="", again_of="", gpus=1, share="", among=[], queue="",
    resources={}, environment="",
)  # fmt: skip


def address() -> str:
    """Where the broker of this user listens to clients."""
    name, runtime = os.environ.get("GRN_NAME"), os.environ.get("XDG_RUNTIME_DIR", "")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    folder = f"grn-{name}" if name else "grn"
    refuge = Path(state) / folder / "run"
    directory = Path(runtime) / folder if os.path.isdir(runtime) else refuge
    if not (directory / "broker.json").exists():
        sys.exit(f"no broker is running in {directory}")
    return str(json.loads((directory / "broker.json").read_text())["clients"])


def say(broker: "zmq.Socket[bytes]", kind: str, *fields: object) -> None:
    """Send a message: its header alone, because there are no bytes in what we say."""
    broker.send(msgpack.packb([kind, fields]))


def hear(broker: "zmq.Socket[bytes]", wanted: str) -> list[Any]:
    """Wait for a message of this kind and give its fields; leave if the broker says no."""
    while True:
        kind, fields = msgpack.unpackb(broker.recv_multipart()[0])
        if kind == wanted:
            return list(fields)
        if kind in ("refused", "ended"):
            sys.exit(f"no lease: {fields}")


def main() -> None:
    broker: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    broker.connect(address())
    say(broker, "hello", 5, uuid.uuid4().hex, os.getpid())
    hear(broker, "welcome")
    say(broker, "submit", [list(LEASE.values())])
    ((job_id, attempt, device, _, variables, *_),) = hear(broker, "started")[0]
    print(f"{device} is ours:", *(f"{k}={v}" for k, v in variables.items()), flush=True)
    time.sleep(float(sys.argv[1])) if sys.argv[1:] else input("Enter gives it back ")
    say(broker, "release", [[job_id, attempt, False]])
    hear(broker, "ended")
    say(broker, "received", [job_id])
    print("given back")


if __name__ == "__main__":
    main()
