from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rescli.threads.arrange import replicate, share
from rescli.threads.copies import IncomparableError


def block() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Sequential(nn.ReLU(), nn.LSTM(4, 4)))


def test_sharing_gives_every_thread_the_module_itself() -> None:
    module = block()
    assert share(module, 3) == (module,) * 3


def test_replicas_compute_what_the_module_computes() -> None:
    module = block()
    module(torch.randn(9, 4))  # the statistics differ from each other after this
    module.eval()
    x = torch.randn(3, 4)
    expected = module(x)[0]
    for replica in replicate(module, 2):
        assert torch.equal(replica(x)[0], expected)


def test_replicas_are_other_objects_all_through_the_tree() -> None:
    module = block()
    seen = [id(layer) for tree in (module, *replicate(module, 2)) for layer in tree.modules()]
    assert len(seen) == len(set(seen)) == 3 * 6


def test_parameters_of_a_replica_are_plain_attributes_that_lead_back_to_the_module() -> None:
    module = block()
    for replica in replicate(module, 2):
        assert list(replica.parameters()) == []
        weight = replica.get_submodule("0").weight
        assert isinstance(weight, Tensor)
        assert not isinstance(weight, nn.Parameter)
        assert not weight.is_leaf
        (gradient,) = torch.autograd.grad(weight.sum(), [next(module.parameters())])
        assert torch.equal(gradient, torch.ones(4, 4))


def test_what_a_module_keeps_in_a_dict_is_shared_by_its_replicas() -> None:
    module = block()
    module.store = {}  # type: ignore[assignment] # a plain attribute
    one, other = replicate(module, 2)
    assert one.store is other.store is module.store


def test_only_the_first_replica_writes_its_statistics_into_the_module() -> None:
    module = block()
    one, other = replicate(module, 2)
    counted = dict(module.named_buffers())["1.num_batches_tracked"]
    other(torch.randn(3, 4))
    assert counted.item() == 0
    one(torch.randn(3, 4))
    assert counted.item() == 1


def test_a_shared_parameter_and_a_shared_layer_stay_shared() -> None:
    layer = nn.Linear(4, 4)
    tied = nn.Linear(4, 4)
    tied.weight = layer.weight
    (replica,) = replicate(nn.Sequential(layer, tied, layer), 1)
    assert replica.get_submodule("0").weight is replica.get_submodule("1").weight
    assert replica.get_submodule("0") is replica.get_submodule("2")


def test_missing_parameters_buffers_and_children_stay_missing() -> None:
    module = nn.Linear(2, 2, bias=False)
    module.register_buffer("nothing", None)
    module.register_module("nobody", None)
    (replica,) = replicate(module, 1)
    assert [getattr(replica, name) for name in ("bias", "nothing", "nobody")] == [None] * 3


def test_what_pytorch_refuses_to_replicate_is_refused() -> None:
    with pytest.raises(IncomparableError, match=r"^parameters without a size cannot be replicated"):
        replicate(nn.LazyLinear(2), 2)
