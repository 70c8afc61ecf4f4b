# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs of Intarsia: where they are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .errors import NotFoundError


def find_tool(name: str) -> Path:
    """Return the path of a tool of Intarsia.

    Searched in this order: the environment variable (``INTARSIA_COMPILE`` for intarsia-compile), the package, the build
    tree that contains the package, ``PATH``.
    """
    variable = name.upper().replace("-", "_")
    if variable in os.environ:
        return Path(os.environ[variable])
    package = Path(__file__).parent.parent  # not resolved: in a build tree the Python files are links
    for folder in (package / "bin", package.parent.parent / "bin"):
        if os.access(folder / name, os.X_OK):
            return folder / name
    found = shutil.which(name)
    if found is None:
        raise NotFoundError(
            f"{name} is neither beside the package ({package}) nor in PATH; set {variable} to its path", "not found"
        )
    return Path(found)
