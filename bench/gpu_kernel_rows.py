# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measured times of GPU kernels as rows of the cost formula, and the formula itself (intarsia-gpu-fit.so).

The tables are those of single operators of ai-dynamo/aiconfigurator (Apache-2.0), one Parquet file an operator. A row is
one shape on one device: the best time of all serving engines, for shapes that every engine which was measured on that
device in that type was measured with. The best of fewer engines is of other kernels, and not comparable.
"""

from __future__ import annotations

import csv
import ctypes
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("linear", "prefill", "decode", "experts")  # in the order of GpuKernelKind
#: Systems of the tables and devices of the catalogue. Intel's B60 is left out: there is no target for it.
DEVICES = {
    "a100_sxm": "nvidia/a100-sxm",
    "h100_sxm": "nvidia/h100-sxm",
    "h200_sxm": "nvidia/h200-sxm",
    "b200_sxm": "nvidia/b200-sxm",
    "b300_sxm": "nvidia/b300-sxm",
    "gb200": "nvidia/gb200",
    "gb300": "nvidia/gb300",
    "l40s": "nvidia/l40s",
    "rtx_pro_6000_server": "nvidia/rtx-pro-6000-server",
}
#: Devices whose figures stand for each other: those of one architecture, and the two of dies that are made for graphics.
FAMILIES = {"ampere": "ampere", "hopper": "hopper", "blackwell": "blackwell", "ada": "graphics"}
FAMILIES["blackwell_graphics"] = "graphics"
FAMILY_OF = {
    "nvidia/a100-sxm": "ampere",
    "nvidia/h100-sxm": "hopper",
    "nvidia/h200-sxm": "hopper",
    "nvidia/b200-sxm": "blackwell",
    "nvidia/b300-sxm": "blackwell",
    "nvidia/gb200": "blackwell",
    "nvidia/gb300": "blackwell",
    "nvidia/l40s": "graphics",
    "nvidia/rtx-pro-6000-server": "graphics",
}
#: Types of linears and experts: name here, and bytes of an element. A four-bit element has a scale of 8 bits for 16.
#: Left out: formats with a scale for each block of 128 × 128, whose kernels take within 10 % of the time of those with one
#: scale, and weights alone in 4 or 8 bits, whose kernels are limited by the engine (README of the tables): figures of these
#: made steps of serving less true (decision 68).
MATMUL_TYPES = {"bfloat16": ("bf16", 2.0), "fp8": ("fp8", 1.0), "nvfp4": ("fp4", 0.5625)}
CACHE_TYPES = {"bfloat16": ("bf16", 2.0), "fp8": ("fp8", 1.0)}
#: Latent attention (DeepSeek-V2, arXiv 2405.04434): elements of a compressed key and value, of its rotary part, and of
#: a key and a value of one head where they are expanded, as prompts have them.
LATENT_RANK, LATENT_ROTARY, LATENT_KEY, LATENT_VALUE = 512, 64, 192, 128
LATENT_TYPES = {"bfloat16": ("latent", 2.0), "fp8": ("latent_fp8", 1.0)}
#: Kernels of experts in 4 bits that TensorRT-LLM has for some models only, where they are up to 1.5 times as fast.
SOME_SHAPES = "moe_torch_flow_min_latency"
#: The kernels of models whose experts have no gate.
TWO_MATRICES = "moe_torch_flow_nongated"


@dataclass(frozen=True)
class Row:
    """One shape on one device; sizes as in GpuKernelShape."""

    device: str
    kind: str
    type: str
    batch: int
    rows: int
    columns: int
    depth: int
    heads: int
    key_heads: int
    window: int
    experts: int
    per_token: int
    weight_bytes: float
    us: float

    @property
    def shape(self) -> tuple[Any, ...]:
        """What is left out together: a weight's shape with all numbers of rows, heads with all lengths."""
        if self.kind in ("prefill", "decode"):
            return self.batch, self.heads, self.key_heads, self.depth
        return self.columns, self.depth, self.experts

    @property
    def cached_depth(self) -> int:
        """Elements that are cached for a token and a head of keys, of latent attention; 0 of other attention."""
        if not self.type.startswith("latent"):
            return 0
        return LATENT_RANK + LATENT_ROTARY if self.kind == "decode" else LATENT_KEY + LATENT_VALUE


