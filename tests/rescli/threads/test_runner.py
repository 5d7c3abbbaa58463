from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rescli.threads.points import install_points
from rescli.threads.runner import Baton, ScheduledRun
from rescli.threads.schedule import parse_schedule
from tests.rescli.threads.planted import TwoLayers, example

if TYPE_CHECKING:
    from collections.abc import Callable


class Logs(nn.Module):
    """Says which thread runs, by a letter that its input carries."""

    def __init__(self, log: list[str], mark: str) -> None:
        super().__init__()
        self.log, self.mark = log, mark

    def forward(self, x: Tensor) -> Tensor:
        self.log.append(f"{chr(int(x[0, 0]))}{self.mark}")
        return x + 0


def run(
    make: Callable[[], nn.Module], schedule: str, *, inputs: tuple[Tensor, ...] = (), patience_s: float = 5.0
) -> ScheduledRun:
    baton = Baton(parse_schedule(f"shared:{schedule}")[1], patience_s=patience_s)
    module = make()
    install_points(module, baton.visit)
    inputs = inputs or (torch.full((1, 1), ord("A")), torch.full((1, 1), ord("B")))
    return baton.run([module] * len(inputs), [(own,) for own in inputs])


def order(schedule: str) -> str:
    log: list[str] = []
    run(lambda: nn.Sequential(*(Logs(log, mark) for mark in "123")), schedule)
    return " ".join(log)


def test_threads_run_one_after_the_other() -> None:
    assert order("A,B") == "A1 A2 A3 B1 B2 B3"
    assert order("B,A") == "B1 B2 B3 A1 A2 A3"


def test_a_thread_hands_over_at_its_point() -> None:
    # Points 1 and 2 are the entry and the exit of the first layer.
    assert order("A1,B,A") == "B1 B2 B3 A1 A2 A3"
    assert order("A2,B,A") == "A1 B1 B2 B3 A2 A3"
    assert order("A2,B4,A,B") == "A1 B1 B2 A2 A3 B3"


def test_points_are_the_entry_and_exit_of_each_layer_and_the_exit_of_the_whole() -> None:
    run_of = run(lambda: nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh()), "A,B")
    points = [step.point for step in run_of.steps if step.thread == "A"]
    assert [(point.event, point.layer) if point else "end" for point in points] == [
        *(("entry", "0 Sequential"), ("entry", "0.0 ReLU"), ("exit", "0.0 ReLU"), ("exit", "0 Sequential")),
        *(("entry", "1 Tanh"), ("exit", "1 Tanh"), ("exit", "Sequential"), "end"),
    ]
    assert run_of.passed == (7, 7)


def test_each_thread_has_a_random_stream_of_its_own() -> None:
    inputs = (torch.ones(2, 8), torch.ones(2, 8))

    def outputs(schedule: str) -> list[Tensor]:
        made = run(lambda: nn.Sequential(nn.Dropout(), nn.Dropout()), schedule, inputs=inputs)
        return [value for outcome in made.outcomes if isinstance(value := outcome.values["output"], Tensor)]

    expected = outputs("A,B")
    assert torch.equal(expected[0], expected[1])
    for schedule in ("A2,B,A", "A2,B2,A,B", "B1,A3,B,A"):
        assert all(torch.equal(*pair) for pair in zip(outputs(schedule), expected, strict=True))


def test_threads_take_over_the_grad_mode_of_their_caller() -> None:
    with torch.no_grad():
        made = run(TwoLayers_, "A,B", inputs=(example(2), example(3)))
    assert [list(outcome.values) for outcome in made.outcomes] == [["output"], ["output"]]


def TwoLayers_() -> nn.Module:  # noqa: N802 - stands for a class
    return nn.Sequential(*TwoLayers().children())


def test_a_thread_that_waits_for_a_lock_lets_the_other_one_finish() -> None:
    lock = threading.Lock()

    class Guarded(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            with lock:
                out: Tensor = self.second(self.first(x))
                return out

    made = run(Guarded, "A1,B,A", inputs=(example(2), example(3)), patience_s=0.1)
    assert made.blocked is not None
    assert (made.blocked.turn, made.blocked.passed, made.hung) == (1, 0, False)
    assert [outcome.error for outcome in made.outcomes] == [None, None]


def test_a_thread_that_never_ends_is_left_behind() -> None:
    forever = threading.Event()

    class Waits(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            if x.shape[0] == 2:
                forever.wait()
            out: Tensor = self.second(self.first(x))
            return out

    made = run(Waits, "A,B", inputs=(example(2), example(3)), patience_s=0.1)
    assert (made.hung, made.outcomes) == (True, ())
    forever.set()


def test_an_exception_ends_its_own_thread_alone() -> None:
    class Refuses(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            hidden = self.first(x)
            if x.shape[0] == 2:
                raise SystemExit(3)
            out: Tensor = self.second(hidden)
            return out

    made = run(Refuses, "A2,B,A", inputs=(example(2), example(3)))
    first, second = made.outcomes
    assert isinstance(first.error, SystemExit)
    assert second.error is None
    assert [(step.thread, step.point) for step in made.steps][-1] == ("A", None)


def test_a_thread_with_fewer_points_than_foreseen_still_lets_the_others_run() -> None:
    made = run(lambda: nn.Sequential(nn.ReLU()), "A9,B9,A,B")
    assert made.passed == (3, 3)
    assert [outcome.error for outcome in made.outcomes] == [None, None]


def test_threads_that_the_module_starts_itself_pass_freely() -> None:
    class Helps(TwoLayers):
        def forward(self, x: Tensor) -> Tensor:
            helper = threading.Thread(target=self.first, args=(x.detach(),))
            helper.start()
            helper.join()
            out: Tensor = self.second(x)
            return out

    made = run(Helps, "A1,B,A", inputs=(example(2), example(3)))
    # Entry and exit of the second layer, and the end of forward.
    assert made.passed == (3, 3)
