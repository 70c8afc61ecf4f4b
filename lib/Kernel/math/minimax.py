#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the polynomial coefficients of VectorMath.cpp.

Three steps for each function: the best real coefficients (Remez exchange), rounding to f32 one coefficient after the
other with the later ones fitted again, then a search over neighbouring f32 values that minimises the largest error of
the f32 evaluation in the order of operations of VectorMath.cpp. Needs mpmath and numpy; takes about two minutes.

    python3 minimax.py [exp5 exp6 exp7 exp2_5 exp2_6 exp2_7 expm1 gelu erf log sin erfc atan asin]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import mpmath as mp
import numpy as np

mp.mp.dps = 50

Function = Callable[[mp.mpf], mp.mpf]
F32 = np.float32


def round_to_f32(value: mp.mpf) -> mp.mpf:
    """Return `value` rounded to the nearest f32."""
    return mp.mpf(float(F32(float(value))))


def remez(
    function: Function, weight: Function, exponents: Sequence[int], low: float, high: float, grid: int = 600
) -> tuple[list[mp.mpf], mp.mpf]:
    """Fit `sum_j c[j] x**exponents[j]` with the smallest maximum of `weight * |error|` on [low, high].

    Returns
    -------
    coefficients, largest weighted error on the grid
    """
    a, b, n = mp.mpf(low), mp.mpf(high), len(exponents)
    points = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * i / grid) for i in range(grid + 1)]
    values = [function(x) for x in points]
    weights = [weight(x) for x in points]
    powers = [[x**e for e in exponents] for x in points]
    reference = [round(grid * i / n) for i in range(n + 1)]
    best: tuple[list[mp.mpf], mp.mpf] | None = None
    for _ in range(40):
        matrix, right = mp.matrix(n + 1, n + 1), mp.matrix(n + 1, 1)
        for row, i in enumerate(reference):
            for j in range(n):
                matrix[row, j] = powers[i][j]
            matrix[row, n] = (-1) ** row / weights[i]
            right[row] = values[i]
        try:
            solution = mp.lu_solve(matrix, right)
        except ZeroDivisionError:
            break
        c = [solution[j] for j in range(n)]
        error = [weights[i] * (values[i] - mp.fdot(c, powers[i])) for i in range(grid + 1)]
        largest = max(abs(e) for e in error)
        if best is None or largest < best[1]:
            best = (c, largest)
        extrema, current = [], 0
        for i in range(1, grid + 1):
            if (error[i] > 0) == (error[current] > 0):
                current = i if abs(error[i]) > abs(error[current]) else current
            else:
                extrema.append(current)
                current = i
        extrema.append(current)
        while len(extrema) > n + 1:
            extrema.pop(0 if abs(error[extrema[0]]) < abs(error[extrema[-1]]) else -1)
        if len(extrema) < n + 1 or largest - abs(solution[n]) < largest / 500:
            break
        reference = extrema
    assert best is not None
    return best


def remez_f32(
    function: Function, weight: Function, exponents: Sequence[int], low: float, high: float
) -> tuple[list[mp.mpf], mp.mpf]:
    """`remez`, its coefficients rounded to f32 from the lowest power up, the others fitted again after each."""
    ideal, error = remez(function, weight, exponents, low, high)
    fixed: list[mp.mpf] = []
    rest = ideal
    for j in range(len(exponents)):
        fixed.append(round_to_f32(rest[0]))
        if j + 1 < len(exponents):
            known = list(zip(fixed, exponents, strict=False))
            rest, _ = remez(
                lambda x, known=known: function(x) - sum(c * x**e for c, e in known),
                weight, exponents[j + 1 :], low, high,
            )  # fmt: skip
    return fixed, error


# ---- f32 evaluation as in VectorMath.cpp ---------------------------------------------------------------------------


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """f32 fused multiply-add: the product is exact in f64, the second rounding is harmless for a search."""
    return (np.asarray(a, np.float64) * np.asarray(b, np.float64) + np.asarray(c, np.float64)).astype(F32)


def horner(x: np.ndarray, coefficients: Sequence[float]) -> np.ndarray:
    """Evaluate with the constant first in `coefficients`."""
    y = np.full_like(x, F32(coefficients[-1]))
    for c in coefficients[-2::-1]:
        y = fma(y, x, F32(c))
    return y


