from __future__ import annotations

import torch

from rescli.bench.modes import Modes
from rescli.bench.peers import Peers
from rescli.bench.place import Place
from rescli.bench.settings import Settings
from tests.rescli.bench.ranks import HashStore

CUDA = (torch.device("cuda:0"), torch.device("cuda:1"))


def test_several_devices_are_named_one_after_the_other_and_alone_is_the_first() -> None:
    spread = Settings(devices=CUDA, modes=Modes(amp=True, parallel="dp"))
    assert (spread.device_names, spread.workers, spread.is_first) == ("cuda:0,cuda:1", 2, True)
    alone = spread.alone()
    assert (alone.device_names, alone.workers) == ("cuda:0", 1)
    assert alone.modes == Modes(amp=True)


def test_a_group_names_the_devices_of_all_its_processes() -> None:
    peers = Peers(Place(1, 2, 1, 2), HashStore())
    second = Settings(
        devices=CUDA[1:], modes=Modes(parallel="ddp"), peers=peers, group_devices=("cuda:0", "cuda:1")
    )
    assert (second.device_names, second.workers, second.is_first) == ("cuda:0,cuda:1", 2, False)
    alone = second.alone()
    assert (alone.device_names, alone.workers, alone.peers) == ("cuda:1", 1, None)
