# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files of a model that describe its text, such as the tokenizer: in a folder, or in an artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..support.checks import parse_json
from ..support.errors import InvalidArgumentError
from .module import Module


class Files:
    """Files by name.

    Parameters
    ----------
    source : Path or Module
        The folder that holds them, or the module whose artifact carries them.
    """

    def __init__(self, source: Path | Module) -> None:
        self._source = source

    def where(self, name: str) -> str:
        """Return the name of a file in messages."""
        return str(self._source / name) if isinstance(self._source, Path) else f"{self._source.path}: {name}"

    def names(self, folder: str, suffix: str) -> list[str]:
        """Return the sorted names of the files in a subfolder."""
        if isinstance(self._source, Path):
            return sorted(f"{folder}/{file.name}" for file in self._source.glob(f"{folder}/*{suffix}"))
        return sorted(name for name in self._source.files if name.startswith(f"{folder}/") and name.endswith(suffix))

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file, or None if it does not exist."""
        if isinstance(self._source, Path):
            return (self._source / name).read_bytes() if (self._source / name).is_file() else None
        return self._source.file(name) if name in self._source.files else None

    def text(self, name: str) -> str | None:
        """Return a file as text."""
        data = self.read(name)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(f"{self.where(name)}: is not UTF-8: {error}", "invalid argument") from error

    def json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file, empty if there is no file."""
        text = self.text(name)
        return {} if text is None else parse_json(self.where(name), text)
