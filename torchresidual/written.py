"""A block's forward written out as Python source: what a careful person would write by hand.

Working through a plan in a loop costs a small block a quarter of its time, so the common kinds of steps are written
down as statements, once per structure, and compiled by Python itself. For ``Record(), nn.Linear(16, 16), Apply()``
that is, shortened::

    def forward(self, x):
        if is_outdated:
            return self.run_planned(x)
        r0 = x
        x = l1(x)
        if type(x) is Tensor and type(r0) is Tensor and x.shape == r0.shape:
            x = x + r0
        else:
            x = a2.combine(x, r0, False)
        del r0
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
from torchresidual.formulas import formula_of, projection_of
from torchresidual.frame import _context
from torchresidual.inplace import Writes
from torchresidual.operations import ONE, OPERATIONS
from torchresidual.plan import Call, Plan, Step, are_outdated
from torchresidual.running import call_guarded, call_layer, refuse_written_over, unshared
from torchresidual.wrappers import split_extras

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchresidual.sequential import ResidualSequential

    Written = Callable[[ResidualSequential, Any], Any]

# What tracebacks and other tools see in place of a file.
FILE_NAME = "<forward written by torchresidual>"

# Beyond this a loop costs no more than a percent of what the layers do, and construction would be slowed.
_MOST_STEPS = 200
# So many children are compared one by one, which allocates nothing; more of them as a list.
_FEW = 12
# Not functools.cache, about which Dynamo warns where it looks into a construction.
_MAKERS: dict[str, Callable[..., Any]] = {}
_MOST_MAKERS = 1000
_FLOATS = frozenset({torch.float32, torch.float64, torch.bfloat16, torch.float16})
# Layers that refuse integers: what goes into them is floating point.
_FLOATING = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.LayerNorm)
_WRITTEN = {Call.LAYER, Call.GUARDED, Call.RECORD, Call.APPLY, Call.ENTER, Call.LEAVE, Call.ATTENTION}

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

    def source(self) -> str:
        """Return the source of a function that makes the forward from what it refers to."""
        outdated = " or ".join(self._outdated())
        for index, step in enumerate(self.plan.steps):
            self._step(index, step)
        body = "\n".join(f"            {line}" for line in self.body)
        return (
            f"def make({', '.join([*_COMMON, *self.names])}):\n"
            "    def forward(self, x):\n"
            "        m = self._modules\n"
            "        try:\n"
            f"            outdated = {outdated}\n"
            "        except KeyError:\n"  # a child under another name, put there behind the block's back
            "            outdated = True\n"
            "        if outdated:\n"
            "            return self.run_planned(x)\n"
            "        here = context.__dict__\n"
            '        outer = here.get("current_sequential")\n'
            '        here["current_sequential"] = self\n'
            "        extras = None\n"
            "        step = 0\n"
            "        try:\n"
            f"{body or '            pass'}\n"
            "        except Exception as error:\n"
            "            complete(error, plan, steps[step], self)\n"
            "            raise\n"
            "        finally:\n"
            '            here["current_sequential"] = outer\n'
            "        return (x, extras) if extras else x\n"
            "    return forward\n"
        )

    def _name(self, name: str, value: Any) -> str:
        self.names[name] = value
        return name

    # ------------------------------------------------------------------ what may have changed

    def _outdated(self) -> list[str]:
        """Return conditions of which one holds if the plan is out of date, or somebody watches."""
        conditions = ["edits.count != epoch"]
        conditions += self._other_children("m", "c", self.children)
        if sum(len(children) for _, children in self.plan.containers) > _FEW:
            conditions.append(f"are_outdated({self._name('containers', self.plan.containers)})")
        else:
            for index, (container, _) in enumerate(self.plan.containers):
                modules = self._name(f"m{index}", container._modules)
                conditions += self._other_children(modules, f"{modules}_", container._modules)
        if len(self.plan.hooks) > 2 * _FEW:
            conditions.append(f"any({self._name('hooks', self.plan.hooks)})")
        else:
            conditions += [self._name(f"h{index}", hooks) for index, hooks in enumerate(self.plan.hooks)]
        for index, (attributes, was) in enumerate(self.plan.switches):
            conditions.append(f'{self._name(f"s{index}", attributes)}.get("inplace", {was}) is not {was}')
        return conditions

    def _other_children(
        self, modules: str, prefix: str, children: Mapping[str, nn.Module | None]
    ) -> list[str]:
        if len(children) > _FEW:
            return [f"[*{modules}.values()] != {self._name(f'{prefix}all', list(children.values()))}"]
        return [f"len({modules}) != {len(children)}"] + [
            f"{modules}[{key!r}] is not {self._name(f'{prefix}{index}', child)}"
            for index, (key, child) in enumerate(children.items())
        ]

    # ------------------------------------------------------------------ steps

    def _step(self, index: int, step: Step) -> None:
        if step.call is Call.RECORD:
            if step.kept:
                self.body.append(f"r{step.place} = x")
            return
        if step.call is Call.ENTER:
            return
        self.body.append(f"step = {index}")
        if step.call is Call.LAYER:
            self.body.append(f"x = {self._name(f'l{index}', step.module)}(x)")
        elif step.call is Call.ATTENTION:
            self.body.append(f"x = call_layer(steps[{index}], x, {{}})")
        elif step.call is Call.GUARDED:
            self._guarded(index, step)
        elif isinstance(step.module, Apply):
            self._apply(index, step, step.module)
        # Inside a nested container a tuple goes on whole, as in any nn.Sequential; at its end it is taken apart.
        if step.key and step.call is not Call.APPLY:
            self.body += [
                "if type(x) is not Tensor:",
                "    extras = extras or []",
                "    x = split(x, extras)",
            ]
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
        general = f"x = {a}.combine(x, {r}, {step.projects})"
        is_projected = apply.projection_layer is not None
        projections = projection_of(apply) if is_projected else None
        formula = formula_of(apply, floating=not is_projected and self._is_floating(step.place))
        if formula is None or (is_projected and projections is None):
            self.body.append(general)
            return
        end = "p" if is_projected else r
        names = {name: self._name(f"{name}{index}", value) for name, value in formula.names.items()}
        statement = f"x = {_renamed(formula.expression, {**names, 'r': end})}"
        conditions = ["type(x) is Tensor", f"type({end}) is Tensor"]
        if formula.condition:
            conditions.append(_renamed(formula.condition, {**names, "r": end}))
        if is_projected:
            projection = f'{self._name(f"p{index}", projections)}["projection_layer"]({r})'
            self.body += [
                f"if type(x) is Tensor and type({r}) is Tensor:",
                *_indented(_projecting(projection, f"bridged({a}, x, {r})", given=apply.projection_given)),
                *_indented(
                    _choice(conditions, [statement], [f"x = {a}.operate(x, p, {r}, {step.projects})"])
                ),
                "    del p",
                "else:",
                f"    {general}",
            ]
        elif OPERATIONS[apply.operation].joins:  # cat itself tells whether the shapes fit
            tried = ["try:", f"    {statement}", "except (RuntimeError, IndexError):", f"    {general}"]
            self.body += _choice(conditions, tried, [general])
        else:
            self.body += _choice(conditions, [statement], [general])

    def _is_floating(self, place: int) -> bool:
        """Say whether a recorded tensor is floating point because the next layer takes nothing else."""
        steps = iter(self.plan.steps)
        next(step for step in steps if step.call is Call.RECORD and step.place == place)
        after = next((step.module for step in steps if step.call not in (Call.RECORD, Call.ENTER)), None)
        if type(after) not in _FLOATING or after is None:
            return False
        weight = after._parameters.get("weight")
        return weight is not None and weight.is_floating_point()


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
