from __future__ import annotations

import pytest
import torch

from rescli.bench.clock import Event, EventClock, HostClock, clock_for, mark_cost_s


class FakeDevice:
    """A device that works through a queue while the host goes ahead; everything is written into a log."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.host_ns = 0
        self.device_ms = 0.0
        self.made = 0

    def read_ns(self) -> int:
        self.host_ns += 1_000
        return self.host_ns

    def launch(self, milliseconds: float) -> None:
        self.log.append("kernel")
        self.device_ms += milliseconds

    def synchronize(self) -> None:
        self.log.append("synchronize")
        # The host catches up with the device.
        self.host_ns = max(self.host_ns, int(self.device_ms * 1e6))

    def event(self) -> FakeEvent:
        self.made += 1
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self.milliseconds = 0.0

    def record(self) -> None:
        self._device.log.append("event")
        self.milliseconds = self._device.device_ms

    def elapsed_time(self, later: Event, /) -> float:
        assert isinstance(later, FakeEvent)
        assert self._device.log[-1] == "synchronize", "an event was read before the device had reached it"
        return later.milliseconds - self.milliseconds


def run_two_steps(clock: EventClock[FakeEvent], device: FakeDevice) -> None:
    clock.begin()
    for _ in range(2):
        clock.mark()
        device.launch(2)
        clock.mark()
        device.launch(5)
        clock.mark()
        device.launch(1)


def test_a_block_is_synchronised_once_before_and_once_after_and_never_between() -> None:
    device = FakeDevice()
    clock = EventClock(device.synchronize, device.event, device.read_ns)
    run_two_steps(clock, device)
    clock.end()
    step = ["event", "kernel", "event", "kernel", "event", "kernel"]
    assert device.log == ["synchronize", *step, *step, "synchronize"]


def test_device_time_comes_from_the_events() -> None:
    device = FakeDevice()
    clock = EventClock(device.synchronize, device.event, device.read_ns)
    run_two_steps(clock, device)
    assert clock.end().intervals_s == pytest.approx([2e-3, 5e-3, 1e-3, 2e-3, 5e-3])


def test_wall_time_ends_when_the_device_is_idle() -> None:
    device = FakeDevice()
    clock = EventClock(device.synchronize, device.event, device.read_ns)
    run_two_steps(clock, device)
    # 16 ms of kernels, against a few microseconds in which they were launched.
    assert clock.end().wall_s == pytest.approx(16e-3, rel=0.01)


def test_a_clock_that_forgets_to_synchronise_times_the_launch_only() -> None:
    device = FakeDevice()
    clock = EventClock(lambda: device.log.append("synchronize"), device.event, device.read_ns)
    run_two_steps(clock, device)
    assert (clock.end().wall_s or 0) < 16e-5


def test_events_are_used_again() -> None:
    device = FakeDevice()
    clock = EventClock(device.synchronize, device.event, device.read_ns)
    for _ in range(3):
        run_two_steps(clock, device)
        assert len(clock.end().intervals_s) == 5
    assert device.made == 6


def test_the_host_clock_gives_the_time_between_marks() -> None:
    readings = iter([1_000, 3_000, 10_000])
    clock = HostClock(lambda: next(readings))
    clock.begin()
    for _ in range(3):
        clock.mark()
    found = clock.end()
    assert list(found.intervals_s) == [2e-6, 7e-6]
    assert found.wall_s is None


def test_marks_of_an_earlier_block_are_forgotten() -> None:
    clock = HostClock()
    clock.begin()
    clock.mark()
    clock.begin()
    clock.mark()
    clock.mark()
    assert len(clock.end().intervals_s) == 1


def test_what_a_mark_costs_is_measured() -> None:
    readings = iter(range(0, 1_000_000, 250))
    assert mark_cost_s(HostClock(lambda: next(readings))) == pytest.approx(250e-9)


def test_the_cpu_is_timed_by_the_host() -> None:
    assert isinstance(clock_for([torch.device("cpu")]), HostClock)


@pytest.mark.cuda
def test_a_gpu_is_timed_by_its_own_events() -> None:
    device = torch.device("cuda:0")
    clock = clock_for([device])
    assert isinstance(clock, EventClock)
    x = torch.ones(2048, 2048, device=device)
    torch.mm(x, x)
    clock.begin()
    clock.mark()
    for _ in range(50):
        torch.mm(x, x)
    clock.mark()
    found = clock.end()
    assert found.wall_s is not None
    assert 0 < found.intervals_s[0] <= found.wall_s * 1.01


def test_work_on_several_gpus_waits_for_each_and_is_timed_on_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: list[str] = []

    class CudaEvent:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self, stream: str) -> None:
            log.append(f"event in {stream}")

        def elapsed_time(self, _later: object) -> float:
            return 3.0

    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: log.append(f"wait for {device}"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"the queue of {device}")
    monkeypatch.setattr(torch.cuda, "Event", CudaEvent)
    clock = clock_for([torch.device("cuda:1"), torch.device("cuda:0")])
    clock.begin()
    clock.mark()
    clock.mark()
    assert list(clock.end().intervals_s) == [3e-3]
    waits = ["wait for cuda:1", "wait for cuda:0"]
    # The output of nn.DataParallel arrives on the first of its devices.
    assert log == [*waits, "event in the queue of cuda:1", "event in the queue of cuda:1", *waits]
