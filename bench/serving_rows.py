# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measured tables of catalogue/serving as rows that the cost formula predicts.

What is left out was decided before anything was fitted, and nothing else is: 882 rows of apart pools that do not say the
decode batch, and the 55 gb200 rows of one pool without a version, which are whole deployments of two pools.

What is repaired, from how the rows contradict themselves or recur:

- Degrees. 8 x 8 experts at tensor 64 is tensor 8 with 8 experts (the same measurements recur under both spellings), 4 x 4
  at 16 likewise; attention-data 64 and 16 are 8 and 4 with the batch for each rank. vLLM's tensor n, attention-data n,
  experts n x n is tensor n with n experts, the batch again for each of n: its times recur under that spelling with n times
  the batch (minimax-m2.5 on b200, 8 and 16: 13.65 and 13.62 ms; 128 and 256: 38.04 and 38.15 ms). gpt-oss' tensor 4 with 2 x 2 is tensor 2 with 2 experts. vLLM's apart pool of tensor 16 with 16 experts (kimi-k2.5 on gb200) is attention-data 16: a step of 1,024
  sequences takes 1.9 ms longer than one of 256, less than half of the time in which each device of a tensor group would
  read their latent caches.
  SGLang 0.5.5.post2's apart pools name no expert degree and as many tensor parts of an expert as replicas: 32 parts of
  2,048 columns are narrower than the blocks of 128 that FP8 has a scale for, and 4 parts take the times of tensor 4 without
  replicas (9.26 and 11.56 ms for 8 and 16 requests, where 0.5.8 takes 9.13 and 12.02 ms). So 8 and 32 replicas share their
  experts, as in the rows of 0.5.8, and 4 are tensor 4.
- Precision. Where the column is empty the weights are what the kernels' column says, else BF16. The last projection of
  attention of DeepSeek in FP4 is in FP4 (model card of nvidia/DeepSeek-R1-0528-FP4-v2), the others in BF16.
- Cache. BF16 on Hopper, FP8 on Blackwell unless the weights are BF16: no column says, recipes for Blackwell ask for it.
- Batch. A pool that decodes alone holds fewer sequences than it has requests, as the others wait for their prefill: those
  that a sequence decodes with are the others times the share of a request's time after its first token (Little's law).
- Load. Rows of sglang 0.5.1.post1 and 0.5.8.post1 with qwen3-32b are one burst of all requests, not a steady load: first
  tokens wait for all prompts.
- Speculative decoding. Rows of trtllm 1.2.0rc6.post3 verify drafted tokens, which no column says; the acceptance is what
  DeepSeek publishes: 1.8 tokens a step (DeepSeek-V3 technical report, section 5.4.3).
