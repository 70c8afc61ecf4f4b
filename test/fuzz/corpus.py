#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the seeds of the fuzz targets: small valid files, and some that are nearly valid. Tools of a build write some."""

import importlib.util
import json
import pathlib
import struct
import subprocess
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parent / "corpus"
MODEL = b"""
nn.archive @weights {file = "model.safetensors"}
func.func @main(%ids: tensor<?xi64> {nn.name = "ids", nn.range = array<i64: 0, 9>, nn.sizes = ["n"]})
    -> (tensor<?x4xf32> {nn.name = "y"}) {
  %table = nn.weight @weights["table"] : tensor<9x8xf32>
  %w = nn.weight @weights["w"] : tensor<4x8xf32>
  %x = nn.embedding %table, %ids : (tensor<9x8xf32>, tensor<?xi64>) -> tensor<?x8xf32>
  %s = nn.silu %x : tensor<?x8xf32>
  %y = nn.linear %s, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
"""
FUNCTIONS = b"""
func.func private @declared(tensor<2xf32>) -> tensor<2xf32>
func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = arith.addf %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  %0 = func.call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = func.call @declared(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = tensor.concat dim(0) %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
module @inner {
  func.func private @declared(tensor<2xf32>) -> tensor<2xf32>
}
"""
PAGE = 65536

MANIFEST = {
    "format": 1,
    "producer": "seed",
    "flags": [],
    "target": {"triple": "t", "variants": [{"name": "v", "cpu": "c", "features": ["avx2"]}]},
    "kernels": ["k"],
    "labels": ["l"],
    "weights": {"file": "m.safetensors", "bytes": 9, "header_hash": "00", "hash": "00", "tensors": ["w"]},
    "functions": [
        {
            "name": "main",
            "sizes": [{"name": "n"}, {"name": "s", "maximum": 512}],
            "checks": [{"relation": "at_most", "left": "n", "right": "s", "why": "'tensor.extract_slice' needs it"}],
            "inputs": [
                {"name": "x", "dtype": "i64", "shape": ["n", "s"], "range": [0, 9]},
                {"name": "y", "dtype": "f32", "shape": ["n", 4], "default": 1},
            ],
            "outputs": [{"name": "z", "dtype": "bf16", "shape": ["n", 4]}],
            "metadata": {"labels": ["a"]},
        }
    ],
}