def ulps(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the exact value's binade (f32, normal range)."""
    spacing = np.exp2(np.maximum(np.floor(np.log2(np.maximum(np.abs(exact), 1e-300))), -126) - 23)
    return np.abs(result.astype(np.float64) - exact) / spacing


def polish(name: str, start: Sequence[mp.mpf], loss: Callable[[list[F32]], float], free: Sequence[int]) -> list[F32]:
    """Walk the coefficients `free` through neighbouring f32 values while the largest error falls."""
    random = np.random.default_rng(7)
    best = [F32(float(c)) for c in start]
    value = loss(best)
    print(f"{name}: {value:.4f} after rounding", end="", flush=True)
    for _ in range(1500):
        trial = list(best)
        for j in random.choice(free, size=random.integers(1, 4)):
            spread = 1 << random.integers(0, 5) if j > 1 else 1
            for _ in range(int(random.integers(1, spread + 1))):
                trial[j] = np.nextafter(trial[j], F32(random.choice([-10, 10])), dtype=F32)
        score = loss(trial)
        if score <= value:
            best, value = trial, score
    print(f", {value:.4f} after the search")
    print("   ", ", ".join(f"{float(c):.9g}f" for c in best))
    return best


def with_neighbours(low: float, high: float, count: int) -> np.ndarray:
    """f32 samples on [low, high], half uniform and half dense near zero."""
    uniform = np.linspace(low, high, count)
    return np.unique(np.concatenate([uniform, uniform * np.abs(uniform / max(abs(low), abs(high))) ** 2]).astype(F32))


# ---- The functions -----------------------------------------------------------------------------------------------


def find_power(name: str, base: float, degree: int, high: float) -> None:
    """base^r = 1 + c1 r + … for |r| ≤ log_base(2)/2, up to `high` for exponents whose power of two would overflow.

    The weight is one over the unit of the last place of base^r, which halves below r = 0.
    """
    rate = mp.log(2) if base == 2 else mp.mpf(1)
    low = -0.5003 / float(rate / mp.log(2))
    c, error = remez_f32(lambda r: (mp.exp(r * rate) - 1) / r if abs(r) > 1e-12 else rate,
                         lambda r: abs(r) * 2 ** (24 if r < 0 else 23) + mp.mpf("1e-3"),
                         range(degree), low, high)  # fmt: skip
    print(f"{name}: {mp.nstr(error, 3)} ulp before rounding")
    r = with_neighbours(low, high, 60001)
    exact = np.exp(r.astype(np.float64) * float(rate))
    polish(name, [mp.mpf(1), *c], lambda t: float(ulps(horner(r, t), exact).max()), range(1, degree + 1))


def find_expm1() -> None:
    """e^r - 1 = r + r² P(r) for |r| ≤ ln(2)/2."""
    c, error = remez_f32(lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > 1e-12 else mp.mpf(1) / 2,
                         lambda r: abs(r) + mp.mpf("1e-9"), range(5), -0.34675, 0.34675)  # fmt: skip
    print(f"expm1: relative error {mp.nstr(error, 3)}")
    r = with_neighbours(-0.34665, 0.34665, 60001)
    r = r[np.abs(r) > 1e-6]
    exact = np.expm1(r.astype(np.float64))

    def loss(t: list[F32]) -> float:
        return float(ulps(fma((r.astype(np.float64) ** 2).astype(F32), horner(r, t), r), exact).max())

    polish("expm1", c, loss, range(5))


def find_gelu() -> None:
    """q with 2^(a q(a)) = 2 Phi(-a): q(a) = (log2 Phi(-a) + 1) / a, relative error of 2^… against 1 + |a q|."""

    def q(a: mp.mpf) -> mp.mpf:
        return (mp.log(mp.erfc(a / mp.sqrt(2))) / mp.log(2)) / a if a > 1e-12 else -mp.sqrt(2 / mp.pi) / mp.log(2)

    c, error = remez_f32(q, lambda a: (a + mp.mpf("0.01")) / (1 + abs(a * q(a))), range(10), 0, 5.4)
    print(f"gelu: error of the exponent {mp.nstr(error, 3)} (1 + exponent)")
    a = with_neighbours(0, 5.25, 30001)
    a = a[a > 0]
    exact = np.array([float(mp.ncdf(-mp.mpf(float(v)))) for v in a])

    def loss(t: list[F32]) -> float:
        slope = horner(a, t).astype(np.float64)
        return float((np.abs(np.exp2(slope * a) / 2 / exact - 1) / (1 - np.log2(exact)) * 1e8).max())

    polish("gelu (1e-8 of 1 + exponent)", c, loss, range(10))


def find_erf() -> None:
    """erf x = x + x P(x²) for |x| ≤ 1."""
    c, error = remez_f32(lambda x: mp.erf(x) / x - 1 if x > 1e-12 else 2 / mp.sqrt(mp.pi) - 1,
                         lambda x: x / mp.erf(x) if x > 1e-12 else mp.mpf(1), range(0, 13, 2), 0, 1.0)  # fmt: skip
    print(f"erf: relative error {mp.nstr(error, 3)}")
    x = with_neighbours(0, 1.0, 20001)
    x = x[x > 1e-6]
    exact = np.array([float(mp.erf(float(v))) for v in x])

    def loss(t: list[F32]) -> float:
        z = (x.astype(np.float64) ** 2).astype(F32)
        return float(ulps(fma(x, horner(z, t), x), exact).max())

    polish("erf", c, loss, range(7))


def find_log() -> None:
    """log(1 + f) = f + f² P(f) for 1 + f in [2/3, 4/3)."""
    c, error = remez_f32(lambda f: (mp.log1p(f) - f) / (f * f) if abs(f) > 1e-12 else mp.mpf(-1) / 2,
                         lambda f: abs(f * f / mp.log1p(f)) + mp.mpf("1e-9") if abs(f) > 1e-12 else mp.mpf("1e-9"),
                         range(9), -1 / 3, 1 / 3)  # fmt: skip
    print(f"log: relative error {mp.nstr(error, 3)}")
    f = with_neighbours(-1 / 3, 1 / 3, 60001)
    f = f[np.abs(f) > 1e-6]
    exact = np.log1p(f.astype(np.float64))

    def loss(t: list[F32]) -> float:
        return float(ulps(fma((f.astype(np.float64) ** 2).astype(F32), horner(f, t), f), exact).max())

    polish("log", c, loss, range(9))


def find_sin() -> None:
    """sin r = r + r³ P(r²) for |r| ≤ pi/2."""
    c, error = remez_f32(lambda r: (mp.sin(r) - r) / r**3 if abs(r) > 1e-12 else mp.mpf(-1) / 6,
                         lambda r: r**3 / mp.sin(r) + mp.mpf("1e-9") if abs(r) > 1e-12 else mp.mpf("1e-9"),
                         [0, 2, 4, 6], 0, 1.5709)  # fmt: skip
    print(f"sin: relative error {mp.nstr(error, 3)}")
    r = with_neighbours(0, 1.5708, 60001)
    r = r[r > 1e-6]
    exact = np.sin(r.astype(np.float64))

    def loss(t: list[F32]) -> float:
        z = (r.astype(np.float64) ** 2).astype(F32)
        return float(ulps(fma((r * z).astype(F32), horner(z, t), r), exact).max())

    polish("sin", c, loss, range(4))


def find_odd(name: str, function: Function, terms: int, high: float) -> None:
    """f(t) = t + t³ P(t²) for 0 ≤ t ≤ high."""
    third = (function(mp.mpf("1e-6")) * 10**6 - 1) * 10**12
    c, error = remez_f32(lambda t: (function(t) - t) / t**3 if t > 1e-9 else third,
                         lambda t: t**3 / function(t) + mp.mpf("1e-9") if t > 1e-12 else mp.mpf("1e-9"),
                         range(0, 2 * terms, 2), 0, high)  # fmt: skip
    print(f"{name}: relative error {mp.nstr(error, 3)}")
    t = with_neighbours(0, high, 40001)
    t = t[t > 1e-6]
    exact = np.array([float(function(mp.mpf(float(v)))) for v in t])

    def loss(coefficients: list[F32]) -> float:
        z = (t.astype(np.float64) ** 2).astype(F32)
        return float(ulps(fma((t * z).astype(F32), horner(z, coefficients), t), exact).max())

    polish(name, c, loss, range(terms))


def find_erfc() -> None:
    """e^(x²) (erfc x)/t in t = 2/(2 + x) for 0 ≤ x ≤ 11.3, in f64: the coefficients are not searched for."""

    def ratio(t: mp.mpf) -> mp.mpf:
        x = 2 * (1 - t) / t
        return mp.erfc(x) * mp.exp(x * x) / t

    c, error = remez(ratio, lambda t: 1 / ratio(t), range(12), 0.15, 1.0, grid=400)
    print(f"erfc: relative error {mp.nstr(error, 3)}")
    print("   ", ", ".join(repr(float(v)) for v in c))


def main() -> None:
    finders: dict[str, Callable[[], None]] = {
        "exp5": lambda: find_power("exp5", math.e, 5, 0.34675),
        "exp6": lambda: find_power("exp6", math.e, 6, 0.34675),
        "exp7": lambda: find_power("exp7", math.e, 7, 0.6932),
        "exp2_5": lambda: find_power("exp2_5", 2, 5, 0.5003),
        "exp2_7": lambda: find_power("exp2_7", 2, 7, 1.0003),
        "exp2_6": lambda: find_power("exp2_6", 2, 6, 0.5003),
        "expm1": find_expm1,
        "gelu": find_gelu,
        "erf": find_erf,
        "log": find_log,
        "sin": find_sin,
        "erfc": find_erfc,
        "atan": lambda: find_odd("atan", mp.atan, 9, 1.0),
        "asin": lambda: find_odd("asin", mp.asin, 6, 0.5),
    }
    for name in sys.argv[1:] or list(finders):
        finders[name]()


if __name__ == "__main__":
    main()
