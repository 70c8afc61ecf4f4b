# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random uses of the ops that gather, scatter, order and select elements."""

from __future__ import annotations

import numpy as np
from op_cases import UNITS, Case, chance, is_float, pick, some_float, some_number, some_size, some_values
from random_numbers import RNG, normal
from selection_formulas import nms, random_boxes

COMBINE = {
    "set": lambda old, new: new, "add": lambda old, new: old + new, "mul": lambda old, new: old * new,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip


def wide(dtype: np.dtype) -> np.dtype:
    """Return the type that combines elements without an error."""
    return np.dtype(np.float64) if is_float(dtype) else dtype


def narrow_error(dtype: np.dtype, kind: str) -> float:
    """Return the tolerance of elements that are combined: sums in f32 at least, rounded once."""
    return 2 * UNITS[dtype] + 2e-6 if is_float(dtype) and kind in ("add", "mul") else 0


def gather() -> Case:
    """Rows of a table, at indices of any rank."""
    dtype = some_float()
    table = some_values((some_size(9, 1), some_size(40)), dtype)
    shape = tuple(some_size(6) for _ in range(int(RNG.integers(0, 4))))
    indices = RNG.integers(0, len(table), shape).astype(pick(np.int32, np.int64))
    operands = {"x": (table, "RC"), "i": (indices, "ABE"[: len(shape)])}
    return Case("nn.embedding %x, %i", operands, [(table[indices], "ABE"[: len(shape)] + "C")])


def scatter() -> Case:
    kind, dtype = pick(*COMBINE), some_number()
    if kind == "set" and chance(0.2):
        dtype = np.dtype(bool)
    rank = int(RNG.integers(1, 4))
    axis = int(RNG.integers(rank))
    shape = [some_size(9, 1) for _ in range(rank)]
    x = some_values(tuple(shape), dtype)
    shape[axis] = some_size(12)
    updates = some_values(tuple(shape), dtype)
    indices = RNG.integers(0, x.shape[axis], shape).astype(pick(np.int32, np.int64))
    y = x.astype(wide(dtype))
    with np.errstate(over="ignore"):
        for place in np.ndindex(*shape):
            at = (*place[:axis], int(indices[place]), *place[axis + 1 :])
            y[at] = COMBINE[kind](y[at], updates[place].astype(y.dtype))
    letters = "ABE"[:rank]
    moved = letters[:axis] + "M" + letters[axis + 1 :]
    operands = {"x": (x, letters), "i": (indices, moved), "u": (updates, moved)}
    op = f"nn.scatter <{kind}>, %x, %i, %u {{axis = {axis}}}"
    return Case(op, operands, [(y.astype(dtype), letters)], narrow_error(dtype, kind))


def scatter_slices() -> Case:
    kind, dtype = pick(*COMBINE), some_number()
    rank = int(RNG.integers(1, 4))
    depth, count = int(RNG.integers(1, rank + 1)), some_size(12)
    x = some_values(tuple(some_size(9, 1) for _ in range(rank)), dtype)
    updates = some_values((count, *x.shape[depth:]), dtype)
    indices = [RNG.integers(0, size, count).astype(pick(np.int32, np.int64)) for size in x.shape[:depth]]
    y = x.astype(wide(dtype))
    with np.errstate(over="ignore"):
        for number in range(count):
            at = tuple(int(each[number]) for each in indices)
            y[at] = COMBINE[kind](y[at], updates[number].astype(y.dtype))
    letters = "ABE"[:rank]
    operands = {"x": (x, letters)} | {f"i{d}": (each, "M") for d, each in enumerate(indices)}
    operands["u"] = (updates, "M" + letters[depth:])
    op = f"nn.scatter_nd <{kind}>, %x[{', '.join(f'%i{d}' for d in range(depth))}], %u"
    return Case(op, operands, [(y.astype(dtype), letters)], narrow_error(dtype, kind))


def ranks_of(x: np.ndarray) -> np.ndarray:
    """Return numbers that order elements, NaN last; equal ones have the same."""
    values = x.astype(np.float64) if is_float(x.dtype) else x
    return np.unique(values, return_inverse=True, equal_nan=True)[1].reshape(x.shape)


def to_sort() -> tuple[np.ndarray, int]:
    rank = int(RNG.integers(1, 4))
    axis = int(RNG.integers(rank))
    shape = [some_size(4) for _ in range(rank)]
    shape[axis] = some_size(pick(9, 70, 300))
    return some_values(tuple(shape), some_number(), coarse=True), axis


def sort() -> Case:
    x, axis = to_sort()
    descending = chance()
    places = np.argsort(ranks_of(x) * (-1 if descending else 1), axis, kind="stable")
    letters = "ABE"[: x.ndim]
    op = f"nn.sort %x {{axis = {axis}{', descending' if descending else ''}}}"
    return Case(op, {"x": (x, letters)}, [(np.take_along_axis(x, places, axis), letters), (places, letters)])


def top() -> Case:
    x, axis = to_sort()
    smallest = chance()
    k = pick(0, min(1, x.shape[axis]), x.shape[axis], int(RNG.integers(x.shape[axis] + 1)))
    places = np.argsort(ranks_of(x) * (1 if smallest else -1), axis, kind="stable")
    places = np.take(places, np.arange(k), axis)
    letters = "ABE"[: x.ndim]
    written = letters[:axis] + "." + letters[axis + 1 :]
    op = f"nn.top_k %x {{axis = {axis}, k = {k}{', smallest' if smallest else ''}}}"
    return Case(op, {"x": (x, letters)}, [(np.take_along_axis(x, places, axis), written), (places, written)])


def nonzero() -> Case:
    x = some_values(
        tuple(some_size(9) for _ in range(int(RNG.integers(1, 5)))), pick(some_number(), np.dtype(bool)), True
    )
    letters = "ABED"[: x.ndim]
    found = np.argwhere(x != 0)
    rows = np.full((x.size, x.ndim), -1)
    rows[: len(found)] = found
    # The number of rows is dynamic where a size is.
    count = np.array(len(found), np.int64)
    case = Case("nn.nonzero %x", {"x": (x, letters)}, [(rows, ".."), (count, "")])
    if case.wild:
        case.results[0] = (rows, f"{min(case.wild).lower()}.")
    return case


def compress() -> Case:
    x = some_values(tuple(some_size(9, 1) for _ in range(int(RNG.integers(1, 4)))), some_number())
    axis = pick(None, *range(x.ndim))
    along = x.size if axis is None else x.shape[axis]
    mask = RNG.uniform(size=some_size(along, 1)) < pick(0, 0.5, 1)
    y = np.compress(mask, x, axis)
    letters = "ABE"[: x.ndim]
    # A mask is not longer than what it selects from: its size is known where the other is.
    operands = {"x": (x, letters.replace(letters[axis], ".") if axis is not None else "." * x.ndim), "c": (mask, ".")}
    attributes = "" if axis is None else f" {{axis = {axis}}}"
    case = Case(f'"build.compress"(%x, %c){attributes}', operands, [])
    written = "Z" if axis is None else letters[:axis] + "Z" + letters[axis + 1 :]
    case.wild |= {"Z"}
    case.results = [(y, written)]
    return case


def unique() -> Case:
    x = some_values(tuple(some_size(9, 1) for _ in range(int(RNG.integers(1, 4)))), some_number(), coarse=True)
    axis = pick(None, None, *range(x.ndim))
    if axis is not None:
        x = some_values(tuple(min(n, 3) if d != axis else n for d, n in enumerate(x.shape)), np.dtype(np.int32), True)
    is_sorted = chance()
    values = x.astype(np.float64) if x.dtype.kind not in "i" else x
    _, first, inverse, counts = np.unique(values, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.ravel()
    if not is_sorted:  # in the order in which they are first there
        order = np.argsort(first)
        first, counts = first[order], counts[order]
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        inverse = places[inverse]
    found = x.ravel()[first] if axis is None else np.take(x, first, axis)
    letters = "ABE"[: x.ndim]
    attributes = [f"axis = {axis}"] if axis is not None else []
    attributes += ["sorted"] if is_sorted else []
    case = Case(f'"build.unique"(%x) {{{", ".join(attributes)}}}', {"x": (x, letters)}, [])
    case.wild |= {"Z"}
    written = "z" if axis is None else letters[:axis] + "z" + letters[axis + 1 :]
    of_elements = "z" if axis is None and case.wild - {"Z"} else "." if axis is None else letters[axis]
    case.results = [(found, written), (first, "z"), (inverse, of_elements), (counts, "z")]
    return case


def boxes() -> Case:
    centered, has_least = chance(), chance(0.7)
    batch, classes, count = some_size(2), some_size(3), some_size(30)
    x, scores = random_boxes(batch, count, centered), normal(batch, classes, count).round(1)
    for each in (x, scores):
        each[RNG.uniform(size=each.shape) < 0.02] = np.nan
    limit, iou, least = pick(0, 1, 3, 100, -2), float(RNG.uniform(0, 1)), pick(-9.0, 0.0, 0.5)
    found = nms(x, scores, limit, iou, least if has_least else None, centered)
    rows = np.full((scores.size, 3), -1)
    rows[: len(found)] = found
    operands = {
        "b": (x, "NB."), "s": (scores, "NCB"), "limit": (np.array(limit, np.int64), ""),
        "iou": (np.array(iou, np.float32), ""),
    } | ({"least": (np.array(least, np.float32), "")} if has_least else {})  # fmt: skip
    op = f"nn.nms {', '.join(f'%{name}' for name in operands)}{' {centered}' if centered else ''}"
    case = Case(op, operands, [(rows, ".."), (np.array(len(found), np.int64), "")])
    if case.wild:
        case.results[0] = (rows, f"{min(case.wild).lower()}.")
    return case
