# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Read and write files of safetensors (https://github.com/huggingface/safetensors#format)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime.devices import bfloat16
from ..support.checks import parse_json, read_json
from ..support.errors import InvalidArgumentError, NotFoundError

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1"}
_TYPES |= {"BOOL": "?"}
_NAMES = {np.dtype(kind): name for name, kind in _TYPES.items() if name != "BF16"}
#: The longest header that the format allows.
_LONGEST_HEADER = 100_000_000


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write tensors; the file has its name when it is complete."""
    header: dict[str, Any] = {}
    at = 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes],
        }  # fmt: skip
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = path.with_name(f"{path.name}.{os.getpid()}-0.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for array in tensors.values():
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a file, mapped; bf16 as 16-bit integers."""
    header, begin = _header(path)
    return {name: _map(path, name, begin, entry) for name, entry in header.items() if name != "__metadata__"}


class ModelWeights:
    """The weights of a Hugging Face directory: ``model.safetensors``, or the files that its index names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        index = folder / "model.safetensors.index.json"
        files = {"model.safetensors"}
        if index.exists():
            named = read_json(index).get("weight_map")
            if not isinstance(named, dict) or not all(isinstance(file, str) for file in named.values()):
                raise _invalid(index, "has no 'weight_map' that names a file for each tensor")
            files = set(named.values())
        self._entries: dict[str, tuple[Path, int, dict[str, Any]]] = {}
        for file in sorted(files):
            header, begin = _header(folder / file)
            self._entries |= {
                name: (folder / file, begin, entry) for name, entry in header.items() if name != "__metadata__"
            }

    @property
    def names(self) -> Collection[str]:
        """The names of all tensors."""
        return self._entries.keys()

    def shape(self, name: str) -> list[int]:
        """Return the shape of a tensor that there is."""
        return self._entries[name][2]["shape"]

    def bytes(self, name: str) -> int:
        """Return the bytes of a tensor that there is, as it is stored."""
        begin, end = self._entries[name][2]["data_offsets"]
        return end - begin

    def read(self, name: str, dtype: str) -> np.ndarray:
        """Return a tensor: mapped where it has the type already, widened where f32 is asked for.

        Raises
        ------
        NotFoundError
            There is no such tensor, or it is bfloat16, which NumPy has by the package ml_dtypes alone.
        InvalidArgumentError
            The tensor is of a type that NumPy has not, or not within its file.
        """
        if name not in self._entries:
            raise NotFoundError(f"{self._folder}: has no tensor '{name}'", "not found")
        path, begin, entry = self._entries[name]
        array = _map(path, name, begin, entry)
        if dtype == "bf16":
            if (kind := bfloat16()) is None:
                raise NotFoundError(
                    f"{path}: holds bfloat16, for which NumPy needs ml_dtypes: pip install ml_dtypes", "not found"
                )
            return array.view(kind)
        if dtype != "f32" or entry["dtype"] == "F32":
            return array
        if entry["dtype"] == "BF16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array.astype(np.float32)


def _header(path: Path) -> tuple[dict[str, Any], int]:
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > _LONGEST_HEADER:
                raise _invalid(path, f"its header is said to have {size} bytes")
            header = parse_json(f"{path}: is no file of safetensors: its header", file.read(size))
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: there is no such file", "not found") from error
    for name, entry in header.items():
        if not isinstance(entry, dict):
            raise _invalid(path, f"the header has {type(entry).__name__} for '{name}'")
        if name != "__metadata__" and not (
            isinstance(entry.get("dtype"), str)
            and _are_sizes(entry.get("shape"))
            and _are_sizes(entry.get("data_offsets"))
            and len(entry["data_offsets"]) == 2
        ):
            raise _invalid(path, f"the header has no dtype, shape and data_offsets for '{name}'")
    return header, 8 + size


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size < 1 << 63 for size in value)


def _map(path: Path, name: str, begin: int, entry: dict[str, Any]) -> np.ndarray:
    shape, (first, last) = tuple(entry["shape"]), entry["data_offsets"]
    if entry["dtype"] not in _TYPES:
        raise _invalid(path, f"'{name}' is {entry['dtype']}; known are {', '.join(_TYPES)}")
    kind = np.dtype(_TYPES[entry["dtype"]])
    if last - first != math.prod(shape) * kind.itemsize or begin + last > path.stat().st_size:
        raise _invalid(path, f"'{name}' is {entry['dtype']} {list(shape)} at {first} to {last}: not so many bytes")
    try:
        return np.memmap(path, kind, "r", begin + first, shape) if all(shape) else np.zeros(shape, kind)
    except ValueError as error:  # sizes beside a zero may be any, and there may be any number of them
        raise _invalid(path, f"'{name}' is {entry['dtype']} {list(shape)}: {error}") from error


def _invalid(path: Path, message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{path}: is damaged, or no file of safetensors: {message}", "invalid argument")
