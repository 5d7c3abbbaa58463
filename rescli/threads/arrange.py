"""What each thread calls: one shared module, or a replica of its own as ``nn.DataParallel`` makes them."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from torch.nn.parameter import is_lazy

from rescli.threads.copies import IncomparableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from rescli.threads.job import Job

    Arrangement = Callable[[nn.Module, int], tuple[nn.Module | Job, ...]]


def share(module: nn.Module, threads: int) -> tuple[nn.Module, ...]:
    """Give every thread the same module.

    Args:
        module: The module.
        threads: How many threads there are.
    """
    return (module,) * threads


def replicate(module: nn.Module, threads: int) -> tuple[nn.Module, ...]:
    """Make replicas on the CPU as ``torch.nn.parallel.replicate`` makes them on GPUs, which refuses a CPU.

    Each module's own ``_replicate_for_data_parallel`` is asked; by default it copies ``__dict__`` without
    copying what is in it, so that a list or a dict on a module is the same object in all replicas. Parameters
    become plain attributes, children are rewired, and the first replica shares its values with the module,
    as the one on the module's own GPU does.

    Args:
        module: The module.
        threads: How many replicas to make.

    Raises:
        IncomparableError: PyTorch refuses to replicate it.
    """
    originals = list(module.modules())
    if any(is_lazy(parameter) for parameter in module.parameters()):
        raise IncomparableError("parameters without a size cannot be replicated: run one forward first")
    if any(hasattr(layer, "_c") for layer in originals):
        raise IncomparableError("a TorchScript module is replicated by PyTorch itself, not in Python")
    return tuple(_replica(originals, own_values=index == 0) for index in range(threads))


def _replica(originals: list[nn.Module], *, own_values: bool) -> nn.Module:
    replicas: dict[int, nn.Module] = {
        id(layer): layer._replicate_for_data_parallel()  # type: ignore[no-untyped-call] # noqa: SLF001 - what DataParallel calls
        for layer in originals
    }
    values: dict[int, Tensor] = {}

    def value_of(tensor: Tensor) -> Tensor:
        # A parameter that two layers share stays shared; it is no leaf any more, as after a broadcast.
        if id(tensor) not in values:
            source = tensor if tensor.requires_grad else tensor.detach()
            values[id(tensor)] = source.view_as(source) if own_values else source.clone()
        return values[id(tensor)]

    for layer in originals:
        replica = replicas[id(layer)]
        former: OrderedDict[str, Tensor] = OrderedDict()
        object.__setattr__(replica, "_former_parameters", former)
        for name, child in layer._modules.items():  # noqa: SLF001 - as PyTorch does
            if child is None:
                replica._modules[name] = None  # noqa: SLF001
            else:
                setattr(replica, name, replicas[id(child)])
        for name, parameter in layer._parameters.items():  # noqa: SLF001
            if parameter is None:
                replica._parameters[name] = None  # noqa: SLF001
            else:
                former[name] = value_of(parameter)
                setattr(replica, name, former[name])
        for name, buffer in layer._buffers.items():  # noqa: SLF001
            if buffer is None:
                replica._buffers[name] = None  # noqa: SLF001
            else:
                setattr(replica, name, value_of(buffer))
    return replicas[id(originals[0])]