- Builds. vLLM 0.16 and 0.17 are slower a layer than what came before and after.
"""

from __future__ import annotations

import csv
import ctypes
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "catalogue/serving"
DECODE, SHARED, FIRST = 0, 1, 2
DEVICES = {
    "h100_sxm": "nvidia/h100-sxm",
    "h200_sxm": "nvidia/h200-sxm",
    "b200_sxm": "nvidia/b200-sxm",
    "b300_sxm": "nvidia/b300-sxm",
    "gb200": "nvidia/gb200",
    "gb300": "nvidia/gb300",
    "a100-80gb": "nvidia/a100-sxm",
    "h100-80gb": "nvidia/h100-sxm",
    "h100-80gb-pcap": "nvidia/h100-sxm",
}
# Groups that stay on one side of a split, so that a cell is predicted without its relatives. Models of one family do: r1 and v3 are nearly
# the same, with 72 measurements under both names. So are a family and its twin, which is of the same layers with other
# numbers of experts and heads (Kimi K2.5 is of DeepSeek V3's class), and systems with the same processor.
TWIN_FAMILIES = {"kimi-k2.5": "deepseek"}
PROCESSORS = {"gb200": "b200_sxm", "gb300": "b300_sxm"}
FAMILIES = {
    "deepseek-r1": "deepseek",
    "deepseek-v3": "deepseek",
    "llama-3.1-8b": "llama-3.1",
    "llama-3.1-70b": "llama-3.1",
    "qwen3-32b": "qwen3",
    "qwen3-235b-a22b": "qwen3",
}
LOW_CONCURRENCY = 8  # up to which a first token is more than queueing
DRAFT_TOKENS_PER_STEP = 1.8


@dataclass(frozen=True)
class Row:
    """One measurement: the deployment, the load, and the milliseconds."""

    model: str
    system: str
    engine: str
    mode: str  # agg, disagg, splitwise
    weights: str
    cache: str
    tensor: int
    attention_data: int
    expert: int
    kind: int
    batch: float
    input_tokens: float
    output_tokens: float
    milliseconds: float
    one_phase: bool = False
    slow_build: bool = False
    power_capped: bool = False
    burst: bool = False
    tokens_per_step: float = 1.0
    prompts: float = 1.0
    concurrency: float = 1.0
    workers: float = 1.0
    requests: float = 0.0  # of a pool that decodes alone: those that have not ended, decoding or not
    first_ms: float = 0.0  # and how long after its start a request has its first token
    output: str = ""  # format of the last projection of attention; empty: that of the others

    @property
    def operators(self) -> bool:
        """Whether the times of measured operators are used; the engine of Splitwise's tables (2023) had other kernels."""
        return self.mode != "splitwise"

    @property
    def family(self) -> str:
        return FAMILIES.get(self.model, self.model)

    @property
    def kin(self) -> str:
        """The family, or that whose twin it is."""
        return TWIN_FAMILIES.get(self.family, self.family)

    @property
    def processor(self) -> str:
        """The system, or that with the same processor."""
        return PROCESSORS.get(self.of_system, self.of_system)

    @property
    def of_system(self) -> str:
        """The system; the capped H100's token times are the H100's."""
        return self.system.removesuffix("-pcap")

    @property
    def group(self) -> str:
        """The cell of a model family and a system, which is predicted together."""
        return f"{self.family}|{self.of_system}"


def number(text: str, otherwise: float = 1.0) -> float:
    """Give the number, or `otherwise` where the cell is empty or zero."""
    value = float(text) if text else 0.0
    return value if value > 0 else otherwise


def decoding_together(requests: float, first_ms: float, decode_ms: float) -> float:
    """Give the sequences in a step of a pool that decodes alone, of which one is the sequence that is asked about."""
    return 1 + max(0.0, requests - 1) * decode_ms / (first_ms + decode_ms)


def is_left_out(row: dict[str, str]) -> bool:
    if row["mode"] == "disagg":
        return not row["decode_batch_size"]
    return row["system"] == "gb200" and not row["backend_version"]


def repaired_degrees(row: dict[str, str]) -> tuple[int, int, int, int]:
    """Give tensor, attention-data and expert degree of the pool that decodes, and how many ranks have the batch each."""
    prefix = "decode_" if row["mode"] == "disagg" else ""
    tensor = int(number(row[prefix + "tp_size"]))
    data = int(number(row[prefix + "attention_dp_size"]))
    expert_tensor = int(number(row[prefix + "moe_tp_size"]))
    expert = int(number(row[prefix + "moe_ep_size"]))
    ranks = 1
    if row["mode"] == "agg":
        if expert_tensor == expert and expert >= 4:
            if tensor > 1:
                tensor = expert_tensor
            else:
                data = ranks = expert_tensor
        if tensor == data and tensor > 1 and expert == tensor * data:
            data, expert, ranks = 1, tensor, tensor
        if tensor == 4 and row["attention_dp_size"] and data == 1 and expert_tensor == expert == 2:
            tensor = 2
    elif row["backend"] == "vllm" and tensor == expert == 16 and data == 1:
        tensor, data = 1, 16
    elif row["backend"] == "sglang" and tensor == expert == 1 and data == expert_tensor > 1:
        tensor, data, expert = (4, 1, 1) if data == 4 else (1, data, data)
    if expert > tensor * data or tensor * data % expert:
        expert = tensor * data
    return tensor, data, expert, ranks


