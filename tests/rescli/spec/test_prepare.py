"""From a TARGET to blocks with their inputs."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from rescli.errors import CommandLineError, HardwareError, SpecError
from rescli.spec.prepare import PreparedBlock, Request, prepare
from rescli.spec.shape import InputShape

if TYPE_CHECKING:
    from tests.rescli.spec.conftest import WriteSpec


def prepared(target: str, **request: object) -> tuple[PreparedBlock, ...]:
    return prepare(target, Request(**request))  # type: ignore[arg-type] # by keyword


def refused(target: str, **request: object) -> SpecError:
    with pytest.raises(SpecError) as caught:
        prepared(target, **request)
    return caught.value


FACTORY = """
    def make(width: int = 4, *, depth: int = 1) -> nn.Module:
        return nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))
"""


def test_every_listed_block_is_prepared(write_spec: WriteSpec) -> None:
    spec = write_spec("one = nn.Linear(2, 3)\ndef two() -> nn.Module:\n    return nn.Linear(5, 6)\n")
    first, second = prepared(spec)
    assert (first.name, first.target, first.origin, first.batch_dim) == ("one", "net.py:one", "inferred", 0)
    assert (second.name, second.target) == ("two", "net.py:two")
    assert [tuple(block.inputs[0].shape) for block in (first, second)] == [(8, 2), (8, 5)]
    assert first.spec_file == Path("net.py").resolve()


def test_a_name_reaches_what_is_not_listed(write_spec: WriteSpec) -> None:
    spec = """
        _hidden = nn.Linear(2, 2)
        def unannotated():
            return nn.Linear(3, 3)
        class Net(nn.Module):
            def __init__(self, width=5):
                super().__init__()
                self.layer = nn.Linear(width, width)
        outer = nn.Sequential(_hidden)
    """
    write_spec(spec)
    for name, width in (("_hidden", 2), ("unannotated", 3), ("Net", 5)):
        (block,) = prepared(f"net.py:{name}")
        assert (block.name, tuple(block.inputs[0].shape)) == (name, (8, width))


def own_object(name: str) -> object:
    """Look into the spec that was loaded last: what is the object behind a name there?"""
    *_, newest = (module for name, module in sys.modules.items() if name.startswith("_rescli_spec_"))
    return vars(newest)[name]


def test_a_module_is_the_specs_own_object(write_spec: WriteSpec) -> None:
    (block,) = prepared(write_spec("block = nn.Linear(2, 2)\n"))
    assert block.module is own_object("block")


def test_settings_reach_the_factory(write_spec: WriteSpec) -> None:
    (block,) = prepared(write_spec(FACTORY), settings={"width": 7, "depth": 3})
    assert [layer.in_features for layer in block.module.children()] == [7, 7, 7]


def test_a_wrong_key_names_the_right_ones(write_spec: WriteSpec) -> None:
    with pytest.raises(CommandLineError, match="--set widht: make has no argument of that name") as caught:
        prepared(write_spec(FACTORY), settings={"widht": 7})
    assert caught.value.hint == "its arguments are depth, width"


def test_a_module_that_is_built_takes_no_settings(write_spec: WriteSpec) -> None:
    with pytest.raises(CommandLineError, match="--set width: block is a module that is built already"):
        prepared(write_spec("block = nn.Linear(2, 2)\n"), settings={"width": 7})


def test_each_factory_of_a_file_takes_the_keys_it_knows(write_spec: WriteSpec) -> None:
    spec = """
        plain = nn.Linear(1, 1)
        def narrow(width: int = 2) -> nn.Module:
            return nn.Linear(width, width)
        def open_ended(**sizes: int) -> nn.Module:
            return nn.Linear(sizes["width"], sizes["height"])
    """
    blocks = prepared(write_spec(spec), settings={"width": 7, "height": 9})
    assert [tuple(block.module.get_parameter("weight").shape) for block in blocks] == [(1, 1), (7, 7), (9, 7)]


def test_a_key_that_no_factory_of_a_file_knows_is_refused(write_spec: WriteSpec) -> None:
    spec = "def one() -> nn.Module:\n    return nn.Linear(1, 1)\ntwo = nn.Linear(2, 2)\n"
    with pytest.raises(CommandLineError, match="--set width: none of one, two has an argument") as caught:
        prepared(write_spec(spec), settings={"width": 7})
    assert caught.value.hint == "it takes no arguments"


def test_a_missing_argument_says_how_to_give_it(write_spec: WriteSpec) -> None:
    write_spec("def make(width, depth):\n    return nn.Linear(width, depth)\n")
    with pytest.raises(CommandLineError, match=r"net\.py:make cannot be called without depth") as caught:
        prepared("net.py:make", settings={"width": 2})
    assert caught.value.hint == "--set depth=..."


def test_a_factory_that_raises_shows_its_part_of_the_traceback(write_spec: WriteSpec) -> None:
    error = refused(write_spec("def make() -> nn.Module:\n    raise ValueError('odd width')\n"))
    assert error.message == "net.py:make could not be built"
    assert error.details.splitlines()[-1] == "ValueError: odd width"
    assert "rescli/" not in error.details


@pytest.mark.parametrize(
    ("value", "said"), [("None", "None"), ("[nn.Linear(1, 1)]", "an object of type list")]
)
def test_a_factory_that_gives_no_module_is_refused(write_spec: WriteSpec, value: str, said: str) -> None:
    error = refused(write_spec(f"def make() -> nn.Module:\n    return {value}\n"))
    assert error.message == f"net.py:make returned {said}, not a torch.nn.Module"


def test_a_name_that_is_neither_module_nor_callable_is_refused(write_spec: WriteSpec) -> None:
    write_spec("width = 8\n")
    assert refused("net.py:width").message == (
        "net.py:width is an object of type int, neither a torch.nn.Module nor callable"
    )


def test_a_factory_may_import_what_lies_beside_it_when_it_is_called(write_spec: WriteSpec) -> None:
    write_spec("width = 6\n", "deep/late_sibling.py")
    spec = "def make() -> nn.Module:\n    import late_sibling\n    return nn.Linear(late_sibling.width, 1)\n"
    (block,) = prepared(write_spec(spec, "deep/net.py"))
    assert tuple(block.inputs[0].shape) == (8, 6)


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("x = 1\n", "there is no torch.nn.Module at its top level", "block = ResidualSequential(...)"),
        (
            "def make(width) -> nn.Module:\n    return nn.Linear(width, width)\n",
            "make cannot be called without arguments",
            "give them: net.py:make --set width=...",
        ),
        (
            "def make():\n    return nn.Linear(1, 1)\n",
            "no module, and no function annotated to return one",
            "net.py:make, or annotate a function with -> nn.Module",
        ),
    ],
)
def test_a_file_without_a_block_says_what_is_nearly_one(
    write_spec: WriteSpec, spec: str, message: str, hint: str
) -> None:
    error = refused(write_spec(spec))
    assert error.message == f"net.py defines no block: {message}"
    assert error.hint.endswith(hint)


def test_weights_come_from_the_seed_and_global_generators_stay(write_spec: WriteSpec) -> None:
    spec = write_spec(
        "import random\nblock = nn.Linear(2, 2)\ndef make() -> nn.Module:\n"
        "    return nn.Linear(random.choice(range(1, 1000)), 2)\n"
    )
    before = torch.get_rng_state(), random.getstate()
    first, same, other = (prepared(spec, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    for a, b in zip(first, same, strict=True):
        assert torch.equal(a.module.get_parameter("weight"), b.module.get_parameter("weight"))
    assert not torch.equal(first[0].module.get_parameter("weight"), other[0].module.get_parameter("weight"))
    assert first[1].module.in_features != other[1].module.in_features


def test_what_a_factory_gives_does_not_depend_on_what_else_is_in_the_file(write_spec: WriteSpec) -> None:
    factory = "def make() -> nn.Module:\n    return nn.Linear(2, 2)\n"
    (alone,) = prepared(write_spec(factory, "a.py"))
    *_, after = prepared(write_spec(f"other = nn.Linear(9, 9)\n{factory}", "b.py"))
    assert torch.equal(alone.module.get_parameter("weight"), after.module.get_parameter("weight"))


def test_a_requested_type_is_given_to_a_copy(write_spec: WriteSpec) -> None:
    spec = write_spec("block = nn.Linear(2, 2)\nexample_inputs = torch.zeros(3, 2)\n")
    (block,) = prepared(spec, dtype="bfloat16")
    assert block.module.get_parameter("weight").dtype == block.inputs[0].dtype == torch.bfloat16
    own = own_object("block")
    assert isinstance(own, nn.Linear)
    assert own.weight.dtype == torch.float32
    assert block.module(*block.inputs).dtype == torch.bfloat16


def test_a_block_that_cannot_be_copied_cannot_change_its_type(write_spec: WriteSpec) -> None:
    spec = "import threading\nblock = nn.Linear(2, 2)\nblock.lock = threading.Lock()\n"
    assert (
        "Linear cannot be copied, which another type or device needs"
        in refused(write_spec(spec), dtype="float64").message
    )
    assert prepared("net.py")[0].name == "block"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused_before_the_spec_runs() -> None:
    with pytest.raises(HardwareError, match="--device cuda:3: ") as caught:
        prepared("nosuch.py", device="cuda:3")
    assert caught.value.hint == "what is there: --device cpu"


def test_any_device_that_is_there_will_do(write_spec: WriteSpec) -> None:
    (block,) = prepared(write_spec("block = nn.Linear(2, 2)\n"), device="auto")
    assert block.inputs[0].device == block.module.get_parameter("weight").device


def test_inputs_of_the_file_reach_its_blocks_by_name(write_spec: WriteSpec) -> None:
    spec = """
        one = nn.Linear(2, 2)
        two = nn.Linear(3, 3)
        example_inputs = {"one": (5, 2)}
    """
    first, second = prepared(write_spec(spec))
    assert (tuple(first.inputs[0].shape), first.origin) == ((5, 2), "spec")
    assert (tuple(second.inputs[0].shape), second.origin) == ((8, 3), "inferred")


def test_an_importable_modules_inputs_count_as_well(write_spec: WriteSpec) -> None:
    write_spec(
        "from torch import nn\nblock = nn.Linear(2, 2)\nexample_inputs = (5, 2)\n",
        "package_of_inputs/small.py",
    )
    (block,) = prepared("package_of_inputs.small:block")
    assert (block.target, tuple(block.inputs[0].shape)) == ("package_of_inputs.small:block", (5, 2))


def test_classes_of_torch_are_targets_with_arguments() -> None:
    (block,) = prepared("torch.nn:Linear", settings={"in_features": 3, "out_features": 5})
    assert tuple(block.module(*block.inputs).shape) == (8, 5)


def test_a_prepared_block_gives_its_inputs_in_other_sizes(write_spec: WriteSpec) -> None:
    (block,) = prepared(write_spec("block = nn.LSTM(3, 3)\n"))
    assert tuple(block.resized(32)[0].shape) == (16, 32, 3)
    assert tuple(block.inputs[0].shape) == (16, 8, 3)


def test_looking_at_a_block_changes_nothing_in_it(write_spec: WriteSpec) -> None:
    spec = "block = ResidualSequential(Record(), nn.Linear(4, 4), nn.Dropout(), Apply()).eval()\n"
    (block,) = prepared(write_spec(spec), inputs=(InputShape((2, 4)),))
    assert isinstance(block.module, nn.Module)
    assert not any(module.training for module in block.module.modules())
    assert all(parameter.grad is None for parameter in block.module.parameters())
    assert not any(module._forward_hooks for module in block.module.modules())


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_who_only_looks_gets_large_blocks_of_factories_without_data(
    write_spec: WriteSpec, monkeypatch: pytest.MonkeyPatch, dtype: str | None
) -> None:
    monkeypatch.setattr("rescli.spec.without_data.MOST_REAL_ELEMENTS", 100)
    monkeypatch.setattr("rescli.spec.without_data._SMALL_TENSOR", 20)
    text = "def make(width: int = 20) -> nn.Module:\n    return nn.Linear(width, width)\n"
    target = write_spec(text + "block = nn.Linear(3, 3)\n")
    (large, block) = prepared(target, only_look=True, dtype=dtype, device="auto")
    assert [each.is_meta for each in (*large.module.parameters(), *large.inputs)] == [True, False, True]
    assert {each.dtype for each in large.module.parameters()} == {torch.bfloat16 if dtype else torch.float32}
    assert not block.inputs[0].is_meta
    assert block.with_data is None
    assert large.with_data is not None
    module, inputs = large.with_data()
    assert [each.is_meta for each in (*module.parameters(), *inputs)] == [False, False, False]
    (for_real, _) = prepared(target, dtype=dtype)
    assert next(for_real.module.parameters()).equal(next(module.parameters()))
