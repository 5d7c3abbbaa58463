"""What in a loaded spec file is a block, and in which order the blocks stand."""

from __future__ import annotations

import ast
import inspect
import sys
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

from torch import nn
from torch.nn.modules.loss import _Loss  # the base class of all losses has no public name

from torchresidual import LearnableAlpha

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_INNER_SCOPES = (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Definition:
    """A block that a file defines, or the function that builds one.

    Args:
        name: The variable or the function.
        value: The module, or the factory.
    """

    name: str
    value: nn.Module | Callable[..., object]


def list_blocks(module: types.ModuleType, source: bytes) -> tuple[Definition, ...]:
    """List the blocks of a spec file in the order in which they are defined, each object once.

    Args:
        module: The namespace after the file has run.
        source: The text of the file.

    Returns:
        The module-level ``nn.Module`` objects that are not inside another one, and the functions of the
        file that are annotated to return a module and need no argument. Left out are imported objects,
        names with a leading underscore, loss modules and bare LearnableAlphas.
    """
    tree = ast.parse(source)
    imported = {id(value) for value in _imported(tree)}
    inner = {id(child) for child in _children_of_all(vars(module).values())}
    found: dict[int, Definition] = {}
    for name in _by_definition(tree, module):
        value = vars(module)[name]
        if name.startswith("_") or id(value) in imported or id(value) in found:
            continue
        if (_is_block(value) and id(value) not in inner) or is_factory(value, module):
            found[id(value)] = Definition(name, value)
    return tuple(found.values())


def is_factory(value: object, module: types.ModuleType) -> bool:
    """Say whether a value is a function of the module that builds a block without being given anything."""
    return is_annotated_factory(value, module) and not required_arguments(value)


def is_annotated_factory(value: object, module: types.ModuleType) -> typing.TypeGuard[Callable[..., object]]:
    """Say whether a value is a function of the module that is annotated to return a module."""
    if not callable(value) or isinstance(value, (type, nn.Module)):
        return False
    function = inspect.unwrap(value)
    return (
        isinstance(function, types.FunctionType)
        and function.__module__ == module.__name__
        and not inspect.iscoroutinefunction(function)
        and _means_module(_return_annotation(function), function.__globals__)
    )


def required_arguments(function: Callable[..., object]) -> tuple[str, ...]:
    """Name the arguments without which a function cannot be called."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty and parameter.kind not in variadic
    )


def _is_block(value: object) -> bool:
    return isinstance(value, nn.Module) and not isinstance(value, (_Loss, LearnableAlpha))


def _children_of_all(values: Iterable[object]) -> Iterator[nn.Module]:
    for value in list(values):
        if isinstance(value, nn.Module):
            yield from (child for child in value.modules() if child is not value)


def _return_annotation(function: types.FunctionType) -> object:
    if sys.version_info >= (3, 14):
        # Asking for the values would evaluate the parameters' annotations too, and fail with one of them.
        import annotationlib  # noqa: PLC0415

        texts = annotationlib.get_annotations(function, format=annotationlib.Format.STRING)
        return texts.get("return")
    return function.__annotations__.get("return")


def _means_module(annotation: object, namespace: dict[str, object]) -> bool:
    """Say whether a return annotation promises a module: a class, a union of such, or their text."""
    if isinstance(annotation, str):
        annotation = _evaluated(annotation, namespace)
    if isinstance(annotation, type):
        return issubclass(annotation, nn.Module)
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _means_module(typing.get_args(annotation)[0], namespace)
    if origin in (Union, types.UnionType):
        options = [option for option in typing.get_args(annotation) if option is not type(None)]
        return all(_means_module(option, namespace) for option in options)
    return isinstance(origin, type) and issubclass(origin, nn.Module)


def _evaluated(annotation: str, namespace: dict[str, object]) -> object:
    try:
        return eval(annotation, dict(namespace))  # noqa: S307 - as Python itself resolves annotations
    except Exception:  # noqa: BLE001 - a name that only type checkers import, or no expression at all
        # `N.Sequential` still tells by its last part.
        return getattr(nn, annotation.rpartition(".")[2].strip(), None)


def _by_definition(tree: ast.Module, module: types.ModuleType) -> list[str]:
    """Order the names of a namespace by where the file last binds them; others stay behind in their order."""
    position = {name: place for place, name in enumerate(_bound_names(tree))}
    return sorted(vars(module), key=lambda name: position.get(name, len(position)))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what runs at module level in the order of the text, without entering functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _INNER_SCOPES):
            yield from _statements(child)


def _bound_names(tree: ast.Module) -> Iterator[str]:
    for node in _statements(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


def _imported(tree: ast.Module) -> Iterator[object]:
    """Find the objects that the file's ``from ... import ...`` lines brought in."""
    for node in _statements(tree):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        source = sys.modules.get(node.module)
        for alias in node.names:
            if alias.name == "*":
                yield from vars(source).values() if source else ()
            else:
                yield getattr(source, alias.name, None)
