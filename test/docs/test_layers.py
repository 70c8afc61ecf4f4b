# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every include and every link line keeps to the table of layers in docs/architecture.md."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from layers import (  # noqa: E402
    PICTURE,
    SOURCES,
    drawn_edges,
    edges_of_picture,
    files,
    folder_of,
    included,
    libraries,
    parse_table,
    read_page,
)


@pytest.fixture(scope="module")
def table() -> dict[str, set[str]]:
    return parse_table(read_page())


def test_each_folder_has_a_row(table):
    missing = {
        str(path.relative_to(ROOT).parent)
        for path in files(*SOURCES)
        if not folder_of(str(path.relative_to(ROOT)), table)
    }
    assert not missing, "folders without a row in docs/architecture.md"
    folders = {path.name for path in (ROOT / "lib").iterdir() if path.is_dir()}
    assert {folder.split("/")[1] for folder in table if folder.startswith("lib/")} == folders


def test_includes(table):
    wrong, count = [], 0
    for path in files(*SOURCES):
        name = str(path.relative_to(ROOT))
        folder = folder_of(name, table)
        for other in included(path):
            count += 1
            used = folder_of(other, table)
            if folder and used and used != folder and used not in table[folder]:
                wrong.append(f"{name} includes {other}: {folder} may not use {used}")
    assert not wrong, "\n".join(wrong)
    assert count > 500, "includes were not found"


def test_links(table):
    makes, links = libraries()
    wrong, count = [], 0
    for (file, target), words in links.items():
        folder = folder_of(file, table)
        for word in words:
            if word not in makes:
                continue
            count += 1
            used = folder_of(makes[word], table)
            if folder and used and used != folder and used not in table[folder]:
                wrong.append(f"{file}: {target} links {word}: {folder} may not use {used}")
    assert not wrong, "\n".join(wrong)
    assert count > 50, "link lines were not found"


def test_public_headers_mirror_lib():
    folders = {path.name for path in (ROOT / "include/intarsia").iterdir() if path.is_dir()}
    assert folders <= {path.name for path in (ROOT / "lib").iterdir() if path.is_dir()}
    assert {path.name for path in (ROOT / "include/intarsia").glob("*.h")} == {
        "emulated_abi.h",
        "engine.h",
        "module_abi.h",
        "runtime.h",
    }


def test_the_table_can_fail(table):
    assert "lib/Runtime/CPU" not in table["lib/Runtime/Core"]
    assert folder_of("lib/Runtime/CPU/CpuDriver.cpp", table) == "lib/Runtime/CPU"
    assert folder_of("include/intarsia/Cost/Cost.h", table) == "lib/Cost"
    with pytest.raises(ValueError, match="no row above"):
        parse_table("\n## Layers\n| `a` | `b` |\n| `b` | |\n")


def test_picture(table):
    """docs/architecture.svg shows the folders and uses of today; scripts/layers.py draws it."""
    svg = PICTURE.read_text()
    assert edges_of_picture(svg) == drawn_edges(table), "scripts/layers.py draws the picture anew"
    assert all(f"<title>{folder.replace('-', '&#45;')}</title>" in svg for folder in table)
