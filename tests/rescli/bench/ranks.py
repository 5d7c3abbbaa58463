"""A group of processes on paper: threads that share a store stand for processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from torch.distributed import HashStore  # type: ignore[attr-defined] # torch does not list it

from rescli.bench.peers import Peers
from rescli.bench.place import Place

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HashStore", "in_ranks"]

Result = TypeVar("Result")


def in_ranks(work: Callable[[Peers], Result], size: int = 2) -> list[Result]:
    """Do something as each process of a group, all at once, and give the results by rank."""
    store = HashStore()
    with ThreadPoolExecutor(size) as pool:
        peers = [Peers(Place(rank, size, rank, size), store) for rank in range(size)]
        return list(pool.map(work, peers))
