# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Published token times on few weak devices (catalogue/parallel/fleets.csv) as rows of the compiler's formula.

Which rows can be predicted: those of llama.cpp, prima.cpp and TPI-LLM without its memory scheduler. Not described well
enough: exo and dllama (other kernels on other devices), TPI-LLM with the memory scheduler (it reads a disk whose rate the
paper does not print), and its four laptops (an appendix that the text lacks).
"""

from __future__ import annotations

import csv
import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from parallel_rows import DATA, Formula

GIB = 2.0**30
# Bits of a weight: Q4_K_M and Q8_0 by the tables of llama.cpp's tools/quantize/README.md.
BITS = {"GGUF 4-bit class (table does not say which)": 4.85, "INT4": 4.85, "INT8": 8.5, "FP32": 32.0}

Device = tuple[float, float, float, float, float]  # accelerator GB/s, bytes; host GB/s, bytes; disk GB/s
# PRIMA.CPP's four devices: memory and disks by the paper, bandwidths by data sheets (Apple M1 68.25; GeForce RTX 3070
# 448, RTX 2080 Ti 616; two channels of DDR4-3200 51.2; Kirin 9000 with LPDDR5 44). A tenth of a GPU's memory is taken by
# caches and the driver.
M1: Device = (0, 0, 68.25, 2.4 * GIB, 0.72)
D2: Device = (448, 0.9 * 8 * GIB, 51.2, 4.1 * GIB, 2.98)
D3: Device = (616, 0.9 * 11 * GIB, 51.2, 9.7 * GIB, 3.17)
D4: Device = (0, 0, 44, 1.9 * GIB, 1.37)
# TPI-LLM's emulated devices of 8 GB share two Xeon Gold 5220R: 6 channels of DDR4-2666 each, 256 GB/s for 8 of them.
SHARE: Device = (0, 0, 32, 8e9, 0)
LINK_US, LINK_GBPS = 4000.0, 0.0375  # four links of 1 ms to the device in the middle, 300 Mb/s

# Layers by the models' published config.json; Llama 3 of 14, 45 and 60 billion are the authors' own, layers in between.
LAYERS = {"3": 26, "7": 32, "8": 32, "13": 40, "14": 48, "30": 60, "32": 64, "34": 60, "45": 64, "60": 72, "65": 80,
          "70": 80, "72": 80}  # fmt: skip
HIDDEN = {"3": 3200, "7": 4096, "8": 4096, "13": 5120}


class DeviceStruct(ctypes.Structure):
    _fields_ = [
        (n, ctypes.c_double) for n in ["accelerator_gbps", "accelerator_bytes", "host_gbps", "host_bytes", "disk_gbps"]
    ]


class ModelStruct(ctypes.Structure):
    _fields_ = [(n, ctypes.c_double) for n in ["layers", "layer_bytes", "hidden", "activation_bytes"]]


@dataclass
class FleetRow:
    """One measured token time."""

    group: str
    name: str
    devices: list[Device]
    model: tuple[float, float, float]  # layers, bytes of one, hidden
    layers: list[int] | None  # the paper's own; None: placed by the programme
    tensor: bool
    milliseconds: float


class FleetFormula:
    """The compiler's formula (lib/Cost/ParallelFit.h)."""

    def __init__(self, formula: Formula) -> None:
        self.library = formula.library
        self.library.itx_fleet_token.restype = ctypes.c_double
        self.library.itx_fleet_tensor_token.restype = ctypes.c_double
        self.library.itx_fleet_figure.restype = ctypes.c_char_p
        self.names = [self.library.itx_fleet_figure(i).decode() for i in range(self.library.itx_fleet_figures())]

    def _given(self, row: FleetRow, figures: NDArray[np.float64] | None):
        devices = (DeviceStruct * len(row.devices))(*(DeviceStruct(*device) for device in row.devices))
        model = ModelStruct(row.model[0], row.model[1], row.model[2], 4)
        given = None if figures is None else (ctypes.c_double * len(figures))(*figures)
        return devices, ctypes.c_int64(len(row.devices)), ctypes.byref(model), given

    def predict(self, row: FleetRow, figures: NDArray[np.float64] | None = None) -> float:
        """Milliseconds of a token by the paper's placement, or by ours where it prints none."""
        devices, count, model, given = self._given(row, figures)
        if row.tensor:
            link = (ctypes.c_double(LINK_US), ctypes.c_double(LINK_GBPS))
            return self.library.itx_fleet_tensor_token(devices, count, model, *link, given)
        layers = None if row.layers is None else (ctypes.c_int32 * len(row.layers))(*row.layers)
        return self.library.itx_fleet_token(devices, count, model, layers, None, given)

    def place(self, row: FleetRow, figures: NDArray[np.float64] | None = None) -> tuple[float, list[int]]:
        """Milliseconds and layers of our placement."""
        devices, count, model, given = self._given(row, figures)
        placed = (ctypes.c_int32 * len(row.devices))()
        return self.library.itx_fleet_token(devices, count, model, None, placed, given), list(placed)


def billions_of(model: str) -> str:
    found = re.search(r"(\d+)B", model)
    if not found:
        raise ValueError(f"{model}: no size in the name")
    return found.group(1)


def row_of(raw: dict[str, str]) -> FleetRow | None:
    if not raw["token_latency_ms"]:
        return None
    size = billions_of(raw["model"])
    layers = LAYERS[size] if not raw["model"].startswith(("Qwen-2.5-7B", "DeepSeek-R1-Distill-Qwen-7B")) else 28
    model = (layers, float(size) * 1e9 * BITS[raw["quantization"]] / 8 / layers, HIDDEN.get(size, 8192))
    name = f"{raw['model']} {raw['quantization'].split(' (')[0]}, {raw['system']}, {raw['source']}"
    own: list[int] | None = None
    devices: list[Device]
    tensor = False
    if raw["group"] == "prima" and raw["system"] == "llama.cpp":
        devices, own = [M1, D2, D3, D4], [0, 0, layers, 0]  # on the desktop, which is the fastest
    elif raw["group"] == "prima" and raw["system"] == "prima.cpp":
        devices = [M1, D2, D3, D4]
        if "w/o device selection" in raw["source"]:  # each device has a layer or more; printed once: 1:1:29:1
            own = [1, 1, layers - 3, 1]
    elif raw["system"] == "llama.cpp":
        devices, own = [M1], [layers]
    elif "scheduler off" in raw["system"]:
        devices, tensor = [SHARE] * 8, True
    else:
        return None
    return FleetRow(raw["group"], name, devices, model, own, tensor, float(raw["token_latency_ms"]))


def fleet_rows() -> list[FleetRow]:
    with open(DATA / "fleets.csv", newline="") as file:
        return [row for raw in csv.DictReader(file) if (row := row_of(raw))]


def errors_of(formula: FleetFormula, rows: Sequence[FleetRow], figures: NDArray[np.float64] | None = None):
    return np.array([abs(formula.predict(row, figures) / row.milliseconds - 1) for row in rows])