def spread(total: int, parts: int) -> bool:
    return total % parts == 0


def read_tables(folder: Path, most: int, seed: int = 0) -> list[Row]:
    """Read at most `most` rows of each kind, type and device, drawn at random."""
    generator = np.random.default_rng(seed)
    rows: list[Row] = []
    for kind in KINDS:
        groups: dict[tuple[str, str], list[Row]] = {}
        for read in TABLES[kind]:
            for row in read(folder, generator, most):
                groups.setdefault((row.device, row.type), []).append(row)
        for _, group in sorted(groups.items()):
            chosen = generator.permutation(len(group))[:most]
            rows += [group[index] for index in sorted(chosen)]
    return rows


def best_of_engines(
    file: Path,
    keys: list[str],
    types: list[str],
    generator: np.random.Generator,
    most: int,
    without: str = "",
    without_models: str = "",
    **only: list[Any],
) -> Iterator[dict[str, Any]]:
    """Return the best time of shapes that all engines of their device and type have, at most `most` of each of these.

    `only` gives the values of columns that rows may have. Rows of the kernel `without` are left out, and all rows of models
    (sizes and number of experts) that the kernel `without_models` was measured with.
    """
    try:
        import pyarrow.compute as compute
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise SystemExit("reading the tables needs pyarrow: pip install pyarrow") from error
    filters = [("system", "in", list(DEVICES)), *[(name, "in", values) for name, values in only.items()]]
    named = ["kernel_source"] if without or without_models else []
    table = parquet.read_table(file, columns=[*keys, "engine", "latency", *named], filters=filters)
    if named:
        sizes = ["hidden_size", "inter_size", "num_experts"]
        apart = table.filter(compute.equal(table["kernel_source"], without_models)).select(sizes)
        table = table.filter(compute.not_equal(table["kernel_source"], without))
        table = table.join(apart.group_by(sizes).aggregate([]), sizes, join_type="left anti")
    if "window_size" in keys:
        column = table.schema.get_field_index("window_size")
        table = table.set_column(column, "window_size", compute.fill_null(table["window_size"], 0.0))
    table = table.group_by([*keys, "engine"]).aggregate([("latency", "min")])
    table = table.group_by(keys).aggregate([("latency_min", "min"), ("latency_min", "count")])
    # A group of rows is a device and a type.
    names = np.array(
        ["|".join(map(str, values)) for values in zip(*(table[name].to_pylist() for name in types), strict=True)]
    )
    counts = table["latency_min_count"].to_numpy()
    for name in np.unique(names):
        group = np.flatnonzero(names == name)
        group = group[counts[group] == counts[group].max()]
        chosen = np.sort(generator.permutation(group)[:most])
        yield from table.take(chosen).to_pylist()


def linears(folder: Path, generator: np.random.Generator, most: int) -> Iterator[Row]:
    keys = ["system", "gemm_dtype", "m", "n", "k"]
    for row in best_of_engines(folder / "gemm.parquet", keys, keys[:2], generator, most, gemm_dtype=list(MATMUL_TYPES)):
        if row["gemm_dtype"] in MATMUL_TYPES:
            name, size = MATMUL_TYPES[row["gemm_dtype"]]
            yield Row(
                DEVICES[row["system"]], "linear", name, 1, row["m"], row["n"], row["k"], 1, 1, 0, 1, 1, size,
                round(row["latency_min_min"] * 1e3, 3),
            )  # fmt: skip


