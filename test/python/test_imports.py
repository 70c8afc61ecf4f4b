# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the modules of the package import: folders import from lower folders only, and no import goes round."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "intarsia"

#: The folders of the package: each imports from those before it. The files of the package itself are above all.
FOLDERS = [
    "support",
    "runtime",
    "text",
    "generation",
    "quantization",
    "deployment",
    "agents",
    "serve",
    "commands",
]


def modules_of(package: Path) -> dict[str, Path]:
    """Return the files of a package by name: ``text.chat``, ``text`` for its ``__init__.py``, "" for the package's."""
    files = {}
    for file in package.rglob("*.py"):
        parts = file.relative_to(package).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return files


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports_of(name: str, file: Path, modules: dict[str, Path]) -> tuple[set[str], set[str]]:
    """Return the modules of the package that a file imports, in functions too, and those for type checkers alone."""
    tree = ast.parse(file.read_text())
    hidden = {node for block in ast.walk(tree) if is_for_type_checkers(block) for node in ast.walk(block)}
    return tuple(  # type: ignore[return-value]
        imported([node for node in ast.walk(tree) if (node in hidden) == wanted], name, file, modules)
        for wanted in (False, True)
    )


def imported(nodes: list[ast.AST], name: str, file: Path, modules: dict[str, Path]) -> set[str]:
    inside = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    inside = [part for part in inside if part]
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            absolute = [alias.name.split(".") for alias in node.names]
            found |= {".".join(parts[1:]) for parts in absolute if parts[0] == "intarsia"}
        elif isinstance(node, ast.ImportFrom):
            if node.level > len(inside) + 1:
                pytest.fail(f"{file}: an import from outside of the package")
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                base = inside[: len(inside) + 1 - node.level] + base
            elif base[:1] == ["intarsia"]:
                base = base[1:]
            else:
                continue
            for alias in node.names:
                member = ".".join([*base, alias.name])
                found.add(member if member in modules or member == "_runtime" else ".".join(base))
    return found - {name, "_runtime"}


def faults(package: Path) -> list[str]:
    """Return what is wrong with the imports of a package, a line each."""
    modules = modules_of(package)
    found = {name: imports_of(name, file, modules) for name, file in modules.items()}

    def height(name: str) -> int:
        folder = name.split(".")[0]
        return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)

    wrong = [f"{folder.name} is not in the order of folders" for folder in package.iterdir()
             if (folder / "__init__.py").exists() and folder.name not in FOLDERS]  # fmt: skip
    wrong += [
        f"{name} imports {other}, which is not lower"
        for name, (used, typed) in found.items()
        for other in used | typed
        if height(other) > height(name)
    ]
    # What folders name for type checkers alone is checked above. The package itself imports its public names when one
    # of them is used.
    try:
        TopologicalSorter({name: used for name, (used, _) in found.items() if name}).prepare()
    except CycleError as error:
        wrong.append(f"goes round: {' ← '.join(error.args[1])}")
    return wrong


def test_folders_import_from_lower_ones():
    assert faults(PACKAGE) == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"text/a.py": "from ..generation import b"}, "text.a imports generation.b, which is not lower"),
        ({"text/a.py": "from ..generation.b import C"}, "text.a imports generation.b, which is not lower"),
        (
            {"text/a.py": "def f():\n    import intarsia.generation.b"},
            "text.a imports generation.b, which is not lower",
        ),
        ({"text/a.py": "from .. import __version__"}, "text.a imports , which is not lower"),
        ({"generation/b.py": "from . import c", "generation/c.py": "from .b import D"}, "goes round: "),
        ({"generation/b.py": "from .c import E", "generation/c.py": "def f():\n    from .b import D"}, "goes round: "),
        ({"generation/b.py": "from .c import E", "generation/c.py": "if TYPE_CHECKING:\n    from .b import D"}, None),
        (
            {"text/a.py": "if TYPE_CHECKING:\n    from ..generation import b"},
            "text.a imports generation.b, which is not",
        ),
        ({"other/__init__.py": ""}, "other is not in the order of folders"),
        ({"text/a.py": "from .. import _runtime", "generation/c.py": "from ..text.a import f"}, None),
    ],
)
def test_what_is_wrong_is_found(tmp_path, files, message):
    for name, text in {"generation/b.py": "C = 1", **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = faults(tmp_path)
    assert found == [] if message is None else len(found) == 1 and found[0].startswith(message), found


def test_the_package_alone_imports_little():
    """`intarsia --help` needs neither NumPy nor the runtime."""
    program = "import intarsia, sys; print(sorted(m for m in sys.modules if m.startswith(('numpy', 'intarsia'))))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "['intarsia']\n"