def serving_rows() -> tuple[list[Row], list[Row]]:
    """Read `measured_serving.csv`: rows of time for each output token, and of time to the first."""
    later: list[Row] = []
    first: list[Row] = []
    with (TABLES / "measured_serving.csv").open(newline="") as table:
        for row in csv.DictReader(table):
            if is_left_out(row):
                continue
            apart = row["mode"] == "disagg"
            tensor, data, expert, ranks = repaired_degrees(row)
            weights = row["precision"] or ("fp8" if row["gemm_quant_mode"].startswith("fp8") else "bf16")
            version = row["backend_version"]
            stated = number(row["decode_attention_dp_size"])  # the batch is that of each rank
            requests = float(row["decode_batch_size"]) * stated if apart else float(row["batch_size"])
            batch, first_ms = requests, float(row["ttft_ms"])
            if apart:
                batch = decoding_together(requests, first_ms, float(row["tpot_ms"]) * float(row["output_tokens"]))
            one = Row(
                model=row["model"],
                system=row["system"],
                engine=row["backend"],
                mode=row["mode"],
                weights=weights,
                cache="bf16" if weights == "bf16" or row["system"].startswith("h") else "fp8",
                tensor=tensor,
                attention_data=data,
                expert=expert,
                kind=DECODE if apart else SHARED,
                batch=batch * ranks,
                input_tokens=float(row["input_tokens"]),
                output_tokens=float(row["output_tokens"]),
                milliseconds=float(row["tpot_ms"]),
                one_phase=apart,
                slow_build=row["backend"] == "vllm" and version in ("0.16.0", "0.17.0"),
                burst=row["model"] == "qwen3-32b" and version in ("0.5.1.post1", "0.5.8.post1"),
                tokens_per_step=DRAFT_TOKENS_PER_STEP if version == "1.2.0rc6.post3" else 1.0,
                requests=requests if apart else 0.0,
                first_ms=first_ms if apart else 0.0,
                output="fp4" if row["model"].startswith("deepseek") and weights == "fp4" else "",
            )
            later.append(one)
            if requests > LOW_CONCURRENCY:
                continue
            if apart:
                tensor, data = int(number(row["prefill_tp_size"])), int(number(row["prefill_attention_dp_size"]))
                expert = int(number(row["prefill_moe_ep_size"]))
                if expert > tensor * data or tensor * data % expert:
                    expert = tensor * data
            workers = number(row["prefill_num_workers"]) if apart else 1.0
            concurrency = requests * number(row["decode_num_workers"]) if apart else requests
            first.append(
                replace(
                    one,
                    kind=FIRST,
                    tensor=tensor,
                    attention_data=data,
                    expert=expert,
                    milliseconds=first_ms,
                    concurrency=concurrency,
                    workers=workers,
                )
            )
    return later, first


def splitwise_rows() -> tuple[list[Row], list[Row]]:
    """Read `splitwise_perf.csv`: rows of token times, and of prompt times, whose prompts are computed together."""
    later: list[Row] = []
    first: list[Row] = []
    with (TABLES / "splitwise_perf.csv").open(newline="") as table:
        for row in csv.DictReader(table):
            one = Row(
                model=row["model"],
                system=row["hardware"],
                engine="splitwise",
                mode="splitwise",
                weights="bf16",
                cache="bf16",
                tensor=int(row["tensor_parallel"]),
                attention_data=1,
                expert=1,
                kind=DECODE,
                batch=float(row["batch_size"]),
                input_tokens=float(row["input_tokens"]),
                output_tokens=float(row["output_tokens"]),
                milliseconds=float(row["token_ms"]),
                power_capped=row["hardware"].endswith("pcap"),
            )
            later.append(one)
            first.append(replace(one, kind=FIRST, prompts=one.batch, milliseconds=float(row["prompt_ms"])))
    return later, first


