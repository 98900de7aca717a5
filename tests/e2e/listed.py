"""Lists as this process sees them: asked by the connection it submits by, and after that."""

from grn_zmq.cli.listing import in_order, profile_order
from grn_zmq.client import this_client
from grn_zmq.facts import DeviceRow, JobRow, ProfileRow
from grn_zmq.wire import AskDevices, AskJobs, AskProfiles, DevicesAre, JobsAre, ProfilesAre


def all_jobs(*, ended: bool) -> list[JobRow]:
    rows: list[JobRow] = []
    more = True
    while more:
        after = rows[-1].number if rows else 0
        answer = this_client().ask(AskJobs(after, ended), JobsAre)
        rows += answer.rows
        more = answer.more
    return rows


def all_devices() -> list[DeviceRow]:
    return in_order(this_client().ask(AskDevices(), DevicesAre).rows)


def all_profiles() -> list[ProfileRow]:
    rows: list[ProfileRow] = []
    more = True
    while more:
        answer = this_client().ask(AskProfiles(len(rows)), ProfilesAre)
        rows += answer.rows
        more = answer.more
    return sorted(rows, key=profile_order)
