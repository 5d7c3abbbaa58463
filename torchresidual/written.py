"""A block's forward written out as Python source: what a careful person would write by hand.

Working through a plan in a loop costs a small block a quarter of its time, so the common kinds of steps are written
down as statements, once per structure, and compiled by Python itself. For ``Record(), nn.Linear(16, 16), Apply()``
that is, shortened::

    def forward(self, x):
        if edits.count != epoch or self._modules != children:
            return self.run_planned(x)
        try:
            r0 = x
            x = l1(x)
            if type(x) is Tensor and type(r0) is Tensor and x.shape == r0.shape:
                x = x + r0
            else:
                x = a2.combine(x, r0, False)
            del r0
        except Exception as error:
            complete(error, plan, step_of_line[error.__traceback__.tb_lineno - first], self)
            raise
        return x

Every check of the general way is there, or a condition that holds only where it would pass; what is not a plain
tensor goes the general way. Blocks whose structure is known only at run time, and very long ones, are not written
down. Python's ``dataclasses`` write their methods in the same manner.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from torchresidual.apply import Apply
from torchresidual.blame import complete
from torchresidual.bridging import bridged
from torchresidual.epoch import EDITS
from torchresidual.formulas import Formula, formula_of, projection_of
from torchresidual.frame import _context
from torchresidual.inplace import Writes
from torchresidual.operations import ONE, OPERATIONS
from torchresidual.plan import Call, Plan, Step, are_outdated
from torchresidual.running import call_guarded, call_layer, refuse_written_over, unshared
from torchresidual.structure import Scope
from torchresidual.wrappers import split_extras

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchresidual.sequential import ResidualSequential

    Written = Callable[[ResidualSequential, Any], Any]

# What tracebacks and other tools see in place of a file.
FILE_NAME = "<forward written by torchresidual>"

# Beyond this a loop costs no more than a percent of what the layers do, and construction would be slowed.
_MOST_STEPS = 200
# So many conditions stand one by one in the source; more of them go through a loop.
_FEW = 12
# Not functools.cache, about which Dynamo warns where it looks into a construction.
_MAKERS: dict[str, Callable[..., Any]] = {}
_MOST_MAKERS = 1000
_FLOATS = frozenset({torch.float32, torch.float64, torch.bfloat16, torch.float16})
# Layers that refuse integers: what goes into them is floating point.
_FLOATING = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.LayerNorm)
# Where the classes of modules are defined that look at nothing but their input.
_KNOWN = ("torch.nn.modules.", "torchresidual.")
_WRITTEN = {Call.LAYER, Call.GUARDED, Call.RECORD, Call.APPLY, Call.ENTER, Call.LEAVE, Call.ATTENTION}

# Takes apart what a layer returned besides a tensor.
_SPLIT = ["extras = extras or []", "x = split(x, extras)"]
# What every written forward may use.
_COMMON: dict[str, Any] = {
    "Tensor": Tensor,
    "FLOATS": _FLOATS,
    "ONE": ONE,
    "add": torch.add,
    "bridged": bridged,
    "cat": torch.cat,
    "sigmoid": torch.sigmoid,
    "edits": EDITS,
    "context": _context,
    "split": split_extras,
    "are_outdated": are_outdated,
    "call_guarded": call_guarded,
    "call_layer": call_layer,
    "complete": complete,
    "refuse_written_over": refuse_written_over,
    "unshared": unshared,
}


def write_forward(plan: Plan, children: Mapping[str, nn.Module | None]) -> Written | None:
    """Write the forward of a block down.

    Args:
        plan: The plan of the block.
        children: Its children by name.

    Returns:
        A function ``(block, x) -> output``, or None for a block that has to be run by its plan.
    """
    if (
        plan.publishes
        or plan.watched
        or len(plan.steps) > _MOST_STEPS
        or any(
            step.call not in _WRITTEN or (step.attention and step.call is Call.GUARDED) for step in plan.steps
        )
    ):
        return None
    writer = _Writer(plan, children)
    source = writer.source()
    make = _compiled(source)
    return make(**_COMMON, **writer.names)  # type: ignore[no-any-return]


def _compiled(source: str) -> Callable[..., Any]:
    """Compile a source, unless another block had the same: those of one architecture share a few."""
    make = _MAKERS.get(source)
    if make is None:
        namespace: dict[str, Any] = {}
        exec(compile(source, FILE_NAME, "exec"), namespace)  # noqa: S102 - made above, of names and numbers of ours alone
        if len(_MAKERS) >= _MOST_MAKERS:
            _MAKERS.clear()
        make = _MAKERS[source] = namespace["make"]
    return make


class _Writer:
    """Writes the statements of one plan, and gathers what they refer to by name."""

    def __init__(self, plan: Plan, children: Mapping[str, nn.Module | None]) -> None:
        self.plan = plan
        self.children = children
        self.names: dict[str, Any] = {"plan": plan, "steps": plan.steps, "epoch": plan.epoch}
        self.body: list[str] = []
        # The step that each line of the body belongs to, which tells an error's place without noting it on the way.
        self.step_of_line: list[Step] = []

    def source(self) -> str:
        """Return the source of a function that makes the forward from what it refers to."""
        for index, step in enumerate(self.plan.steps):
            self._step(index, step)
            self.step_of_line += [step] * (len(self.body) - len(self.step_of_line))
        head = [
            "def forward(self, x):",
            f"    if {' or '.join(self._outdated())}:",
            "        return self.run_planned(x)",
            "    extras = None",
        ]
        end = ["    return (x, extras) if extras else x"]
        handler = [
            "    except Exception as error:",
            "        complete(error, plan, step_of_line[error.__traceback__.tb_lineno - first], self)",
            "        raise",
        ]
        if not all(_is_known(step.module) for step in self.plan.steps):
            head += [
                "    here = context.__dict__",
                '    outer = here.get("current_sequential")',
                '    here["current_sequential"] = self',
            ]
            handler += ["    finally:", '        here["current_sequential"] = outer']
        head.append("    try:")
        self.names |= {"step_of_line": self.step_of_line, "first": len(head) + 2}
        lines = [*head, *_indented(_indented(self.body or ["pass"])), *handler, *end]
        return "\n".join(
            [f"def make({', '.join([*_COMMON, *self.names])}):", *_indented(lines), "    return forward", ""]
        )

    def _name(self, name: str, value: Any) -> str:
        self.names[name] = value
        return name

    # ------------------------------------------------------------------ what may have changed

    def _outdated(self) -> list[str]:
        """Return conditions of which one holds if the plan is out of date, or somebody watches."""
        conditions = [
            "edits.count != epoch",
            f"self._modules != {self._name('children', dict(self.children))}",
        ]
        if len(self.plan.containers) > _FEW:
            conditions.append(f"are_outdated({self._name('containers', self.plan.containers)})")
        else:
            for index, (container, _) in enumerate(self.plan.containers):
                modules, children = container._modules, dict(container._modules)
                conditions.append(
                    f"{self._name(f'm{index}', modules)} != {self._name(f'c{index}', children)}"
                )
        if len(self.plan.hooks) > 2 * _FEW:
            conditions.append(f"any({self._name('hooks', self.plan.hooks)})")
        else:
            conditions += [self._name(f"h{index}", hooks) for index, hooks in enumerate(self.plan.hooks)]
        for index, (attributes, was) in enumerate(self.plan.switches):
            conditions.append(f'{self._name(f"s{index}", attributes)}.get("inplace", {was}) is not {was}')
        return conditions

    # ------------------------------------------------------------------ steps

    def _step(self, index: int, step: Step) -> None:
        if step.call is Call.RECORD:
            if step.kept:
                self.body.append(f"r{step.place} = x")
            return
        if step.call is Call.ENTER:
            return
        if step.call is Call.LAYER:
            self.body.append(f"x = {self._name(f'l{index}', step.module)}(x)")
        elif step.call is Call.ATTENTION:
            self.body.append(f"x = call_layer(steps[{index}], x, {{}})")
        elif step.call is Call.GUARDED:
            self._guarded(index, step)
        elif isinstance(step.module, Apply):
            self._apply(index, step, step.module)
        # Inside a nested container a tuple goes on whole, as in any nn.Sequential; at its end it is taken apart.
        if step.key and step.call is not Call.APPLY and not self._precedes_formula(index):
            self.body += ["if type(x) is not Tensor:", *_indented(_SPLIT)]
        if step.releases:
            self.body.append("del " + ", ".join(f"r{place}" for place in step.releases))

    def _guarded(self, index: int, step: Step) -> None:
        """Write the call of a layer that may write into its input while recorded tensors are live."""
        layer = self._name(f"l{index}", step.module)
        live = [f"r{place}" for place in step.live]
        everything = f"({', '.join(live)},)" if live else "()"
        if step.writes is Writes.IN_PLACE:
            self.body.append(f"x = {layer}(unshared(x, {everything}))")
            return
        counted = " and ".join(f"type({r}) is Tensor and not {r}.is_inference()" for r in live)
        named = (
            f"[*zip({self._name(f'n{index}', [self.plan.places[p].name for p in step.live])}, {everything})]"
        )
        self.body += [
            f"if {counted}:" if counted else "if True:",
            *(f"    v{r} = {r}._version" for r in live),
            f"    x = {layer}(x)",
            *(f"    if {r}._version != v{r}: refuse_written_over(steps[{index}], {self.plan.places[p].name!r})"
              for r, p in zip(live, step.live, strict=True)),
            "else:",
            f"    x = call_guarded(steps[{index}], {named}, x, {{}})",
        ]  # fmt: skip

    def _apply(self, index: int, step: Step, apply: Apply) -> None:
        """Write an Apply: its formula where both ends are tensors that fit, else the general way."""
        r, a = f"r{step.place}", self._name(f"a{index}", apply)
        formula = self._formula_of(step, apply)
        general = [f"x = {a}.combine(x, {r}, {step.projects})"]
        if formula is None:
            self.body += general
            return
        if index and self._precedes_formula(index - 1) and self.plan.steps[index - 1].key:
            general = [*_SPLIT, *general]
        projections = projection_of(apply)
        end = r if projections is None else "p"
        names = {name: self._name(f"{name}{index}", value) for name, value in formula.names.items()}
        met = [
            f"x = {_renamed(expression, {**names, 'r': end})}"
            for expression in (formula.first, formula.expression)
            if expression
        ]
        conditions = ["type(x) is Tensor", f"type({end}) is Tensor"]
        if formula.condition:
            conditions.append(_renamed(formula.condition, {**names, "r": end}))
        if projections is not None:
            projection = f'{self._name(f"p{index}", projections)}["projection_layer"]({r})'
            projected = [
                *_projecting(projection, f"bridged({a}, x, {r})", given=apply.projection_given),
                *_choice(conditions, met, [f"x = {a}.operate(x, p, {r}, {step.projects})"]),
                "del p",
            ]
            self.body += _choice(["type(x) is Tensor", f"type({r}) is Tensor"], projected, general)
        elif OPERATIONS[apply.operation].joins:  # cat itself tells whether the shapes fit
            tried = ["try:", *_indented(met), "except (RuntimeError, IndexError):", *_indented(general)]
            self.body += _choice(conditions, tried, general)
        else:
            self.body += _choice(conditions, met, general)

    def _precedes_formula(self, index: int) -> bool:
        """Say whether the step after one is an Apply written as a formula, which asks for plain tensors anyway."""
        step = self.plan.steps[index + 1] if index + 1 < len(self.plan.steps) else None
        if step is None or not isinstance(step.module, Apply):
            return False
        return self._formula_of(step, step.module) is not None

    def _formula_of(self, step: Step, apply: Apply) -> Formula | None:
        """Return how an Apply is written down, or None where only the general way is right."""
        is_projected = apply.projection_layer is not None
        if is_projected and projection_of(apply) is None:
            return None
        return formula_of(apply, floating=not is_projected and self._is_floating(step.place))

    def _is_floating(self, place: int) -> bool:
        """Say whether a recorded tensor is floating point because the next layer takes nothing else."""
        steps = iter(self.plan.steps)
        next(step for step in steps if step.call is Call.RECORD and step.place == place)
        after = next((step.module for step in steps if step.call not in (Call.RECORD, Call.ENTER)), None)
        if type(after) not in _FLOATING or after is None:
            return False
        weight = after._parameters.get("weight")
        return weight is not None and weight.is_floating_point()


def _is_known(module: nn.Module) -> bool:
    """Say whether a module looks at nothing but its input, so that no context need be set for it."""
    # A nested block sets its own.
    return type(module).__module__.startswith(_KNOWN) and (
        isinstance(module, Scope)
        or all(_is_known(child) for child in module._modules.values() if child is not None)
    )


def _projecting(projection: str, general: str, *, given: bool) -> list[str]:
    """Return the call of a projection; what does not fit one of ours, the general way says in our words."""
    if given:
        return [f"p = {projection}"]
    return ["try:", f"    p = {projection}", "except RuntimeError:", f"    p = {general}"]


def _choice(conditions: list[str], met: list[str], otherwise: list[str]) -> list[str]:
    return [f"if {' and '.join(conditions)}:", *_indented(met), "else:", *_indented(otherwise)]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Return an expression with its names replaced."""
    return re.sub(r"[A-Za-z_]+", lambda found: names.get(found[0], found[0]), text)
