# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random uses of prefix sums, Fourier transforms and einsums."""

from __future__ import annotations

import numpy as np
from op_cases import UNITS, Case, chance, is_float, pick, some_float, some_number, some_size, some_values
from random_numbers import RNG, normal

CUMULATED = {
    "add": np.add, "mul": np.multiply, "minimumf": np.minimum, "maximumf": np.maximum, "minnumf": np.fmin,
    "maxnumf": np.fmax, "minsi": np.minimum, "maxsi": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "minui": np.minimum, "maxui": np.maximum,
}  # fmt: skip
OF_FLOATS = ("add", "mul", "minimumf", "maximumf", "minnumf", "maxnumf")
OF_INTEGERS = ("add", "mul", "minsi", "maxsi", "minui", "maxui", "and", "or", "xor")


def neutral(kind: str, dtype: np.dtype) -> float | int:
    """Return the element that a combination leaves as it is."""
    largest = np.inf if is_float(dtype) else np.iinfo(dtype).max
    return {
        "add": 0, "mul": 1, "minimumf": largest, "maximumf": -largest, "minnumf": np.nan, "maxnumf": np.nan,
        "minsi": largest, "maxsi": -largest - 1, "and": -1, "or": 0, "xor": 0, "minui": -1, "maxui": 0,
    }[kind]  # fmt: skip


def cumulate() -> Case:
    dtype = some_number()
    kind = pick(*(OF_FLOATS if is_float(dtype) else OF_INTEGERS))
    exclusive, reverse = chance(), chance()
    shape = (*(some_size(5) for _ in range(int(RNG.integers(0, 3)))), some_size(pick(9, 70, 700)))
    x = some_values(shape, dtype)
    if kind == "mul" and is_float(dtype):
        x = (1 + x.astype(np.float64) * 0.05).astype(dtype)
    exact = x.astype(np.float64) if is_float(dtype) else x
    if kind in ("minui", "maxui"):
        exact = exact.view(dtype.str.replace("i", "u"))
    exact = exact[..., ::-1] if reverse else exact
    with np.errstate(over="ignore"):
        y = CUMULATED[kind].accumulate(exact, -1, dtype=exact.dtype)
    if exclusive and shape[-1]:
        first = np.full((*shape[:-1], 1), neutral(kind, dtype), np.float64 if is_float(dtype) else dtype)
        y = np.concatenate([first.view(y.dtype), y[..., :-1]], -1)
    y = (
        (y[..., ::-1] if reverse else y).astype(dtype)
        if is_float(dtype)
        else (y[..., ::-1] if reverse else y).view(dtype)
    )
    flags = ", ".join(flag for flag, given in (("exclusive", exclusive), ("reverse", reverse)) if given)
    letters = "ABE"[: x.ndim]
    tolerance = 4 * UNITS[dtype] + 1e-4 * 2.0 ** (-10 * (dtype == np.float64)) if is_float(dtype) else 0
    tolerance = tolerance if kind in ("add", "mul") else 0
    return Cumulate(
        f"nn.cumulate <{kind}>, %x {{{flags}}}", {"x": (x, letters)}, [(np.ascontiguousarray(y), letters)], tolerance
    )


class Cumulate(Case):
    """A use whose operand and result are of the same type, which is written once."""

    def function(self, name: str) -> str:
        kind = self.kind(*self.results[0])
        return super().function(name).replace(f" : ({kind}) -> ({kind})", f" : {kind}")


def parts(values: np.ndarray) -> np.ndarray:
    return np.stack([values.real, values.imag], -1)


def fft() -> Case:
    rank = int(RNG.integers(1, 4))
    axis, n, dtype = int(RNG.integers(rank)), pick(1, 2, 3, 16, 30, 97, 131, 262, some_size(300, 1)), some_float()
    form = pick("forward", "real", "onesided", "inverse", "back")
    shape = [some_size(4) for _ in range(rank)]
    shape[axis] = n // 2 + 1 if form == "back" else n
    x = some_values((*shape, 1 if form in ("real", "onesided") else 2), dtype)
    wide = x.astype(np.float64)
    numbers = wide[..., 0] + (1j * wide[..., 1] if x.shape[-1] == 2 else 0)
    y = {
        "forward": lambda: parts(np.fft.fft(numbers, axis=axis)), "real": lambda: parts(np.fft.fft(numbers, axis=axis)),
        "onesided": lambda: parts(np.fft.rfft(numbers.real, axis=axis)),
        "inverse": lambda: parts(np.fft.ifft(numbers, axis=axis)),
        "back": lambda: np.fft.irfft(numbers, n, axis=axis)[..., None],
    }[form]()  # fmt: skip
    flags = {"onesided": ", onesided", "inverse": ", inverse", "back": f", inverse, onesided, length = {n}"}.get(
        form, ""
    )
    letters = "ABE"[:rank]
    if form == "back" or chance():
        letters = letters.replace(letters[axis], ".")
    operands = {"x": (x, letters + ".")}
    op = f"nn.fft %x {{axis = {axis}{flags}}}"
    return Case(op, operands, [(y.astype(dtype), letters.lower() + ".")], UNITS[dtype] * 2 + 4e-6)


