# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Published training runs (catalogue/parallel) as rows of the compiler's formula for parallel configurations.

What a paper does not print is set here, with the reason. Groups are whole papers, tables or model shapes; a third of
them is held out, and no figure is fitted to these.
"""

from __future__ import annotations

import csv
import ctypes
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "catalogue/parallel"
FULL = 2  # Recompute in intarsia/Cost/ParallelCost.h
NONE = 0
RING, ULYSSES = 0, 1
INTERLEAVED = 1

ROW_FIELDS = [
    "layers",
    "hidden",
    "heads",
    "key_heads",
    "head_dim",
    "width",
    "matrices",
    "vocabulary",
    "experts",
    "experts_per_token",
    "expert_width",
    "shared_width",
    "peak_tflops",
    "memory_gb",
    "memory_gbps",
    "link_gbps",
    "network_gbps",
    "node_devices",
    "devices",
    "ring_adapters",
    "tensor",
    "context",
    "expert",
    "expert_tensor",
    "folds_experts",
    "pipeline",
    "chunks",
    "data",
    "zero",
    "sequence_parallel",
    "context_kind",
    "order",
    "sequence",
    "global_batch",
    "micro_batch",
    "recompute",
    "fused_attention",
    "overlaps_data",
    "gradient_bytes",
    "offloads_states",
    "offloads_activations",
    "offloads_weights",
]
TIME_FIELDS = [
    "linear",
    "attention",
    "elementwise",
    "launch",
    "tensor",
    "context",
    "expert",
    "send",
    "data",
    "bubble",
    "optimizer",
    "total",
    "memory_bytes",
    "model_flops",
    "causal_model_flops",
    "parameters",
]

# Shapes as their authors publish them (config.json of mistralai/Mixtral-8x22B-v0.1, Qwen/Qwen2-57B-A14B and
# meta-llama/Meta-Llama-3-70B and -3.1-8B). The fine-grained variant of arXiv 2504.14960, section 7, cuts each expert of
# Mixtral into 8 and chooses 8 of the 64 pieces; Llama3-8x70B has the feed-forward layers of Llama 3 70B 8 times and
# chooses 2.
SHAPES: dict[str, dict[str, float]] = {
    "Mixtral-8x22B": dict(
        layers=56,
        hidden=6144,
        heads=48,
        key_heads=8,
        head_dim=128,
        matrices=3,
        vocabulary=32768,
        experts=8,
        experts_per_token=2,
        expert_width=16384,
    ),
    "Mixtral-8x22B-G8T8": dict(
        layers=56,
        hidden=6144,
        heads=48,
        key_heads=8,
        head_dim=128,
        matrices=3,
        vocabulary=32768,
        experts=64,
        experts_per_token=8,
        expert_width=2048,
    ),
    "Qwen2-57B-A14B": dict(
        layers=28,
        hidden=3584,
        heads=28,
        key_heads=4,
        head_dim=128,
        matrices=3,
        vocabulary=151936,
        experts=64,
        experts_per_token=8,
        expert_width=2560,
        shared_width=20480,
    ),
    "Llama3-8x70B": dict(
        layers=80,
        hidden=8192,
        heads=64,
        key_heads=8,
        head_dim=128,
        matrices=3,
        vocabulary=128256,
        experts=8,
        experts_per_token=2,
        expert_width=28672,
    ),
    "Llama-3.1-8B": dict(
        layers=32, hidden=4096, heads=32, key_heads=8, head_dim=128, matrices=3, vocabulary=128256, width=14336
    ),
}

# Data sheets: NVIDIA A100 80GB SXM and H100 SXM, dense 16 bits. Links in one direction; adapters as each paper says
# (Megatron-LM: 8 of 200 Gb/s a node; vTrain: 800 Gb/s a node; MoE Parallel Folding: 400 Gb/s a GPU; ALST: AWS's p5 has
# 3200 Gb/s a node).
A100 = dict(peak_tflops=312, memory_gb=80, memory_gbps=2039, link_gbps=300, node_devices=8)
H100 = dict(peak_tflops=989.5, memory_gb=80, memory_gbps=3350, link_gbps=450, node_devices=8)
NETWORK_GBPS = {"megatron": 25.0, "vtrain": 12.5, "moefold": 50.0, "alst": 50.0}
# Adapters of a node that the rings of one group use at once. One in 2021: Megatron-LM's Table 2 has ZeRO 3 move 16 to 18 GB/s a
# device, of 25 that an adapter has, on 768 to 2,240 devices alike. All in 2025: Qwen2 on 64 devices with FSDP in MoE Parallel
# Folding moves 62 GB/s a device, more than the 50 of one adapter.
RING_ADAPTERS = {"megatron": 1.0, "vtrain": 1.0, "moefold": 8.0, "alst": 1.0}


class TimeStruct(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in TIME_FIELDS]


class RowStruct(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ROW_FIELDS]


@dataclass
class Row:
    """One measured run. `seconds` is the time of a step, given or derived from the rate that the paper prints."""

    paper: str
    group: str
    table: str  # what configurations are ranked in: a model of a table
    name: str
    values: dict[str, float]
    printed: tuple[str, float]  # "seconds", "tflops" (see rate) or "mfu"
    suspect: bool = False
    seconds: float = field(default=0.0)


def held_out(groups: Sequence[str]) -> set[str]:
    """A third of the groups, by whole groups: drawn as the README of catalogue/parallel says."""
    names = sorted(set(groups))
    random.Random(20261122).shuffle(names)
    return set(names[: math.ceil(len(names) / 3)])


class Formula:
    """The compiler's formula (lib/Cost/ParallelFit.h)."""

    def __init__(self, build: Path) -> None:
        self.library = ctypes.CDLL(str(build / "lib/intarsia-parallel-fit.so"))
        self.library.itx_parallel_figure.restype = ctypes.c_char_p
        self.library.itx_parallel_predict.restype = ctypes.c_int64
        count = self.library.itx_parallel_figures()
        self.names = [self.library.itx_parallel_figure(i).decode() for i in range(count)]

    def predict(
        self, table: ctypes.Array[RowStruct], figures: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Times [rows, TIME_FIELDS] in milliseconds (see TIME_FIELDS for the last ones)."""
        times = np.zeros((len(table), len(TIME_FIELDS)))
        message = ctypes.create_string_buffer(400)
        given = None if figures is None else np.ascontiguousarray(figures, dtype=np.float64)
        done = self.library.itx_parallel_predict(
            table,
            ctypes.c_int64(len(table)),
            None if given is None else given.ctypes.data_as(ctypes.c_void_p),
            times.ctypes.data_as(ctypes.c_void_p),
            message,
            ctypes.c_int64(len(message)),
        )
        if done != len(table):
            raise ValueError(f"row {done}: {message.value.decode()}")
        return times


def struct_of(values: dict[str, float]) -> RowStruct:
    unknown = set(values) - set(ROW_FIELDS)
    if unknown:
        raise ValueError(f"unknown fields {sorted(unknown)}")
    defaults = dict(
        tensor=1,
        context=1,
        expert=1,
        expert_tensor=1,
        pipeline=1,
        chunks=1,
        micro_batch=1,
        overlaps_data=1,
        fused_attention=1,
        gradient_bytes=4,
        ring_adapters=1,
    )
    merged = {name: float((defaults | values).get(name, 0)) for name in ROW_FIELDS}
    return RowStruct(*(merged[name] for name in ROW_FIELDS))


def table_of(rows: Sequence[Row]) -> ctypes.Array[RowStruct]:
    return (RowStruct * len(rows))(*(struct_of(row.values) for row in rows))


def number(row: dict[str, str], key: str, missing: float) -> float:
    return float(row[key]) if row.get(key) else missing


def dense_gpt(row: dict[str, str]) -> dict[str, float]:
    """A GPT of the Megatron papers: heads of hidden / heads features, a feed-forward part of 4 times the hidden size."""
    hidden, heads = float(row["hidden"]), float(row["heads"])
    return dict(
        layers=float(row["layers"]),
        hidden=hidden,
        heads=heads,
        key_heads=heads,
        head_dim=hidden // heads,
        width=4 * hidden,
        matrices=2,
        vocabulary=51200,
    )


def megatron(row: dict[str, str]) -> Row:
    """Megatron-LM (2021) and vTrain, whose runs are of the same program: attention is not fused, collectives of data
    parallelism wait for the end of the step, gradients are in 16 bits, all activations are recomputed."""
    paper = "megatron" if row["group"].startswith("megatron") else "vtrain"
    tensor, pipeline = number(row, "tp", 1), number(row, "pp", 1)
    devices = float(row["n_gpus"])
    chunks = number(row, "vpp", 1)
    values = dense_gpt(row) | A100 | dict(
        network_gbps=NETWORK_GBPS[paper], ring_adapters=RING_ADAPTERS[paper], devices=devices, tensor=tensor, pipeline=pipeline, chunks=chunks,
        order=INTERLEAVED if chunks > 1 else 0, data=devices / tensor / pipeline, sequence=float(row["seq"]),
        global_batch=float(row["global_batch"]), micro_batch=float(row["micro_batch"]), recompute=FULL,
        fused_attention=0, overlaps_data=0, gradient_bytes=2,
    )  # fmt: skip
    if row.get("iteration_ms"):
        printed = ("seconds", float(row["iteration_ms"]) / 1e3)
    elif row["iteration_s"]:
        printed = ("seconds", float(row["iteration_s"]))
    else:
        printed = ("recomputed_tflops", float(row["achieved_tflops_per_gpu"]))
    name = f"tp{tensor:g} pp{pipeline:g} dp{values['data']:g} micro-batch {row['micro_batch']}"
    return Row(paper, row["group"], row["group"], f"{row.get('model', '')} {name}".strip(), values, printed)


def folding(row: dict[str, str]) -> Row | None:
    """MoE Parallel Folding. Not printed: chunks (one layer each, as its programs' recipes for mixtures have them, where
    layers and micro-batches allow it), the micro-batch (1), recomputation (none), which data parallelism shards
    optimizer states in all methods and weights in FSDP."""
    if not row["mfu_percent"] or not row["tp"]:
        return None
    note = row["schedule_notes"]
    shape = SHAPES[row["model"]]
    devices = float(row["n_gpus"])
    if row["suspect"]:  # "n_gpus printed 128, probably 256": a stage of tensor 8 by expert 8 needs no fewer
        devices = 256
    tensor, pipeline, context = number(row, "tp", 1), number(row, "pp", 1), number(row, "cp_sp", 1)
    expert = number(row, "ep", 1)
    folds = "Folding" in note
    is_sharded = note.startswith("FSDP")
    data = devices / tensor / pipeline / context
    micro_batches = float(row["global_batch"]) / data
    chunks = shape["layers"] / pipeline if pipeline > 1 and micro_batches % pipeline == 0 else 1
    values = shape | H100 | dict(
        network_gbps=NETWORK_GBPS["moefold"], ring_adapters=RING_ADAPTERS["moefold"], devices=devices, tensor=tensor, context=context, expert=expert,
        expert_tensor=number(row, "etp", 1) if folds else tensor, folds_experts=float(folds), pipeline=pipeline,
        chunks=chunks, order=INTERLEAVED if chunks > 1 else 0, data=data, zero=3 if is_sharded else 1,
        sequence_parallel=1, context_kind=RING, sequence=float(row["seq"]), global_batch=float(row["global_batch"]),
        micro_batch=1,
    )  # fmt: skip
    method = note.split(";")[0]
    return Row("moefold", row["group"], f"{row['group']} {row['model']}",
               f"{method} tp{tensor:g} pp{pipeline:g} ep{expert:g} cp{context:g} on {devices:g}", values,
               ("mfu", float(row["mfu_percent"])), bool(row["suspect"]))  # fmt: skip


def long_sequences(row: dict[str, str]) -> Row:
    """ALST: ZeRO 3, full recomputation, optimizer in the host's memory; its own features by the notes."""
    note = row["schedule_notes"]
    devices = float(row["n_gpus"])
    context = number(row, "cp_sp", 1)
    values = SHAPES[row["model"]] | H100 | dict(
        network_gbps=NETWORK_GBPS["alst"], ring_adapters=RING_ADAPTERS["alst"], devices=devices, context=context, context_kind=ULYSSES, data=devices / context,
        zero=3 if devices > 1 else 0, sequence=float(row["seq"]), global_batch=devices / context, micro_batch=1,
        recompute=FULL, offloads_states=1, offloads_weights=float(devices == 1),
        offloads_activations=float("offload, no" in note or "ALST" in note or "all features" in note),
    )  # fmt: skip
    return Row("alst", row["group"], row["group"], f"{note.split(';')[0]}, {row['seq']} on {devices:g}", values,
               ("seconds", float(row["iteration_s"])))  # fmt: skip


def measured_seconds(row: Row, time: NDArray[np.float64]) -> float:
    """Seconds of a step by what the paper prints; `time` is any prediction of the row, for the counts of flops."""
    kind, value = row.printed
    flops = time[TIME_FIELDS.index("model_flops")]
    devices = row.values["devices"]
    if kind == "seconds":
        return value
    if kind == "mfu":  # of the peak that the row has; the paper's own count of flops has all scores
        return flops / (devices * value / 100 * row.values["peak_tflops"] * 1e12)
    # Megatron-LM's equation 3: 96 B s l h^2 (1 + s / (6 h) + V / (16 l h)), recomputation included.
    v = row.values
    tokens = v["global_batch"] * v["sequence"]
    counted = 96 * tokens * v["layers"] * v["hidden"] ** 2
    counted *= 1 + v["sequence"] / (6 * v["hidden"]) + v["vocabulary"] / (16 * v["layers"] * v["hidden"])
    return counted / (devices * value * 1e12)


def training_rows(formula: Formula) -> list[Row]:
    """All rows with a time, of catalogue/parallel/training.csv and training_one_node.csv."""
    rows: list[Row | None] = []
    with open(DATA / "training.csv", newline="") as file:
        for raw in csv.DictReader(file):
            group = raw["group"]
            if group.startswith(("megatron", "vtrain")):
                rows.append(megatron(raw))
            elif group.startswith("moefold"):
                rows.append(folding(raw))
            else:
                rows.append(long_sequences(raw))
    with open(DATA / "training_one_node.csv", newline="") as file:
        rows += [megatron(raw) for raw in csv.DictReader(file)]
    kept = [row for row in rows if row]
    for row, time in zip(kept, formula.predict(table_of(kept)), strict=True):
        row.seconds = measured_seconds(row, time)
    return kept
