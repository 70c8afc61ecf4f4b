# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recurrent layers by the formulas of nn.recurrent, in NumPy and double precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from random_numbers import RNG, normal

GATES = {"lstm": "iofc", "gru": "zrh", "rnn": "h"}
#: Of x, alpha and beta.
FUNCTIONS = {
    "sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "affine": lambda x, a, b: a * x + b,
    "leaky_relu": lambda x, a, b: np.where(x < 0, a * x, x),
    "thresholded_relu": lambda x, a, b: np.where(x < a, 0, x),
    "scaled_tanh": lambda x, a, b: a * np.tanh(b * x),
    "hard_sigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "elu": lambda x, a, b: np.where(x < 0, a * np.expm1(x), x),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "softplus": lambda x, a, b: np.logaddexp(x, 0),
}
DEFAULTS = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh"), "rnn": ("tanh",)}


@dataclass(frozen=True)
class Recurrence:
    """A layer, and which operands it has."""

    kind: str
    direction: str = "forward"
    batch: int = 2
    sequence: int = 5
    hidden: int = 6
    order: tuple[int, ...] = ()
    activations: tuple[str, ...] = ()  # of all directions
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    clip: float | None = None
    flags: tuple[str, ...] = ()  # coupled, linear_before_reset, sequence_first
    bias: bool = True
    states: bool = True
    peepholes: bool = False
    lengths: tuple[int, ...] = ()

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    @property
    def rows(self) -> int:
        return self.directions * len(GATES[self.kind]) * self.hidden

    @property
    def operands(self) -> dict[str, tuple[int, ...]]:
        """Give the shapes of the operands, by their names in the syntax."""
        steps = (self.sequence, self.batch) if "sequence_first" in self.flags else (self.batch, self.sequence)
        state = (self.directions, self.batch, self.hidden)
        shapes: dict[str, tuple[int, ...]] = {"gates": (*steps, self.rows), "recurrent": (self.rows, self.hidden)}
        shapes |= {"bias": (self.rows,)} if self.bias else {}
        shapes |= {"hidden": state} if self.states else {}
        shapes |= {"cell": state} if self.states and self.kind == "lstm" else {}
        shapes |= {"peepholes": (self.directions * 3 * self.hidden,)} if self.peepholes else {}
        return shapes | ({"lengths": (self.batch,)} if self.lengths else {})

    @property
    def results(self) -> list[tuple[int, ...]]:
        steps = self.operands["gates"][:2]
        states = [(self.directions, self.batch, self.hidden)] * (2 if self.kind == "lstm" else 1)
        return [(*steps, self.directions * self.hidden), *states]

    def make(self) -> dict[str, np.ndarray]:
        """Make operands whose sums are around 1."""
        values = {name: normal(*shape) for name, shape in self.operands.items() if name != "lengths"}
        values["recurrent"] *= np.float32(self.hidden**-0.5)
        return values | ({"lengths": np.array(self.lengths, np.int64)} if self.lengths else {})

    def text(self, names: dict[str, str]) -> str:
        """Write the op without its types."""
        parts = f"nn.recurrent <{self.kind}>, <{self.direction}>, {names['gates']}, {names['recurrent']}"
        for name in list(self.operands)[2:]:
            parts += f" {name} {names[name]}"
        kinds = ", ".join(f"#nn.recurrent_activation<{name}>" for name in self.activations)
        attributes = [f"gate_order = array<i64: {', '.join(map(str, self.order))}>"] if self.order else []
        attributes += [f"activations = [{kinds}]"] if self.activations else []
        attributes += [f"alphas = array<f32: {', '.join(map(str, self.alphas))}>"] if self.alphas else []
        attributes += [f"betas = array<f32: {', '.join(map(str, self.betas))}>"] if self.betas else []
        attributes += [f"clip = {self.clip} : f32"] if self.clip else []
        return f"{parts} {{{', '.join([*attributes, *self.flags])}}}"

    def compute(self, values: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Compute step by step what the op's description says."""
        d, n, hidden, gates = self.directions, self.batch, self.hidden, GATES[self.kind]
        x = values["gates"].astype(float)
        x = x.swapaxes(0, 1) if "sequence_first" in self.flags else x
        x = x.reshape(n, self.sequence, d, len(gates), hidden)
        zeros = np.zeros((d, n, hidden))
        h, c = (np.array(values.get(name, zeros), float) for name in ("hidden", "cell"))
        r = values["recurrent"].astype(float).reshape(d, len(gates), hidden, hidden)
        b = values.get("bias", np.zeros(self.rows)).astype(float).reshape(d, len(gates), hidden)
        p = values.get("peepholes", np.zeros(d * 3 * hidden)).astype(float).reshape(d, 3, hidden)
        y = np.zeros((n, self.sequence, d, hidden))
        for i in range(d):
            for k in range(n):
                length = min(max(self.lengths[k], 0), self.sequence) if self.lengths else self.sequence
                steps = range(length)
                if i == 1 or self.direction == "reverse":
                    steps = reversed(steps)
                for t in steps:
                    h[i, k], c[i, k] = self.step(i, x[k, t, i], h[i, k], c[i, k], r[i], b[i], p[i])
                    y[k, t, i] = h[i, k]
        y = y.reshape(n, self.sequence, d * hidden)
        y = y.swapaxes(0, 1) if "sequence_first" in self.flags else y
        return [y, h, c][: 3 if self.kind == "lstm" else 2]

    def step(self, i, x, h, c, r, b, p):
        gates = GATES[self.kind]
        block = {gate: self.order[k] if self.order else k for k, gate in enumerate(gates)}
        names = self.activations or DEFAULTS[self.kind] * self.directions
        each = len(names) // self.directions

        def apply(number: int, value):
            index = i * each + number
            value = (
                value
                if self.clip is None or number == 2
                else np.clip(value, -np.float32(self.clip), np.float32(self.clip))
            )
            alpha, beta = (np.float32(list(of)[index]) if of else 0.0 for of in (self.alphas, self.betas))
            return FUNCTIONS[names[index]](value, float(alpha), float(beta))

        def of_gate(gate: str, state=h):
            return x[block[gate]] + r[block[gate]] @ state + b[block[gate]]

        if self.kind == "rnn":
            return apply(0, of_gate("h")), c
        if self.kind == "gru":
            z, reset = apply(0, of_gate("z")), apply(0, of_gate("r"))
            if "linear_before_reset" in self.flags:
                products = r[block["h"]] @ h + b[block["h"]]
                fresh = apply(1, x[block["h"]] + reset * products)
            else:
                fresh = apply(1, of_gate("h", reset * h))
            return (1 - z) * fresh + z * h, c
        enter = apply(0, of_gate("i") + p[0] * c)
        forget = 1 - enter if "coupled" in self.flags else apply(0, of_gate("f") + p[2] * c)
        cell = forget * c + enter * apply(1, of_gate("c"))
        return apply(0, of_gate("o") + p[1] * cell) * apply(2, cell), cell


def some_activations(kind: str, directions: int) -> dict[str, tuple]:
    """Choose functions of each direction at random, with parameters."""
    count = len(DEFAULTS[kind]) * directions
    numbers = [tuple(round(float(value), 3) for value in RNG.uniform(0.1, 0.9, count)) for _ in range(2)]
    # Those without bounds make states grow without bounds too.
    bounded = ["sigmoid", "tanh", "scaled_tanh", "hard_sigmoid", "softsign"]
    return {"activations": tuple(RNG.choice(bounded, count)), "alphas": numbers[0], "betas": numbers[1]}


#: Each part of the description once or more.
CASES = {
    "lstm": Recurrence("lstm"),
    "lstm_alone": Recurrence("lstm", bias=False, states=False),
    "lstm_torch": Recurrence("lstm", "bidirectional", order=(0, 3, 1, 2), flags=("sequence_first",)),
    "lstm_all": Recurrence(
        "lstm", "bidirectional", 3, 4, 5, clip=0.7, peepholes=True, lengths=(2, 0, 9),
        activations=("hard_sigmoid", "softsign", "scaled_tanh", "sigmoid", "elu", "leaky_relu"),
        alphas=(0.2, 0.0, 1.5, 0.0, 0.8, 0.1), betas=(0.5, 0.0, 0.7, 0.0, 0.0, 0.0),
    ),
    "lstm_coupled": Recurrence("lstm", "reverse", peepholes=True, flags=("coupled",), lengths=(5, -1)),
    "gru": Recurrence("gru"),
    "gru_torch": Recurrence("gru", "bidirectional", order=(1, 0, 2), flags=("linear_before_reset",), lengths=(3, 5)),
    "gru_reverse": Recurrence("gru", "reverse", order=(2, 0, 1), clip=0.5, flags=("sequence_first",), bias=False),
    "gru_functions": Recurrence(
        "gru", batch=1, activations=("affine", "softplus"), alphas=(0.1, 0.0), betas=(0.4, 0.0), clip=1.5
    ),
    "rnn": Recurrence("rnn", "bidirectional", activations=("relu", "thresholded_relu"), alphas=(0.0, 0.3), clip=2.0),
    "rnn_reverse": Recurrence("rnn", "reverse", sequence=1, batch=3, lengths=(1, 1, 0), flags=("sequence_first",)),
    "no_steps": Recurrence("lstm", "bidirectional", sequence=0),
    "no_sequences": Recurrence("gru", "bidirectional", batch=0, flags=("linear_before_reset",)),
}  # fmt: skip
