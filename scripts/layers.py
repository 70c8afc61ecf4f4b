#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The layers of the tree: the table in docs/architecture.md, what files include, and the picture of both.

``scripts/layers.py`` writes docs/architecture.svg with Graphviz (Debian's ``graphviz``).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
SOURCES = {".c", ".cpp", ".def", ".h", ".td"}

Table = dict[str, set[str]]
Edges = set[tuple[str, str]]


def read_page() -> str:
    """Return the text of docs/architecture.md."""
    return (ROOT / "docs" / "architecture.md").read_text()


def rows_of(page: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the table under "## Layers"."""
    section = page.split("\n## Layers\n", 1)[1].split("\n## ", 1)[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) >= 2:
            yield cells


def parse_table(page: str) -> Table:
    """Return what each folder may use."""
    rows: Table = {}
    for cells in rows_of(page):
        uses = set(re.findall(r"`([^`]+)`", cells[1]))
        for folder in re.findall(r"`([^`]+)`", cells[0]):
            for used in uses:
                if used not in rows:
                    raise ValueError(f"{folder} uses {used}, which no row above it describes")
            rows[folder] = uses
    return rows


def folder_of(path: str, table: Table) -> str | None:
    """Return the folder of a file: the longest row that its path begins with; None outside of all."""
    if match := re.match(r"include/intarsia/([^/]+)/", path):
        folder = f"lib/{match.group(1)}"
        return folder if folder in table else None
    if path.startswith("include/"):
        path = "include"
    fitting = [folder for folder in table if path == folder or path.startswith(folder + "/")]
    return max(fitting, key=len, default=None)


def files(*suffixes: str) -> Iterator[Path]:
    """Yield the files of compiler, runtime and tools with one of the endings or names."""
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


def included_folders(table: Table) -> Edges:
    """Return the pairs (folder, folder that it includes)."""
    edges: Edges = set()
    for path in files(*SOURCES):
        folder = folder_of(str(path.relative_to(ROOT)), table)
        for name in included(path):
            used = folder_of(name, table)
            if folder and used and used != folder:
                edges.add((folder, used))
    return edges


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


def linked_folders(table: Table) -> Edges:
    """Return the pairs (folder, folder whose library it links)."""
    makes, links = libraries()
    edges = {
        (folder_of(file, table), folder_of(makes[word], table))
        for (file, _), words in links.items()
        for word in words
        if word in makes
    }
    return {(folder, used) for folder, used in edges if folder and used and used != folder}


def drawn_edges(table: Table) -> Edges:
    """Return the uses that do not follow from others: a picture of all of them would be black."""
    edges = included_folders(table) | linked_folders(table)
    uses = {folder: {used for user, used in edges if user == folder} for folder in table}

    def reaches(folder: str, goal: str) -> bool:
        return goal in uses[folder] or any(reaches(used, goal) for used in uses[folder])

    return {
        (folder, used)
        for folder, used in edges
        if not any(reaches(other, used) for other in uses[folder] if other != used)
    }


#: The folders that are phases, in the order of a program's way through them.
PHASES = ["Import", "Quantize", "Partition", "Fuse", "Lower", "Target", "Assemble"]
#: Fill colours, by the first pattern that matches a folder.
COLOURS = [
    (r"lib/Runtime", "#d9ead3"),
    (r"lib/Plan|lib/Probe", "#fce5cd"),
    (rf"lib/({'|'.join(PHASES)})$", "#c9daf8"),
    (r"tools|lib/(Compiler|Registration)", "#ead1dc"),
    (r"", "#eeeeee"),
]


def dot_source(page: str) -> str:
    """Return the picture in the language of Graphviz."""
    table = parse_table(page)
    lines = [
        "digraph architecture {",
        'rankdir=TB; nodesep=0.25; ranksep=0.55; bgcolor="transparent";',
        'node [shape=box, style="filled,rounded", color="#666666", fontname="sans-serif", fontsize=11];',
        'edge [color="#666666", arrowsize=0.6];',
    ]
    for cells in rows_of(page):
        folder = cells[0].strip("`")
        colour = next(colour for pattern, colour in COLOURS if re.match(pattern, folder))
        name = folder.removeprefix("lib/")
        if name in PHASES:
            name = f"{PHASES.index(name) + 1} · {name}"
        words, meaning = re.sub('[`"]', "", cells[2]).split(), [""]
        for word in words:
            if len(meaning[-1]) + len(word) > 26:
                meaning.append("")
            meaning[-1] = f"{meaning[-1]} {word}".strip()
        small = "<br/>".join(meaning)
        lines.append(
            f'"{folder}" [fillcolor="{colour}", label=<<b>{name}</b><br/><font point-size="9">{small}</font>>];'
        )
    lines += [f'"{folder}" -> "{used}";' for folder, used in sorted(drawn_edges(table))]
    return "\n".join([*lines, "}"])


def edges_of_picture(svg: str) -> Edges:
    """Return the arrows of a picture that Graphviz has drawn."""
    titles = re.findall(r"<title>([^<]+)&#45;&gt;([^<]+)</title>", svg)
    return {(user.replace("&#45;", "-"), used.replace("&#45;", "-")) for user, used in titles}


def main() -> None:
    """Draw the picture."""
    drawn = subprocess.run(["dot", "-Tsvg"], input=dot_source(read_page()), capture_output=True, text=True, check=True)
    # Graphviz writes its version, which is no fact of the tree.
    PICTURE.write_text(re.sub(r"<!-- Generated by graphviz.*?-->\n", "", drawn.stdout, flags=re.DOTALL))
    print(f"==> {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
