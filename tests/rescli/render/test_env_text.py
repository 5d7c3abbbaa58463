"""The environment as lines to paste into a bug report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescli.bench.result import Environment, Gpu
from rescli.packages.result import Distribution, LibraryFacts, PackageFacts
from rescli.render.env_text import render_env_text

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = LibraryFacts(path="/site/torchresidual", ours=True, also_provided_by=())


def environment(*gpus: Gpu) -> Environment:
    return Environment(
        rescli="0.1.0",
        python="3.11.7",
        torch="2.13.0+cu128",
        system="Linux 6.1 x86_64",
        cpu="Model of a CPU",
        cores=16,
        threads=8,
        interop_threads=4,
        gpus=gpus,
        cuda="12.8" if gpus else None,
        driver="570.1" if gpus else None,
    )


def packages(library: LibraryFacts) -> PackageFacts:
    return PackageFacts(versions={"torch": "2.13.0", "typer": "0.29.2", "onnx": None}, torchresidual=library)


def advice(library: LibraryFacts) -> str:
    return render_env_text(environment(), packages(library)).partition("\n\n")[2]


def test_each_fact_is_a_line(golden: Callable[[str, str], None]) -> None:
    gpu = Gpu(index=0, name="Model of a GPU", memory_bytes=80 * 2**30)
    golden("env_gpu.txt", render_env_text(environment(gpu), packages(OURS)))


def test_a_machine_without_gpus_says_so() -> None:
    assert "\ngpus           none\n" in render_env_text(environment(), packages(OURS))


def test_nothing_is_advised_where_all_is_well() -> None:
    assert advice(OURS) == ""


def test_a_second_library_is_named_with_the_way_out() -> None:
    rival = Distribution("torchresidual", "0.1.0")
    assert advice(LibraryFacts("/site/torchresidual", ours=True, also_provided_by=(rival,))) == (
        "torchresidual 0.1.0 also brings a package torchresidual: the two overwrite each other's files.\n"
        "To keep the one of rescli:\n"
        "  pip uninstall torchresidual\n"
        "  pip install --force-reinstall --no-deps FILE\n"
        "where FILE is the wheel or the checkout that rescli came from.\n"
    )


def test_a_library_from_elsewhere_is_named_with_its_folder() -> None:
    assert advice(LibraryFacts("/home/torchresidual", ours=False, also_provided_by=())) == (
        "torchresidual is imported from /home/torchresidual, which did not come with rescli.\n"
        "Take that folder off PYTHONPATH, or start from another folder.\n"
    )


def test_a_missing_library_is_repaired_by_a_new_installation() -> None:
    assert advice(LibraryFacts(None, ours=False, also_provided_by=())) == (
        "torchresidual cannot be imported. To repair it:\n"
        "  pip install --force-reinstall --no-deps FILE\n"
        "where FILE is the wheel or the checkout that rescli came from.\n"
    )
