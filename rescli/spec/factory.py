"""Building blocks from what makes them, with the arguments of ``--set``."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING

from torch import nn

from rescli.errors import CommandLineError, SpecError
from rescli.spec.blame import users_code
from rescli.spec.randomness import seeded
from rescli.spec.siblings import importing_from
from rescli.spec.without_data import build_large_without_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rescli.spec.listing import Definition

_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_settings(definitions: Sequence[Definition], settings: Mapping[str, object]) -> None:
    """Refuse a ``--set`` key that no factory takes.

    Args:
        definitions: The blocks that are to be built.
        settings: The keys and values; where a file has several factories, each gets the ones it knows.

    Raises:
        CommandLineError: A key fits none of them, or there is no factory at all.
    """
    if not settings:
        return
    factories = [definition for definition in definitions if not isinstance(definition.value, nn.Module)]
    names = ", ".join(definition.name for definition in definitions)
    if not factories:
        raise CommandLineError(
            f"--set {next(iter(settings))}: {names} is a module that is built already and takes no arguments",
            hint="write it as a function with arguments that returns the module",
        )
    for key in settings:
        if not any(_takes(factory.value, key) for factory in factories):
            known = sorted({name for factory in factories for name in _keywords(factory.value)})
            owner = f"{names} has no" if len(definitions) == 1 else f"none of {names} has an"
            raise CommandLineError(
                f"--set {key}: {owner} argument of that name",
                hint=f"its arguments are {', '.join(known)}" if known else "it takes no arguments",
            )


def build(
    definition: Definition,
    *,
    label: str,
    file: Path | None,
    settings: Mapping[str, object],
    seed: int,
    only_look: bool = False,
) -> nn.Module:
    """Build one block.

    Args:
        definition: The module, which is returned as it is, or what makes it.
        label: How messages call it, as ``net.py:make``.
        file: The spec's file: siblings are imported from its folder.
        settings: Arguments; those that this factory does not know are left out.
        seed: Decides its weights.
        only_look: Whether a large block may be built without data.

    Raises:
        CommandLineError: An argument without a default is not among the settings.
        SpecError: The factory raised, or did not return a module.
    """
    make = definition.value
    if isinstance(make, nn.Module):
        return make
    chosen = {key: value for key, value in settings.items() if _takes(make, key)}
    missing = [name for name in _required(make) if name not in chosen]
    if missing:
        raise CommandLineError(
            f"{label} cannot be called without {', '.join(missing)}",
            hint=" ".join(f"--set {name}=..." for name in missing),
        )
    folder = file.parent if file else None
    with users_code(file, f"{label} could not be built"), seeded(seed), importing_from(folder):
        ready = partial(make, **chosen)
        built = build_large_without_data(ready) if only_look else ready()
    if not isinstance(built, nn.Module):
        raise SpecError(
            f"{label} returned {article(built)}, not a torch.nn.Module",
            hint="a factory is called and must return the block",
        )
    return built


def _parameters(make: Callable[..., object]) -> Sequence[inspect.Parameter]:
    try:
        return tuple(inspect.signature(make).parameters.values())
    except (TypeError, ValueError):  # written in C and silent about it
        return ()


def _keywords(make: Callable[..., object]) -> list[str]:
    return [parameter.name for parameter in _parameters(make) if parameter.kind in _BY_KEYWORD]


def _takes(make: nn.Module | Callable[..., object], key: str) -> bool:
    if isinstance(make, nn.Module):
        return False
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in _parameters(make))
    return open_ended or key in _keywords(make)


def _required(make: Callable[..., object]) -> list[str]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    empty = inspect.Parameter.empty
    return [p.name for p in _parameters(make) if p.default is empty and p.kind not in variadic]


def article(value: object) -> str:
    """Name a value by its type, for messages about something that is no module.

    Args:
        value: The thing.
    """
    return "None" if value is None else f"an object of type {type(value).__name__}"
