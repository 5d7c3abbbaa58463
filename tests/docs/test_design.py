"""The map of the house in docs/DESIGN.md shows every room."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def missing_from(map_of_the_house: str) -> list[str]:
    """Return the files of torchresidual and the rooms of rescli that a text does not name."""
    files = [path.name for path in (ROOT / "torchresidual").glob("*.py") if path.name != "__init__.py"]
    rooms = [f"{path.parent.name}/" for path in (ROOT / "rescli").glob("*/__init__.py")]
    return sorted(name for name in (*files, *rooms) if name not in map_of_the_house)


def test_every_file_of_the_library_and_every_room_of_the_program_is_on_the_map() -> None:
    assert missing_from((ROOT / "docs" / "DESIGN.md").read_text(encoding="utf-8")) == []


def test_a_file_that_is_not_on_the_map_is_found() -> None:
    text = (ROOT / "docs" / "DESIGN.md").read_text(encoding="utf-8")
    assert missing_from(text.replace("plan.py", "").replace("threads/", "")) == ["plan.py", "threads/"]
