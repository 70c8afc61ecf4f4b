# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small language models whose matrices are quantized as other tools store them, written and dequantized with NumPy."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import intarsia
import ml_dtypes
import numpy as np

Tensors = dict[str, np.ndarray]
# (module, random values [rows, columns]) → its tensors, and its matrix in float32; None: it stays as it is.
Quantize = Callable[[str, np.ndarray], tuple[Tensors, np.ndarray] | None]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
# safetensors.numpy knows no floats of 8 bits.
DTYPES = {
    "F64": np.dtype("f8"), "F32": np.dtype("f4"), "F16": np.dtype("f2"), "BF16": BFLOAT16, "F8_E4M3": E4M3,
    "I64": np.dtype("i8"), "I32": np.dtype("i4"), "I8": np.dtype("i1"), "U8": np.dtype("u1"),
}  # fmt: skip


def load_tensors(path: Path) -> Tensors:
    """Read a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        flat = np.frombuffer(data[8 + length + first : 8 + length + last], DTYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def save_tensors(tensors: Tensors, path: Path) -> None:
    """Write a safetensors file."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    header, data = {}, b""
    for name, value in tensors.items():
        raw = np.ascontiguousarray(value).tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": names[value.dtype], "shape": list(value.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


HIDDEN, INTERMEDIATE, VOCABULARY = 128, 256, 99
SETTINGS = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 32, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
}  # fmt: skip
LAYER = "model.layers.0."
MATRICES = {
    LAYER + "self_attn.q_proj": (HIDDEN, HIDDEN), LAYER + "self_attn.k_proj": (64, HIDDEN),
    LAYER + "self_attn.v_proj": (64, HIDDEN), LAYER + "self_attn.o_proj": (HIDDEN, HIDDEN),
    LAYER + "mlp.gate_proj": (INTERMEDIATE, HIDDEN), LAYER + "mlp.up_proj": (INTERMEDIATE, HIDDEN),
    LAYER + "mlp.down_proj": (HIDDEN, INTERMEDIATE),
}  # fmt: skip


def write_checkpoint(
    folder: Path, config: dict[str, object], quantize: Quantize, dtype: np.dtype | type = np.float16, **settings: object
) -> dict[str, np.ndarray]:
    """Write a model of one layer, and give the matrices that its quantized ones mean."""
    rng = np.random.default_rng(3)
    norms = ["model.norm", LAYER + "input_layernorm", LAYER + "post_attention_layernorm"]
    tensors: Tensors = {f"{name}.weight": (1 + 0.2 * rng.standard_normal(HIDDEN)).astype(dtype) for name in norms}
    dequantized: dict[str, np.ndarray] = {}
    for name, shape in MATRICES.items():
        values = (rng.standard_normal(shape) / shape[1] ** 0.5).astype(np.float32)
        parts = quantize(name, values)
        if parts is None:
            tensors[name + ".weight"] = values.astype(dtype)
            continue
        tensors |= {f"{name}.{part}": value for part, value in parts[0].items()}
        dequantized[name] = parts[1]
    for name in ("model.embed_tokens", "lm_head"):
        tensors[f"{name}.weight"] = rng.standard_normal((VOCABULARY, HIDDEN)).astype(dtype)
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(tensors, folder / "model.safetensors")
    settings = SETTINGS | {"quantization_config": config} | settings
    (folder / "config.json").write_text(json.dumps(settings))
    return dequantized


