"""Hypothesis tells stories of its own about the simulated world, and shortens sad ones."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.simulation.clients import SimClient
from tests.simulation.crew import SimWorker
from tests.simulation.world import World

CLIENT_ACTS = (
    "submit",
    "submit",
    "repeat",
    "contradict",
    "cancel",
    "attach",
    "release",
    "send_blobs",
    "reconnect",
    "fall_silent",
    "die",
    "stop",
)
WORKER_ACTS = (
    "start",
    "start",
    "end_some",
    "end_some",
    "grow",
    "call_a_job",
    "repeat_results",
    "repeat_something",
    "reconnect",
    "fall_silent",
    "leave",
    "go_if_done",
    "crash",
)

some = st.integers(0, 7)


class AnyFaults(RuleBasedStateMachine):
    """Every step is something that a peer, the kernel, the disk or the clock may do.

    The world checks its invariants and asks its oracle after each of them.
    """

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.world = World(seed)
        self.world.crashes = 0.0

    def clients(self) -> list[SimClient]:
        return self.world.living_clients()

    def workers(self) -> list[SimWorker]:
        return self.world.living_workers()

    @rule(times=st.integers(1, 12))
    def deliver(self, times: int) -> None:
        for _ in range(times):
            self.world.deliver_one()
        self.world.end_turn()

    @precondition(lambda self: self.clients())
    @rule(which=some, act=st.sampled_from(CLIENT_ACTS))
    def client_acts(self, which: int, act: str) -> None:
        clients = self.clients()
        getattr(clients[which % len(clients)], act)()

    @precondition(lambda self: self.workers())
    @rule(which=some, act=st.sampled_from(WORKER_ACTS))
    def worker_acts(self, which: int, act: str) -> None:
        workers = self.workers()
        getattr(workers[which % len(workers)], act)()

    @rule()
    def somebody_comes(self) -> None:
        for slot in self.world.slots:
            if not self.world.workers[slot.index].alive:
                self.world.workers[slot.index] = SimWorker(self.world, slot)
        if not self.clients():
            self.world.new_client()

    @rule()
    def the_kernel_tells(self) -> None:
        self.world.kernel()
        self.world.end_turn()

    @rule(seconds=st.sampled_from([0.01, 0.5, 3.0, 12.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.now += seconds
        if not self.world.up:
            self.world.start_broker()
        self.world.tick()
        self.world.end_turn()

    @rule(times=st.integers(1, 4), when=st.sampled_from(["before", "after", "amid"]))
    def the_broker_is_killed(self, times: int, when: str) -> None:
        for _ in range(times):
            self.world.deliver_one()
        self.world.end_turn(when)

    @precondition(lambda self: not self.world.up)
    @rule()
    def the_broker_starts(self) -> None:
        self.world.start_broker()

    @rule(often=st.integers(0, 9))
    def the_power_is_cut(self, often: int) -> None:
        if not often:
            self.world.cut_power()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()


TestAnyFaults = AnyFaults.TestCase
TestAnyFaults.settings = settings(
    max_examples=150,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,  # the same stories every time; look for new ones by hand
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
