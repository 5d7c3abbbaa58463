from __future__ import annotations

from datetime import timedelta

import pytest

from rescli.bench.failure import SilentPeersError
from rescli.bench.peers import Peers
from rescli.bench.place import Place, told_place
from tests.rescli.bench.ranks import HashStore, in_ranks

SHORT = timedelta(milliseconds=50)


def test_everybody_hears_what_everybody_says_round_by_round() -> None:
    def talk(peers: Peers) -> list[list[tuple[int, int]]]:
        return [peers.exchange((peers.place.rank, number)) for number in range(20)]

    for heard in in_ranks(talk, size=3):
        assert heard == [[(0, number), (1, number), (2, number)] for number in range(20)]


def test_what_has_been_read_is_not_kept() -> None:
    store = HashStore()
    alone = Peers(Place(0, 1, 0, 1), store)
    for number in range(5):
        alone.exchange(number)
    assert store.num_keys() == 1


def test_one_who_says_nothing_is_waited_for_only_so_long() -> None:
    early = Peers(Place(0, 2, 0, 2), HashStore())
    with pytest.raises(SilentPeersError, match="process 0 hears nothing of the others"):
        early.exchange("hello", patience=SHORT)


def test_who_has_given_up_is_not_heard_any_more_and_hears_nothing() -> None:
    store = HashStore()
    early, late = (Peers(Place(rank, 2, rank, 2), store) for rank in range(2))
    with pytest.raises(SilentPeersError):
        early.exchange("hello", patience=SHORT)
    # The message was for somebody who would have answered: it must not be taken for agreement now.
    with pytest.raises(SilentPeersError):
        late.exchange("hello", patience=SHORT)
    with pytest.raises(SilentPeersError, match="process 0 has lost the others"):
        early.exchange("goodbye")


def test_a_process_that_was_started_alone_has_no_place() -> None:
    assert told_place({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "here"}) is None


def test_a_launcher_of_several_machines_tells_both_numbers() -> None:
    told = {"RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    assert told_place(told) == Place(5, 8, 5, 8)
    assert told_place(told | {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}) == Place(5, 8, 1, 4)