def prefill(folder: Path, generator: np.random.Generator, most: int) -> Iterator[Row]:
    keys = ["system", "attn_dtype", "kv_cache_dtype", "batch_size", "isl", "num_heads", "num_key_value_heads"]
    keys += ["head_dim", "window_size"]
    for row in best_of_engines(
        folder / "attention_context.parquet", keys, keys[:3], generator, most, attn_dtype=["bfloat16"]
    ):
        if row["attn_dtype"] == "bfloat16":
            name, size = CACHE_TYPES[row["kv_cache_dtype"]]
            yield Row(
                DEVICES[row["system"]], "prefill", name, row["batch_size"], row["isl"], row["isl"], row["head_dim"],
                row["num_heads"], row["num_key_value_heads"], int(row["window_size"]), 1, 1, size,
                round(row["latency_min_min"] * 1e3, 3),
            )  # fmt: skip


def decode(folder: Path, generator: np.random.Generator, most: int) -> Iterator[Row]:
    keys = ["system", "kv_cache_dtype", "batch_size", "step", "num_heads", "num_key_value_heads", "head_dim"]
    keys += ["window_size"]
    for row in best_of_engines(folder / "attention_generation.parquet", keys, keys[:2], generator, most):
        name, size = CACHE_TYPES[row["kv_cache_dtype"]]
        yield Row(
            DEVICES[row["system"]], "decode", name, row["batch_size"], 1, row["step"], row["head_dim"],
            row["num_heads"], row["num_key_value_heads"], int(row["window_size"]), 1, 1, size,
            round(row["latency_min_min"] * 1e3, 3),
        )  # fmt: skip


def latent_prefill(folder: Path, generator: np.random.Generator, most: int) -> Iterator[Row]:
    keys = ["system", "kv_cache_dtype", "batch_size", "isl", "num_heads"]
    for row in best_of_engines(folder / "mla_context.parquet", keys, keys[:2], generator, most):
        name, size = LATENT_TYPES[row["kv_cache_dtype"]]
        yield Row(
            DEVICES[row["system"]], "prefill", name, row["batch_size"], row["isl"], row["isl"],
            (LATENT_KEY + LATENT_VALUE) // 2, row["num_heads"], row["num_heads"], 0, 1, 1, size,
            round(row["latency_min_min"] * 1e3, 3),
        )  # fmt: skip


def latent_decode(folder: Path, generator: np.random.Generator, most: int) -> Iterator[Row]:
    """Read decoding on the compressed cache itself, whose values are part of the keys."""
    keys = ["system", "kv_cache_dtype", "batch_size", "step", "num_heads"]
    for row in best_of_engines(folder / "mla_generation.parquet", keys, keys[:2], generator, most):
        name, size = LATENT_TYPES[row["kv_cache_dtype"]]
        yield Row(
            DEVICES[row["system"]], "decode", name, row["batch_size"], 1, row["step"] + 1,
            LATENT_RANK + LATENT_ROTARY // 2, row["num_heads"], 1, 0, 1, 1, size,
            round(row["latency_min_min"] * 1e3, 3),
        )  # fmt: skip


def experts(folder: Path, generator: np.random.Generator, most: int) -> Iterator[Row]:
    """Read experts with an even routing that all lie on the device, by the kernels that an engine has for every shape.

    Left out, as their times are those of other work: shares of experts on several devices (the kernel also passes over the
    tokens of the others; without these rows errors on shapes that the fit has not seen are half as large), and models
    whose experts have two matrices instead of three.
    """
    keys = ["system", "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size"]
    chosen = {"moe_dtype": list(MATMUL_TYPES), "distribution": ["balanced"], "moe_ep_size": [1]}
    for row in best_of_engines(
        folder / "moe.parquet",
        keys,
        keys[:2],
        generator,
        most,
        without=SOME_SHAPES,
        without_models=TWO_MATRICES,
        **chosen,
    ):
        tensor = row["moe_tp_size"]
        if not spread(row["inter_size"], tensor):
            continue
        name, size = MATMUL_TYPES[row["moe_dtype"]]
        yield Row(
            DEVICES[row["system"]], "experts", name, 1, row["num_tokens"] * row["topk"], row["inter_size"] // tensor,
            row["hidden_size"], 1, 1, 0, row["num_experts"], 1, size, round(row["latency_min_min"] * 1e3, 3),
        )  # fmt: skip


TABLES = {
    "linear": (linears,),
    "prefill": (prefill, latent_prefill),
    "decode": (decode, latent_decode),
    "experts": (experts,),
}