def write_dequantized(folder: Path, checkpoint: Path, dequantized: dict[str, np.ndarray], tensors: Tensors) -> None:
    """Write the model of a checkpoint with its matrices in float32."""
    plain = {
        name: value.astype(np.float32)
        for name, value in tensors.items()
        if name.endswith(".weight") and name.removesuffix(".weight") not in dequantized
    }
    plain |= {name + ".weight": value for name, value in dequantized.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(plain, folder / "model.safetensors")
    config = json.loads((checkpoint / "config.json").read_text())
    config.pop("quantization_config")
    config.pop("dtype", None)
    (folder / "config.json").write_text(json.dumps(config))


class Matrices(NamedTuple):
    """Matrices in float32, and what the import says of them."""

    values: dict[str, np.ndarray]
    remarks: str


def read_matrices(tools, checkpoint: Path, work: Path, target: str = "cpu") -> Matrices:
    """Give the quantized matrices of a checkpoint as kernels read them where they are packed.

    The nn.dequantize of each is taken out of the imported model with what it is made of, and its rows are looked up as those of a table.
    """
    imported = tools.run("intarsia-compile", checkpoint, "--stop-after=import")
    module = imported.stdout
    ops = r"(?:nn\.weight|nn\.dequantize|tensor\.collapse_shape|tensor\.expand_shape)"
    lines = dict(re.findall(rf"^ *(%\w+) = ({ops} .*?)(?: loc\(.*\))?$", module, re.M))
    matrices = {value: op for value, op in lines.items() if op.startswith("nn.dequantize")}
    used = {operand for op in matrices.values() for operand in re.findall(r"%\w+", op)}

    def made_of(value: str) -> dict[str, None]:
        """Values that one is made of, operands before their users, and the value itself."""
        operands = (found for operand in re.findall(r"%\w+", lines[value]) for found in made_of(operand))
        return dict.fromkeys([*operands, value])

    text, names = "\n".join(re.findall(r"^ *(nn\.archive .*?)(?: loc\(.*\))?$", module, re.M)), []
    for value, op in matrices.items():
        if value in used:  # the scales of another
            continue
        parts = list(made_of(value))
        rows, columns = map(int, re.search(r"-> tensor<(\d+)x(\d+)xf32>", op).groups())
        names.append((re.search(r'\["(.*)\.\w+"\]', lines[parts[0]])[1], rows))
        weights = "\n".join(f"{part} = {lines[part]}" for part in parts)
        text += f"""
        func.func @matrix{len(names)}(%ids: tensor<?xi64> {{nn.name = "ids", nn.sizes = ["rows"]}})
            -> (tensor<?x{columns}xf32> {{nn.name = "rows"}}) {{
          {weights}
          %rows = nn.embedding {value}, %ids
            : (tensor<{rows}x{columns}xf32>, tensor<?xi64>) -> tensor<?x{columns}xf32>
          return %rows : tensor<?x{columns}xf32>
        }}"""
    path = checkpoint / "matrices.mlir"
    path.write_text(text)
    work.mkdir(parents=True, exist_ok=True)
    tools.compile(path, "-o", work / "matrices.itx", f"--target={target}")
    path.unlink()
    compiled = intarsia.load(work / "matrices.itx")
    values = {
        name: np.array(getattr(compiled, f"matrix{number}")(ids=np.arange(rows)))
        for number, (name, rows) in enumerate(names, start=1)
    }
    return Matrices(values, imported.stderr)


# -- Words -------------------------------------------------------------------------------------------------------------


def pack_words(values: np.ndarray, bits: int) -> np.ndarray:
    """Pack unsigned integers along the last dimension into int32, the first in the lowest bits."""
    words = values.astype(np.uint32).reshape(*values.shape[:-1], -1, 32 // bits)
    shifted = words << np.arange(0, 32, bits, dtype=np.uint32)
    return np.bitwise_or.reduce(shifted, axis=-1).view(np.int32)


def interleave(values: np.ndarray) -> np.ndarray:
    """Order eight neighbours as AWQ does."""
    return values.reshape(*values.shape[:-1], -1, 8)[..., [0, 2, 4, 6, 1, 3, 5, 7]].reshape(values.shape)


def draw(
    rng: np.random.Generator, shape: tuple[int, int], bits: int, group: int, dtype: np.dtype | type
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw unsigned integers [rows, columns], zero points and scales [rows, groups] of values about as large as weights
    are."""
    rows, columns = shape
    groups = -(-columns // group) if group else 1
    integers = rng.integers(0, 2**bits, shape)
    zeros = rng.integers(1, 2**bits, (rows, groups))
    scales = (rng.uniform(0.5, 1.5, (rows, groups)) / 2**bits / columns**0.5 * 6).astype(dtype)
    return integers, zeros, scales


def dequantize(
    integers: np.ndarray, zeros: np.ndarray | int, scales: np.ndarray, index: np.ndarray | None = None
) -> np.ndarray:
    """Dequantize in float32; `index` is the group of each column."""
    columns = integers.shape[1]
    if index is None:
        index = np.arange(columns) // (columns // scales.shape[1])
    zeros = np.broadcast_to(zeros, scales.shape)
    return scales.astype(np.float32)[:, index] * (integers - zeros[:, index]).astype(np.float32)
