# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes ONNX files byte by byte, those that the `onnx` package would not write among them.

Numbers of fields: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL = 1, 2, 3, 4, 5, 6, 7, 8, 9
FLOAT16, DOUBLE, UINT32, UINT64, COMPLEX64 = 10, 11, 12, 13, 14
MICROSOFT = "com.microsoft"
TYPES = {"f4": FLOAT, "u1": UINT8, "i1": INT8, "i4": INT32, "i8": INT64, "b1": BOOL, "c8": COMPLEX64}


class Tensor(bytes):
    """A TensorProto."""


class Graph(bytes):
    """A GraphProto."""


def varint(value: int) -> bytes:
    """Return an integer of 64 bits, seven bits in each byte."""
    value &= (1 << 64) - 1
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])


def field(number: int, value: float | str | bytes) -> bytes:
    """Return a field of a message."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(number: int, values: Any) -> bytes:
    """Return a repeated field."""
    return b"".join(field(number, value) for value in values)


def tensor(values: Any, name: str = "", dtype: str = "i8") -> Tensor:
    """Return a tensor of raw data."""
    array = np.asarray(values, dtype)
    kind = TYPES[array.dtype.str[1:]]
    return Tensor(fields(1, array.shape) + field(2, kind) + field(8, name) + field(9, array.tobytes()))


def packed(name: str, kind: int, values: Any, bits: str) -> Tensor:
    """Return a tensor of elements of so many bits, packed, the first in the lowest bits."""
    array = np.asarray(values)
    if int(bits) < 8:
        lowest_first = np.unpackbits(array.astype(np.uint8).reshape(-1, 1), axis=1, bitorder="little")[:, : int(bits)]
        data = np.packbits(lowest_first, bitorder="little").tobytes()
    else:
        data = array.astype(np.uint8).tobytes() if bits == "8" else array.tobytes()
    return Tensor(fields(1, array.shape) + field(2, kind) + field(8, name) + field(9, data))


def attribute(name: str, value: Any) -> bytes:
    """Return an attribute of the type that the value is of."""
    if isinstance(value, Tensor):
        kind, data = 4, field(5, value)
    elif isinstance(value, Graph):
        kind, data = 5, field(6, value)
    elif isinstance(value, float):
        kind, data = 1, field(2, value)
    elif isinstance(value, int):
        kind, data = 2, field(3, value)
    elif isinstance(value, str):
        kind, data = 3, field(4, value)
    elif value and isinstance(value[0], float):
        kind, data = 6, fields(7, value)
    elif value and isinstance(value[0], str):
        kind, data = 8, fields(9, value)
    else:
        kind, data = 7, fields(8, value)
    return field(1, name) + field(20, kind) + data


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> bytes:
    """Return a node; names of values are divided by spaces, "-" is a value that is left out."""
    names = [fields(number, ("" if name == "-" else name for name in text.split()))
             for number, text in [(1, inputs), (2, outputs)]]  # fmt: skip
    return b"".join([*names, field(4, op), *(field(5, attribute(*each)) for each in attributes.items())])


def value(name: str, dims: Any, kind: int = FLOAT) -> bytes:
    """Return the description of a value: dimensions are numbers and names."""
    shape = b"".join(field(1, field(1 if isinstance(size, int) else 2, size)) for size in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def graph(nodes: list[bytes], inputs: list[bytes], outputs: str = "y", stored: dict[str, Any] | None = None) -> Graph:
    """Return a graph; what it stores are arrays, or tensors as bytes."""
    tensors = [each if isinstance(each, Tensor) else tensor(each, name) for name, each in (stored or {}).items()]
    described = [field(1, name) for name in outputs.split()]
    return Graph(fields(1, nodes) + fields(5, tensors) + fields(11, inputs) + fields(12, described))


def model(whole: Graph, opset: int = 21, functions: list[bytes] | None = None) -> bytes:
    """Return a file."""
    sets = field(8, field(2, opset)) + b"".join(field(8, field(1, name) + field(2, 1)) for name in ("f", MICROSOFT))
    return field(1, 10) + sets + field(7, whole) + fields(25, functions or [])


SMALLEST = -(1 << 63)
X = value("x", [4])
NAMED = value("x", ["n", 4])


def floats(*shape: int) -> Tensor:
    """Return a tensor of ones without a name."""
    return tensor(np.ones(shape), "", "f4")


def named(name: str, made: Tensor) -> Tensor:
    """Return a tensor with a name."""
    return Tensor(made + field(8, name))


def one(
    op: str, inputs: str, described: list[bytes], stored: dict[str, Any] | None = None, opset: int = 21,
    outputs: str = "y", **attributes: Any,
) -> bytes:  # fmt: skip
    """Return a model of one node."""
    made = {name: named(name, each) if isinstance(each, Tensor) else each for name, each in (stored or {}).items()}
    return model(graph([node(op, inputs, outputs, **attributes)], described, outputs, made), opset)