def write_extract(path: Path, rows: list[Row], head: str) -> None:
    with path.open("w", newline="") as file:
        file.write(head)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows(astuple(row) for row in rows)


def read_extract(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        lines = [line for line in file if not line.startswith("#")]
    kinds = {"str": str, "int": int, "float": float}
    return [
        Row(**{field.name: kinds[str(field.type)](row[field.name]) for field in fields(Row)})
        for row in csv.DictReader(lines)
    ]


class _Row(ctypes.Structure):
    """itx_gpu_row of lib/Cost/GpuFit.h."""

    _fields_ = [
        *[(name, ctypes.c_char_p) for name in ("device", "peak", "type")],
        *[(name, ctypes.c_int32) for name in ("kind", "causal")],
        *[
            (name, ctypes.c_double)
            for name in (
                "batch", "rows", "columns", "depth", "heads", "key_heads", "window", "experts", "per_token",
                "input_bytes", "weight_bytes", "output_bytes", "warm_weights", "cached_depth",
            )
        ],
    ]  # fmt: skip


class Formula:
    """The compiler's formula."""

    def __init__(self, library: Path) -> None:
        c = ctypes.CDLL(str(library))
        c.itx_gpu_figure.restype = ctypes.c_char_p
        c.itx_gpu_table.restype = ctypes.c_void_p
        c.itx_gpu_table.argtypes = [ctypes.POINTER(_Row), ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64]
        doubles, integers = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int64)
        c.itx_gpu_predict.argtypes = [ctypes.c_void_p, integers, ctypes.c_int64, doubles, doubles]
        c.itx_gpu_roofline.argtypes = [ctypes.c_void_p, doubles]
        c.itx_gpu_free.argtypes = [ctypes.c_void_p]
        self.c = c
        self.names = [c.itx_gpu_figure(index).decode() for index in range(c.itx_gpu_figures())]


def pointer(array: NDArray[Any], kind: Any) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(kind))


class Table:
    """Rows that the formula has read."""

    def __init__(self, formula: Formula, rows: list[Row]) -> None:
        self.formula, self.rows = formula, rows
        self.measured = np.array([row.us for row in rows])
        self.device = np.array([row.device for row in rows])
        self.family = np.array([FAMILY_OF[row.device] for row in rows])
        self.kind = np.array([row.kind for row in rows])
        self.type = np.array([row.type for row in rows])
        read = (_Row * len(rows))(*[self.asked(row) for row in rows])
        message = ctypes.create_string_buffer(1000)
        self.handle = formula.c.itx_gpu_table(read, len(rows), message, len(message))
        if not self.handle:
            raise RuntimeError(message.value.decode())

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.formula.c.itx_gpu_free(self.handle)

    @staticmethod
    def asked(row: Row) -> _Row:
        attention = row.kind in ("prefill", "decode")
        peak = "bf16" if attention else row.type
        inputs = 2.0 if attention else row.weight_bytes
        return _Row(
            row.device.encode(), peak.encode(), row.type.encode(), KINDS.index(row.kind), 1, row.batch, row.rows,
            row.columns, row.depth, row.heads, row.key_heads, row.window, row.experts, row.per_token, inputs,
            row.weight_bytes, 2.0, 1.0, row.cached_depth,
        )  # fmt: skip

    def predict(self, rows: NDArray[np.int64], figures: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return microseconds of rows by index; without figures, those of the program."""
        rows = np.ascontiguousarray(rows, np.int64)
        result = np.empty(len(rows))
        given = None if figures is None else pointer(np.ascontiguousarray(figures, np.float64), ctypes.c_double)
        self.formula.c.itx_gpu_predict(
            self.handle, pointer(rows, ctypes.c_int64), len(rows), given, pointer(result, ctypes.c_double)
        )
        return result

    def roofline(self) -> NDArray[np.float64]:
        result = np.empty(len(self.rows))
        self.formula.c.itx_gpu_roofline(self.handle, pointer(result, ctypes.c_double))
        return result
