# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of Intarsia as commands: ``intarsia compile`` is intarsia-compile."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from ..support.errors import NotFoundError
from ..support.tools import find_tool


def replace_by(tool: str, arguments: Sequence[str]) -> None:
    """Replace this process by a program: it has the arguments, the terminal and the signals, and gives the exit code.

    Raises
    ------
    NotFoundError
        There is no such program.
    """
    path = find_tool(tool)
    # Python ignores these, and a program inherits that.
    ignored = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGPIPE, signal.SIGXFSZ)}
    try:
        os.execv(path, [os.fspath(path), *arguments])
    except OSError as error:
        for number, handler in ignored.items():
            signal.signal(number, handler)
        raise NotFoundError(f"cannot run {path}: {error.strerror}", "not found") from error