def safetensors(header: dict, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(keys: dict[str, bytes], tensors: dict[str, tuple[tuple[int, ...], int, int]], data: bytes) -> bytes:
    """Write values with their types before them, tensors as (dimensions, type, offset)."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, value in keys.items():
        out += text(key) + value
    for name, (dims, kind, offset) in tensors.items():
        out += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
    return out + bytes(-len(out) % 32) + data


def npy(header: str, data: bytes, major: int = 1) -> bytes:
    length = struct.pack("<H" if major == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([major, 0]) + length + header.encode() + data


def sequence(tokens: int, page: int, states: list[tuple[int, bool, int]]) -> bytes:
    """A saved sequence of zeros; states are (type, whether it is paged, bytes of a unit). Its hash field is zero."""
    data = b"".join(struct.pack("<IIQ", dtype, paged, unit) for dtype, paged, unit in states) + bytes(8 * tokens)
    for _, paged, unit in states:
        data += bytes(-(80 + len(data)) % 64 + (-(-tokens // page) if paged else 1) * unit)
    head = b"ITXSEQ\0\1" + struct.pack("<II32x4Q", 1, len(states), 0, tokens, page, 80 + len(data))
    return head + data


def elf(machine: int, manifest: bytes, weights: bytes = b"") -> bytes:
    """An ELF file with nothing but .itx.header and .itx.manifest; its hash field is zero."""
    names = b"\0.itx.header\0.itx.manifest\0.shstrtab\0"
    header_at, manifest_at = 64, 128
    names_at = manifest_at + len(manifest)
    table_at = (names_at + len(names) + 7) // 8 * 8
    size = table_at + 4 * 64
    weights_at = (size + PAGE - 1) // PAGE * PAGE if weights else 0
    section = struct.Struct("<IIQQQQIIQQ")
    table = bytes(64)
    for name, offset, length in ((1, header_at, 64), (13, manifest_at, len(manifest)), (27, names_at, len(names))):
        table += section.pack(name, 1, 0, 0, offset, length, 0, 0, 1, 0)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, table_at, 0, 64, 56, 0, 64, 4, 3)
    itx = b"ITXMOD\0\1" + struct.pack("<IIQ16sQQQ", 1, 0, size, bytes(16), weights_at, len(weights), 0)
    body = (head + itx + manifest + names).ljust(table_at, b"\0") + table
    return body.ljust(weights_at, b"\0") + weights if weights else body


def zstd(data: bytes) -> bytes:
    """Write data of less than 256 bytes as zstd does what it cannot compress: one block, no checksum."""
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(data)]) + struct.pack("<I", len(data) << 3 | 1)[:3] + data


def gpu_object(pieces: dict[str, bytes]) -> bytes:
    """Write an object of a GPU with a kernel of two launches; pieces of code are by kind."""
    packed = [zstd(data) for data in pieces.values()]
    code = [
        {"kind": kind, "architecture": "sm_80", "bytes": len(data), "packed_bytes": len(frame)}
        for (kind, data), frame in zip(pieces.items(), packed, strict=True)
    ]
    launch = {"function": "f", "grid": ["s0 64 ceildiv", "s1", "1"], "block": [32, 4, 1], "shared": "s1 4 * 9 +"}
    box = {"box_rows": 128, "box_columns": 64, "swizzle_bytes": 128}
    launch["tensor_maps"] = [{"buffer": 1, "element_bytes": 2, "rows": "s0", "columns": "768"} | box]
    kernel = {"index": 3, "buffers": 2, "sizes": 2, "scratch": "s0 8 *", "launches": [launch, launch]}
    facts = {"name": "f", "registers": 96, "spilled_bytes": 0}
    description = {"format": 1, "architecture": "sm_80", "code": code, "kernels": [kernel], "functions": [facts]}
    header, data = json.dumps(description).encode(), b"".join(packed)
    return b"ITXGPU\0\1" + struct.pack("<QQ", len(header), len(data)) + header + data


def tokenizer(model: dict, **parts: object) -> bytes:
    """Write a tokenizer.json with the token 0 for what is unknown."""
    special = {"id": 0, "content": "<unk>", "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special | flags]}
    whole |= {"normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    return json.dumps(whole | parts | {"model": model}).encode()


def write_tokenizers() -> None:
    tokens = ["<unk>", *"Anocei rk", "an", "oc"]
    vocab = {token: number for number, token in enumerate(tokens)}
    template = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}"
    bpe = {"type": "BPE", "unk_token": "<unk>", "vocab": vocab, "merges": [["a", "n"], ["o", "c"]]}
    bpe["vocab"] |= {"a": len(vocab)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    split = {"type": "Split", "pattern": {"Regex": "\\s+|\\p{L}+"}, "behavior": "Isolated", "invert": False}
    write("tokenizer/bpe", "tokenizer.json", tokenizer(bpe, pre_tokenizer=byte_level, decoder=byte_level))
    config = {"bos_token": {"content": "<s>"}, "tokenizer_class": "GPT2Tokenizer", "chat_template": template}
    config |= {"added_tokens_decoder": {"10": {"content": "<s>", "lstrip": True}}, "split_special_tokens": False}
    write("tokenizer/bpe", "tokenizer_config.json", json.dumps(config).encode())
    pieces = {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "vocab": vocab}
    pieces["max_input_chars_per_word"] = 100
    lower = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True}
    write("tokenizer/wordpiece", "tokenizer.json", tokenizer(pieces, normalizer=lower, pre_tokenizer=split))
    write("tokenizer/wordpiece", "special_tokens_map.json", b'{"bos_token": "<s>", "eos_token": "</s>"}')
    write("tokenizer/wordpiece", "added_tokens.json", b'{"</s>": 12, "<x>": 11}')
    write("tokenizer/wordpiece", "chat_template.jinja", template.encode())
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": [[token, -float(i)] for i, token in enumerate(tokens)]}
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    write("tokenizer/unigram", "tokenizer.json", tokenizer(unigram, pre_tokenizer=space, decoder=space))
    named = [{"name": "default", "template": template}, {"name": "tool_use", "template": "{{ tools }}"}]
    write("tokenizer/unigram", "tokenizer_config.json", json.dumps({"chat_template": named}).encode())
    gguf = {"model": "llama", "tokens": [*tokens, "<0x41>"], "unknown_token_id": 0}
    gguf |= {"token_type": [2] + [1] * (len(tokens) - 1) + [6], "bos_token_id": 1, "add_bos_token": True}
    gguf["add_eos_token"] = True
    write("tokenizer/gguf-llama", "tokenizer.gguf.json", ggml(gguf | {"scores": [0.0] * (len(tokens) + 1)}, template))
    gguf = {"model": "gpt2", "pre": "llama-bpe", "tokens": [*tokens, "a"], "merges": ["a n", "o c"], "eos_token_id": 0}
    write("tokenizer/gguf-gpt2", "tokenizer.gguf.json", ggml(gguf | {"token_type": [3] + [1] * len(tokens)}, template))


def ggml(keys: dict, template: str) -> bytes:
    """Write a tokenizer's metadata as an artifact carries them."""
    named = {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    return json.dumps(named | {"tokenizer.chat_template": template}).encode()


def worker_protocol() -> types.ModuleType:
    """Load the messages of workers, without the package around them."""
    path = ROOT.parents[2] / "python/intarsia/serve/worker_protocol.py"
    spec = importlib.util.spec_from_file_location("worker_protocol", path)
    module = sys.modules["worker_protocol"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_worker_messages() -> None:
    protocol = worker_protocol()
    request = protocol.Submission([1, 2, 3], [0], 0.5, seed=7, has_mask=True, logit_bias={5: -1.5}, key="k", salt="s")
    messages = [protocol.hello(), protocol.submit(1, request), protocol.cancel(1), protocol.ping(2), protocol.drain()]
    messages += [protocol.ask_statistics(3), protocol.masks(1, b"\1\0", memoryview(bytes(16)))]
    write("worker", "front-end", b"".join(messages))

    def message(kind: int, layout: str, *values: object) -> bytes:
        body = struct.pack(f"<{layout}", *values)
        return struct.pack("<II", len(body), kind) + body

    info = b'{"vocabulary": 40}'
    token = (1, 0, 1, 0, 1, 7, -0.5, 0, 3, 0, 1, 0.25, 0.5)
    end = (3, 5, 0, 0, 1, -1, 0.0, 3, 3, 0, 1, 0.25, 0.5)
    event = "BBHiQqfIqqqdd"
    messages = [message(65, "I18s", len(info), info), message(66, "QQ", 1, 1), message(71, "Q", 2), message(73, "")]
    messages += [message(67, "QI4sI3s", 1, 4, b"full", 3, b"why"), message(72, "I3sI3s", 3, b"bad", 3, b"why")]
    messages += [message(68, f"QI{event}{event}IqfI3s", 9, 2, *token, *end, 1, 7, -0.5, 3, b"why")]
    messages += [message(69, "QIQiIIqq", 1, 1, 1, 0, 2, 2, 5, 6), message(70, "QI2s", 3, 2, b"{}")]
    write("worker", "worker", b"".join(messages))
    write("worker", "counts", message(68, "QI", 9, 0xFFFFFFFF) + struct.pack("<II", 0xFFFFFFFF, 2))


def write(folder: str, name: str, data: bytes) -> None:
    path = ROOT / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def write_of_tools() -> None:
    """Write what tools of a build write: bytecode of a model before and after it is lowered, and of an agent; a plan."""
    repository = ROOT.parents[2]
    tools = repository / "build/dev/bin"
    example = "examples/agents/debate.mlir"  # locations have the path
    phases = ["--intarsia-fuse", "--intarsia-lower"]
    for name, text, passes in (("model", MODEL, []), ("lowered", MODEL, phases), ("functions", FUNCTIONS, [])):
        command = [tools / "intarsia-opt", "--emit-bytecode", *passes, "-"]
        write("bytecode", name, subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True).stdout)
    command = [tools / "intarsia-opt", "--emit-bytecode", example]
    agent = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=repository).stdout
    write("bytecode", "agent", agent)
    (ROOT / "plan").mkdir(exist_ok=True)
    command = [tools / "intarsia-plan", example, "--fleet=examples/fleets/dc.mlir", "--why=false"]
    command += [f"--json={ROOT}/plan/debate"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=repository)


def main() -> None:
    write_of_tools()
    write_tokenizers()
    write_worker_messages()
    two = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [0], "data_offsets": [24, 24]},
    }
    write("safetensors", "two", safetensors(two, bytes(24)))
    write("safetensors", "none", safetensors({}, b""))
    overlap = {n: {"dtype": "U8", "shape": [4], "data_offsets": [o, o + 4]} for n, o in (("a", 0), ("b", 2))}
    write("safetensors", "overlap", safetensors(overlap, bytes(6)))
    write("safetensors", "length", struct.pack("<Q", 1 << 60) + b"{}")

    keys = {
        "general.architecture": struct.pack("<I", 8) + text("llama"),
        "general.alignment": struct.pack("<II", 4, 32),
        "llama.rope.freq_base": struct.pack("<If", 6, 1e4),
        "tokenizer.ggml.tokens": struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        "tokenizer.ggml.scores": struct.pack("<IIQ2f", 9, 6, 2, 0, 1),
        "x": struct.pack("<I?", 7, True),
    }
    tensors = {"a": ((32, 2), 2, 0), "b": ((3,), 0, 64), "k": ((256,), 12, 96)}
    write("gguf", "three", gguf(keys, tensors, bytes(240)))
    write(
        "gguf", "split", gguf({"split.count": struct.pack("<IH", 2, 2), "split.no": struct.pack("<IH", 2, 0)}, {}, b"")
    )
    write("gguf", "overlap", gguf({}, {"a": ((32,), 0, 0), "b": ((32,), 0, 96)}, bytes(256)))
    write("gguf", "counts", b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60))

    write("gpu-object", "two", gpu_object({"cubin": b"machine code", "ptx": b".version 7.0\n"}))
    write("gpu-object", "one", gpu_object({"hsaco": b""}))

    manifest = json.dumps(MANIFEST).encode()
    write("manifest", "full", manifest)
    write(
        "manifest",
        "bare",
        b'{"format":1,"producer":"","target":{"triple":"","variants":[{"name":""}]},"kernels":[],"functions":[]}',
    )

    # The files themselves are the seeds: small, valid, and of all kinds.
    repository = ROOT.parents[2]
    for device in ("nvidia/h100-sxm", "paper/gaudi3", "cerebras/wse-3"):
        write("catalogue", device.replace("/", "-"), (repository / f"catalogue/devices/{device}.yaml").read_bytes())
    write("efficiency", "splitwise", (repository / "catalogue/efficiency/serving-splitwise.yaml").read_bytes())
    for model in ("convolutions", "functions", "mlp", "shapes"):
        for target in ("onnx", "onnx-import"):
            write(target, model, (repository / f"test/EndToEnd/onnx/{model}.onnx").read_bytes())
    for model in ("llama-3.1-8b", "deepseek-v3", "qwen3.5-397b-a17b", "gemma-4-26b-a4b"):
        write("shape", model, (repository / f"catalogue/models/{model}.json").read_bytes())

    ids = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 3), }\n", struct.pack("<3q", 1, 2, 3))
    mask = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 3), }\n", struct.pack("<3q", 1, 1, 0))
    write("call", "ids", b"\xff" + ids)
    write("call", "both", b"\x80" + ids + mask)
    config = {"model_type": "llama", "hidden_size": 64, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "x": None}}
    config |= {"architectures": ["LlamaForCausalLM"], "image_size": [224, 224], "layers": [0.5, -1], "tie": True}
    write("config", "settings", json.dumps(config).encode())
    modules = [{"idx": i, "name": str(i), "path": path, "type": "t"} for i, path in enumerate(("", "1_Pooling"))]
    write("config", "modules", json.dumps(modules).encode())
    write("config", "in-text", b'{"x": "' + b"]" * 80 + b'", "y": ' + b"[" * 80)

    write("index", "two", b'{"metadata": {}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}')
    write("index", "outside", b'{"weight_map": {"a": "../a.safetensors", "b": "c.safetensors"}}')

    write("nesting", "json", json.dumps(config).encode())
    module = "#m = affine_map<(d0)[s0] -> (-d0 + s0 floordiv 2)>\n!t = tuple<i1, () -> (f32)>\n// a comment [\n"
    module += 'module attributes {x.a = #x.y<"\\"{" // >\n>} { "x.y"() ({ }) : () -> !t loc(fused["a"]) }\n'
    write("nesting", "mlir", module.encode())
    write("nesting", "deep", b"tuple<" * 20)

    write("arrivals", "seconds", b"agent,seconds\nchat,0\n# a comment\n@search,1.5\nchat,2e3\n")
    write("arrivals", "quoted", b'"milliseconds" , other,"agent"\r\n7,"a, ""b""",chat\r\n8,,search\r\n')
    write("arrivals", "backwards", b"seconds,agent\n2,chat\n1,chat\n")

    write("npy", "c", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", bytes(24)))
    write("npy", "fortran", npy("{'descr': '<i8', 'fortran_order': True, 'shape': (2, 2), }\n", bytes(32), 2))
    write("npy", "scalar", npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", b"\1", 3))

    write("sequence", "pages", sequence(5, 4, [(1, True, 24), (1, True, 8)]))
    write("sequence", "slots", sequence(3, 4, [(0, False, 16), (7, True, 40)]))
    write("sequence", "empty", sequence(0, 4, [(1, True, 24)]))

    module = elf(62, manifest)
    write("artifact", "x86-64", module)
    write("artifact", "aarch64", elf(183, manifest))
    write("artifact", "truncated", module[: len(module) // 2])
    embedded = elf(62, manifest, safetensors(two, bytes(24)))
    write("artifact", "embedded-weights", embedded)
    table = b"".join(struct.pack("<IIQQ", machine, 0, PAGE, len(module)) for machine in (183, 62))
    write("artifact", "bundle", (b"ITXBND\0\1" + struct.pack("<II", 1, 2) + table).ljust(PAGE, b"\0") + module)
    trailer = struct.pack("<QQQ", PAGE, len(embedded), 0) + b"ITXEXE\0\1"
    write("artifact", "executable", b"runner".ljust(PAGE, b"\0") + embedded + trailer)


if __name__ == "__main__":
    main()
