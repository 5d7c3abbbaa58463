"""What is typed behind an option becomes a value without pydantic.

Typer has pydantic do this in recent versions: importing it takes a tenth of what importing torch takes, and its words
are about programs, not about command lines. Our options are texts, numbers, paths and switches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import typer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_KINDS: dict[type, str] = {str: "text", Path: "path", int: "whole number", float: "number", bool: "switch"}


@dataclass(frozen=True, slots=True)
class PlainValue:
    """Makes the value of one parameter.

    Args:
        kind: What a single value is: ``str``, ``Path``, ``int``, ``float`` or ``bool``.
        many: Whether the parameter may come several times.
        low: The least number allowed, or None.
        high: The greatest number allowed, or None.
    """

    kind: type
    many: bool = False
    low: float | None = None
    high: float | None = None

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - as Typer calls it
        """Give the value of what was typed.

        Args:
            value: A text, a default that is a value already, several of them, or None.
            param: The parameter, for the error.
            ctx: The command, for the error.

        Raises:
            typer.BadParameter: The text is no number, or the number is out of range.
        """

        def refuse(message: str) -> NoReturn:
            raise typer.BadParameter(message, ctx=ctx, param=param)

        if self.many:
            return [self._single(each, refuse) for each in value or ()]
        return None if value is None else self._single(value, refuse)

    def _single(self, value: Any, refuse: Callable[[str], NoReturn]) -> object:  # noqa: ANN401 - text or value
        if self.kind is Path:
            return Path(value)
        if self.kind not in (int, float):
            return value
        try:
            number = self.kind(value)
        except ValueError:
            refuse(f"{value!r} is no {_KINDS[self.kind]}")
        if math.isnan(number):
            refuse(f"{value!r} is no {_KINDS[self.kind]}")
        if self.low is not None and number < self.low:
            refuse(f"{value} is less than {self.low}")
        if self.high is not None and number > self.high:
            refuse(f"{value} is more than {self.high}")
        return number


def with_plain_values(params: list[Any]) -> list[Any]:
    """Let parameters make their values without pydantic.

    Args:
        params: Those of a command, as Typer has built them. Kinds that are not known here stay with Typer, as do all
            of them in the versions of Typer that do without pydantic.

    Returns:
        The same parameters.
    """
    for param in params:
        described = getattr(param, "type_descriptor", None)
        if described is None or not hasattr(param, "_runtime_param"):
            continue
        annotation, info = described.annotation, described.parameter_info
        many = get_origin(annotation) is list
        kind = get_args(annotation)[0] if many else annotation
        if kind in _KINDS and info.parser is None:
            vars(param)["_runtime_param"] = PlainValue(kind, many, info.min, info.max)
    return params