def stft() -> Case:
    size, step, onesided = some_size(20, 1), some_size(9, 1), chance()
    x = normal(some_size(3, 1), size + some_size(50, 0), 1)
    window = normal(size) if chance(0.7) else None
    count = (x.shape[1] - size) // step + 1
    framed = np.stack([x[:, step * i : step * i + size, 0].astype(float) for i in range(count)], 1)
    framed = framed if window is None else framed * window.astype(float)
    y = parts(np.fft.rfft(framed) if onesided else np.fft.fft(framed))
    operands = {"x": (x, "NT.")} | ({"w": (window, ".")} if window is not None else {})
    names = ", ".join(f"%{name}" for name in operands)
    op = f'"build.stft"({names}) {{size = {size}, step = {step}{", onesided" if onesided else ""}}}'
    return Case(op, operands, [(y.astype(np.float32), "nt..")], 4e-6)


def istft() -> Case:
    size, step, onesided = some_size(20, 1), some_size(9, 1), chance()
    x = normal(some_size(3, 1), some_size(7, 1), size // 2 + 1 if onesided else size, 2)
    window = normal(size) if chance(0.7) else None
    numbers = x[..., 0] + 1j * x[..., 1].astype(float)
    frames = parts(np.fft.ifft(numbers)) if not onesided else np.fft.irfft(numbers, size)[..., None]
    weights = np.ones(size) if window is None else window.astype(float)
    y = np.zeros((len(x), (x.shape[1] - 1) * step + size, frames.shape[-1]))
    squares = np.zeros(y.shape[1])
    for i in range(x.shape[1]):
        y[:, i * step : i * step + size] += frames[:, i] * weights[:, None]
        squares[i * step : i * step + size] += weights**2
    above = squares > 1e-11
    scaled = np.where(above[:, None], y / np.where(above, squares, 1)[:, None], y)
    operands = {"x": (x, "NT..")} | ({"w": (window, ".")} if window is not None else {})
    names = ", ".join(f"%{name}" for name in operands)
    op = f'"build.istft"({names}) {{size = {size}, step = {step}{", onesided" if onesided else ""}}}'
    return Case(op, operands, [(scaled.astype(np.float32), "nt.")], 1e-5)


def einsum() -> Case:
    sizes = {letter: some_size(6) for letter in "abcd"}
    dots = [some_size(4, 1) for _ in range(pick(0, 0, 1, 2))]
    terms, operands = [], {}
    dtype = np.dtype(pick(np.float32, np.float32, np.int32))
    for number in range(int(RNG.integers(1, 4))):
        letters = "".join(str(a) for a in RNG.choice(list("abcd"), int(RNG.integers(0, 4)), replace=chance(0.2)))
        at = int(RNG.integers(len(letters) + 1)) if dots else -1
        shape, of, term = [], "", letters
        for i, letter in enumerate(letters):
            if i == at:
                shape, of = shape + dots, of + "XY"[: len(dots)]
            shape.append(sizes[letter])
            of += letter.upper()
        if at == len(letters):
            shape, of = shape + dots, of + "XY"[: len(dots)]
        if at >= 0:
            term = letters[:at] + "..." + letters[at:]
        x = normal(*shape) if dtype == np.float32 else RNG.integers(-9, 9, shape).astype(dtype)
        terms.append(term)
        operands[f"a{number}"] = (np.asarray(x), of)
    used = sorted(set("".join(terms)) - {"."})
    equation = ",".join(terms)
    out = ""
    if chance(0.8):
        out = "".join(a for a in RNG.permutation(used) if chance(0.6)) if used else ""
        out = ("..." if dots else "") + out if chance() or not dots else out + "..."
        equation += "->" + out
    else:
        out = ("..." if dots else "") + "".join(a for a in used if "".join(terms).count(a) == 1)
    # NumPy's own way without an output differs only where letters are in several terms.
    exact = [value.astype(float if dtype == np.float32 else np.int64) for value, _ in operands.values()]
    y = np.asarray(np.einsum(equation, *exact)).astype(dtype)
    letters = "".join("xy"[: len(dots)] if part == "..." else part for part in split(out))
    names = ", ".join(f"%{name}" for name in operands)
    op = f'"build.einsum"({names}) {{equation = "{equation}"}}'
    return Case(op, operands, [(y, letters)], 1e-5 if dtype == np.float32 else 0)


def split(term: str) -> list[str]:
    """Return letters and ``...``."""
    before, dots, behind = term.partition("...")
    return [*before, *([dots] if dots else []), *behind]
