# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every include and every link line keeps to the table of layers in docs/architecture.md."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {".c", ".cpp", ".def", ".h", ".td"}


def parse_table(text: str) -> dict[str, set[str]]:
    """Return what each room may use, lower floors' rooms expanded, from the table under "## Layers"."""
    rows: dict[str, set[str]] = {}
    section = text.split("\n## Layers\n", 1)[1].split("\n## ", 1)[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| `") or len(cells) < 2:
            continue
        uses = set(re.findall(r"`([^`]+)`", cells[1]))
        for room in re.findall(r"`([^`]+)`", cells[0]):
            for used in uses:
                if used not in rows:
                    raise ValueError(f"{room} uses {used}, which no row above it describes")
            rows[room] = uses
    return rows


def room_of(path: str, rooms: dict[str, set[str]]) -> str | None:
    """Return the room of a file: the longest row that its path begins with; None outside of all."""
    if match := re.match(r"include/intarsia/([^/]+)/", path):
        folder = match.group(1)
        return f"lib/{folder}" if f"lib/{folder}" in rooms else None
    if path.startswith("include/"):
        path = "include"
    fitting = [room for room in rooms if path == room or path.startswith(room + "/")]
    return max(fitting, key=len, default=None)


def files(*suffixes: str) -> Iterator[Path]:
    for folder in ("dialects", "include", "lib", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes or path.name in suffixes:
                yield path


def included(path: Path) -> Iterator[str]:
    """Yield the files of the tree that a file includes, relative to its root."""
    for name in re.findall(r'^\s*(?:#\s*)?include "([^"]+)"', path.read_text(), re.M):
        for folder in (ROOT, ROOT / "include", path.parent):
            if (folder / name).is_file():
                yield str((folder / name).resolve().relative_to(ROOT))
                break


def libraries() -> tuple[dict[str, str], dict[tuple[str, str], list[str]]]:
    """Return the file that makes each library of ours, and what each links by (file, target)."""
    makes: dict[str, str] = {}
    links: dict[tuple[str, str], list[str]] = {}
    for path in files("CMakeLists.txt"):
        text = re.sub(r"#.*", "", path.read_text())
        name = str(path.relative_to(ROOT))
        for call in re.finditer(
            r"\b(add_library|add_executable|intarsia_library|intarsia_floor|intarsia_tool|target_link_libraries)"
            r"\(([^()]*(?:\([^()]*\)[^()]*)*)\)",
            text,
        ):
            target, *words = call.group(2).split()
            if call.group(1) == "target_link_libraries":
                links.setdefault((name, target), []).extend(words)
                continue
            makes[target] = name
            if "LINK" in words:
                after = words[words.index("LINK") + 1 :]
                links.setdefault((name, target), []).extend(
                    after[: after.index("DEPENDS")] if "DEPENDS" in after else after
                )
    return makes, links


@pytest.fixture(scope="module")
def rooms() -> dict[str, set[str]]:
    return parse_table((ROOT / "docs/architecture.md").read_text())


def test_each_file_has_a_room(rooms):
    homeless = {
        str(path.relative_to(ROOT).parent)
        for path in files(*SOURCES)
        if not room_of(str(path.relative_to(ROOT)), rooms)
    }
    assert not homeless, "folders without a row in docs/architecture.md"
    folders = {path.name for path in (ROOT / "lib").iterdir() if path.is_dir()}
    assert {room.split("/")[1] for room in rooms if room.startswith("lib/")} == folders


def test_includes(rooms):
    wrong, count = [], 0
    for path in files(*SOURCES):
        name = str(path.relative_to(ROOT))
        room = room_of(name, rooms)
        for other in included(path):
            count += 1
            used = room_of(other, rooms)
            if room and used and used != room and used not in rooms[room]:
                wrong.append(f"{name} includes {other}: {room} may not use {used}")
    assert not wrong, "\n".join(wrong)
    assert count > 500, "includes were not found"


def test_links(rooms):
    makes, links = libraries()
    wrong, count = [], 0
    for (file, target), words in links.items():
        room = room_of(file, rooms)
        for word in words:
            if word not in makes:
                continue
            count += 1
            used = room_of(makes[word], rooms)
            if room and used and used != room and used not in rooms[room]:
                wrong.append(f"{file}: {target} links {word}: {room} may not use {used}")
    assert not wrong, "\n".join(wrong)
    assert count > 50, "link lines were not found"


def test_public_headers_mirror_lib():
    folders = {path.name for path in (ROOT / "include/intarsia").iterdir() if path.is_dir()}
    assert folders <= {path.name for path in (ROOT / "lib").iterdir() if path.is_dir()}
    assert {path.name for path in (ROOT / "include/intarsia").glob("*.h")} == {"module_abi.h", "runtime.h"}


def test_the_table_can_fail(rooms):
    assert "lib/Runtime/CPU" not in rooms["lib/Runtime/Core"]
    assert room_of("lib/Runtime/CPU/CpuDriver.cpp", rooms) == "lib/Runtime/CPU"
    assert room_of("include/intarsia/Cost/Cost.h", rooms) == "lib/Cost"
    with pytest.raises(ValueError, match="no row above"):
        parse_table("\n## Layers\n| `a` | `b` |\n| `b` | |\n")