class _CRow(ctypes.Structure):
    _fields_ = (
        [
            (name, ctypes.c_char_p)
            for name in ("model", "device", "engine", "weights", "attention", "output", "cache", "compute")
        ]
        + [(name, ctypes.c_int32) for name in ("tensor", "attention_data", "expert", "kind", "one_phase")]
        + [(name, ctypes.c_int32) for name in ("slow_build", "power_capped", "burst", "operators")]
        + [
            (name, ctypes.c_double)
            for name in (
                "tokens_per_step",
                "batch",
                "input_tokens",
                "output_tokens",
                "prompts",
                "concurrency",
                "workers",
            )
        ]
    )


class Formula:
    """The compiler's own cost formula (lib/Cost/ServingFit.h)."""

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))
        self.library.itx_serving_figure.restype = ctypes.c_char_p
        self.library.itx_serving_table.restype = ctypes.c_void_p
        self.library.itx_serving_table.argtypes = [
            ctypes.POINTER(_CRow),
            ctypes.c_int64,
            ctypes.c_char_p,
            ctypes.c_int64,
        ]
        self.library.itx_serving_predict.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_void_p,
        ]
        self.library.itx_serving_free.argtypes = [ctypes.c_void_p]
        count = self.library.itx_serving_figures()
        self.names = [self.library.itx_serving_figure(i).decode() for i in range(count)]

    def table(self, rows: list[Row]) -> Table:
        return Table(self, rows)


class _Handle:
    """Rows in the library, which remembers the times of their operators."""

    def __init__(self, formula: Formula, rows: list[Row]) -> None:
        self.library = formula.library
        array = (_CRow * len(rows))()
        for into, row in zip(array, rows, strict=True):
            into.device, into.attention, into.compute = DEVICES[row.system].encode(), b"", b""
            for name in ("model", "engine", "weights", "output", "cache"):
                setattr(into, name, getattr(row, name).encode())
            for name, _ in _CRow._fields_[8:]:
                setattr(into, name, getattr(row, name))
        message = ctypes.create_string_buffer(1000)
        self.value = self.library.itx_serving_table(array, len(rows), message, len(message))
        if not self.value:
            raise ValueError(message.value.decode())

    def __del__(self) -> None:
        if getattr(self, "value", None):
            self.library.itx_serving_free(self.value)


class Table:
    """Rows, ready to be predicted. Subsets share what the library remembers of them."""

    def __init__(
        self, formula: Formula, rows: list[Row], part_of: tuple[_Handle, NDArray[np.int64]] | None = None
    ) -> None:
        self.formula, self.rows = formula, rows
        self.handle, self.which = part_of or (_Handle(formula, rows), np.arange(len(rows), dtype=np.int64))
        self.measured = np.array([row.milliseconds for row in rows])
        self.groups = np.array([row.group for row in rows])
        self.families = np.array([row.kin for row in rows])
        self.systems = np.array([row.processor for row in rows])

    def subset(self, mask: NDArray[np.bool_]) -> Table:
        rows = [row for row, keep in zip(self.rows, mask, strict=True) if keep]
        return Table(self.formula, rows, (self.handle, np.ascontiguousarray(self.which[mask])))

    def predict(self, figures: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Milliseconds of every row, with `figures` in the order of `Formula.names`, or with the program's own."""
        out = np.empty(len(self.rows))
        given = None if figures is None else np.ascontiguousarray(figures, dtype=np.float64).ctypes.data
        self.formula.library.itx_serving_predict(
            self.handle.value, given, self.which.ctypes.data, len(self.which), out.ctypes.data
        )
        return out
