# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Language models from GGUF files: against transformers' results, and against the same values from safetensors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import gguf
import intarsia
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf_models import Store, as_floats, permuted, read_tensors, stored_name, write_gguf
from programs import one_of_each_family
from safetensors.numpy import save_file
from test_decoders import Server, check

DECODERS = Path(__file__).resolve().parent / "decoders"
GOLDEN_ENDS = json.loads((DECODERS.parents[1] / "python" / "gguf_goldens.json").read_text())["ends"]
FIM = ("fim_pad", "fim_rep", "fim_sep")
MODELS = [
    "llama", "llama-tied-bf16", "llama-llama3", "llama-yarn", "llama-linear", "mistral", "mistral-whole", "qwen2",
    "qwen3", "phi3", "phi3-longrope", "gemma2", "gemma3-text-bf16", "gpt2", "mixtral",
]  # fmt: skip


def run(path: Path, output: Path, tools, ids: np.ndarray, prompt: int, activations: int = 16) -> np.ndarray:
    """Logits of a text whose end is decoded token by token."""
    tools.compile(path, "-o", output, "--kv=f32", f"--quantize-activations={activations}")
    server = Server(intarsia.load(output), 1, 64)
    parts = [server.run([(0, ids[:prompt])])[0]]
    parts += [server.run([(0, ids[[at]])])[0] for at in range(prompt, len(ids))]
    return np.concatenate(parts)


@pytest.mark.parametrize("name", one_of_each_family(MODELS, "llama", "gemma2", "mixtral"))
def test_golden(tools, scratch, name):
    kind = "BF16" if name == "llama-tied-bf16" else "F32"
    write_gguf(DECODERS / name, scratch / f"{name}.gguf", as_floats(kind))
    with np.load(DECODERS / name / "golden.npz") as golden:
        ids, lengths, logits = golden["input_ids"][0], golden["lengths"], golden["logits"][0]
    check(run(scratch / f"{name}.gguf", scratch / f"{name}-g.itx", tools, ids, lengths[0]), logits)


def test_two_bytes(tools, scratch):
    """The error is that of weights with 11 bits, for logits up to 5, and no more."""
    write_gguf(DECODERS / "qwen3", scratch / "half.gguf", as_floats("F16"))
    with np.load(DECODERS / "qwen3" / "golden.npz") as golden:
        ids, logits = golden["input_ids"][0], golden["logits"][0]
    error = np.abs(run(scratch / "half.gguf", scratch / "half-g.itx", tools, ids, len(ids)) - logits).max()
    assert 1e-5 < error < 2e-2


@pytest.mark.cpu_is_enough
def test_metadata(tools, scratch):
    write_gguf(DECODERS / "mistral", scratch / "m.gguf", as_floats("F32"))
    ir = tools.run("intarsia-compile", scratch / "m.gguf", "--stop-after=import").stdout
    known = r'bos_token_id = 1 : i64, eos_token_ids = \[2\], model_hash = "[0-9a-f]{32}", model_type = "mistral"'
    assert re.search(known, ir)
    assert "window = 11 : i64" in ir
    assert "interleaved" in ir
    assert 'nn.weight @weights["blk.0.attn_q.weight"]' in ir
    write_gguf(DECODERS / "qwen2", scratch / "m.gguf", as_floats("F32"))
    assert "interleaved" not in tools.run("intarsia-compile", scratch / "m.gguf", "--stop-after=import").stdout


@pytest.mark.cpu_is_enough
def test_parts(tools, scratch):
    write_gguf(DECODERS / "qwen2", scratch / "parts.gguf", as_floats("F32"), split_max_tensors=10)
    parts = sorted(scratch.glob("parts-*.gguf"))
    assert len(parts) > 2
    with np.load(DECODERS / "qwen2" / "golden.npz") as golden:
        ids, logits = golden["input_ids"][0], golden["logits"][0]
    check(run(parts[0], scratch / "parts.itx", tools, ids, len(ids)), logits)
    parts[1].rename(scratch / "away")
    failed = tools.run("intarsia-compile", parts[0], "-o", scratch / "n.itx", check=False)
    assert failed.returncode != 0
    assert parts[1].name in failed.stderr


# Where the half-precision scales of a block are; the rest of it may be anything.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
    "TQ1_0": [52], "TQ2_0": [64],
}  # fmt: skip


def random_weights(name: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Blocks of random quantized values that, dequantized, are about as large as weights are."""
    elements, size = gguf.GGML_QUANT_SIZES[Type[name]]
    blocks = rng.integers(0, 256, (shape[0], shape[1] // elements, size), np.uint8)
    if name == "MXFP4":
        blocks[..., 0] = rng.integers(120, 123, blocks.shape[:2])
    elif name == "NVFP4":
        blocks[..., :4] = rng.integers(1, 16, (*blocks.shape[:2], 4))
    else:
        for scale in (1.0, None):
            # First with scales of 1: how large are the quantized values?
            value = scale or 0.06 / gguf.dequantize(blocks.reshape(shape[0], -1), Type[name]).std()
            for at in SCALES[name]:
                blocks[..., at : at + 2] = np.frombuffer(np.float16(value).tobytes(), np.uint8)
    return blocks.reshape(shape[0], -1)


def write_model(folder: Path, kind: str) -> dict[str, np.ndarray]:
    """Write a model of rows of 256 and random weights, and give its tensors."""
    rng = np.random.default_rng(11)
    config = {
        "architectures": [{"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}[kind]],
        "model_type": kind, "vocab_size": 99, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
    }  # fmt: skip
    shapes = {"model.embed_tokens": (99, 256), "lm_head": (99, 256), "model.norm": (256,)}
    for i in range(2):
        layer = f"model.layers.{i}."
        shapes |= {
            layer + "self_attn.q_proj": (256, 256), layer + "self_attn.k_proj": (128, 256),
            layer + "self_attn.v_proj": (128, 256), layer + "self_attn.o_proj": (256, 256),
            layer + "mlp.gate_proj": (512, 256), layer + "mlp.up_proj": (512, 256),
            layer + "mlp.down_proj": (256, 512), layer + "input_layernorm": (256,),
            layer + "post_attention_layernorm": (256,),
        }  # fmt: skip
        if kind == "qwen3":
            shapes |= {layer + "self_attn.q_norm": (32,), layer + "self_attn.k_norm": (32,)}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {
        f"{name}.weight": (1 + 0.2 * rng.standard_normal(shape) if len(shape) == 1 else np.zeros(shape)).astype("f4")
        for name, shape in shapes.items()
    }
    save_file(tensors, folder / "model.safetensors")
    return tensors


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_blocks_compute_as_dequantized(tools, scratch, kind):
    """A model with every type of blocks against our own import of what the gguf package dequantizes them to."""
    rng = np.random.default_rng(12)
    types = [*SCALES, "MXFP4", "NVFP4", "F16", "BF16"]
    folder = scratch / f"blocks-{kind}"
    tensors = write_model(folder, kind)
    stored: dict[str, tuple[np.ndarray, Type]] = {}
    for number, (name, value) in enumerate(sorted(t for t in tensors.items() if t[1].ndim == 2)):
        type_ = types[number % len(types)]
        if type_ in ("F16", "BF16"):
            data, dequantized = as_floats(type_)(name, 0.06 * rng.standard_normal(value.shape))[0], None
            dequantized = data.astype("f4") if type_ == "F16" else gguf.dequantize(data.view(np.uint8), Type.BF16)
        else:
            data = random_weights(type_, value.shape, rng)
            dequantized = gguf.dequantize(data, Type[type_])
        stored[stored_name(name, kind)] = (data, Type[type_])
        # The blocks hold the rows of query and key as Llama's GGUF files order them.
        heads = {"q_proj": 8, "k_proj": 4}.get(name.split(".")[-2])
        if kind == "llama" and heads:
            order = np.argsort(permuted(np.arange(value.shape[0])[:, None], heads)[:, 0])
            dequantized = dequantized[order]
        tensors[name] = dequantized

    def store(name: str, value: np.ndarray) -> tuple[np.ndarray, Type]:
        return stored.get(name, (value, Type.F32))

    write_gguf(folder, scratch / f"{kind}-blocks.gguf", store)
    save_file(tensors, folder / "model.safetensors")
    ids = rng.integers(0, 99, 20)
    actual = run(scratch / f"{kind}-blocks.gguf", scratch / f"{kind}-blocks.itx", tools, ids, 12)
    expected = run(folder, scratch / f"{kind}-dequantized.itx", tools, ids, 12)
    assert np.abs(expected).max() > 0.5
    # F16 and BF16 stay as they are and their linears are other kernels than those of f32.
    assert np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max()


def test_quantized_by_the_package(tools, scratch):
    """Q4_0 wherever rows are whole blocks, as llama.cpp's quantizer does; the rest stays F16."""

    def store(name: str, value: np.ndarray) -> tuple[np.ndarray, Type]:
        if value.ndim == 1 or value.shape[1] % 32:
            return as_floats("F16")(name, value)
        return gguf.quantize(value, Type.Q4_0), Type.Q4_0

    write_gguf(DECODERS / "qwen2", scratch / "q4.gguf", store)
    folder = scratch / "q4-dequantized"
    folder.mkdir()
    (folder / "config.json").write_text((DECODERS / "qwen2" / "config.json").read_text())
    dequantized = {}
    for name, value in read_tensors(DECODERS / "qwen2").items():
        data, type_ = store(name, value)
        dequantized[name] = gguf.dequantize(data, type_) if type_ == Type.Q4_0 else data.astype(np.float32)
    save_file(dequantized, folder / "model.safetensors")
    ids = np.random.default_rng(4).integers(0, 99, 30)
    expected = run(folder, scratch / "q4-dequantized.itx", tools, ids, 20)
    done = tools.compile(scratch / "q4.gguf", "-o", scratch / "q4.itx")
    assert "decoded" not in done.stderr
    check(run(scratch / "q4.gguf", scratch / "q4.itx", tools, ids, 20), expected)
    # At their bits, but for what the panels of 32 rows add.
    assert (scratch / "q4.safetensors").stat().st_size < 0.3 * (scratch / "q4-dequantized.safetensors").stat().st_size
    # With the inputs of linears in 8 bits, as a user gets it: each is off by 0.4 % of the largest of its block.
    quantized = run(scratch / "q4.gguf", scratch / "q4.itx", tools, ids, 20, activations=8)
    error = np.abs(quantized - expected).max()
    assert 0 < error < 0.02 * np.abs(expected).max()


@pytest.mark.parametrize(("stored", "requested"), [("Q5_0", "int4"), ("Q4_0", "int8"), ("Q8_0", "mxfp4")])
def test_blocks_are_quantized_anew(tools, scratch, stored, requested):
    """With --quantize, blocks of any type are decoded and quantized like other weights."""

    def store(name: str, value: np.ndarray) -> tuple[np.ndarray, Type]:
        return plain(name, value) if value.ndim == 1 else (gguf.quantize(value, Type[stored]), Type[stored])

    folder = scratch / f"anew-{stored}"
    tensors = write_model(folder, "qwen3")
    rng = np.random.default_rng(5)
    for name, value in tensors.items():
        if value.ndim == 2:
            tensors[name] = (0.06 * rng.standard_normal(value.shape)).astype("f4")
    save_file(tensors, folder / "model.safetensors")
    write_gguf(folder, scratch / f"{stored}.gguf", store)
    dequantized = {
        name: value if value.ndim == 1 else gguf.dequantize(*store(name, value)) for name, value in tensors.items()
    }
    save_file(dequantized, folder / "model.safetensors")
    ids = rng.integers(0, 99, 20)
    logits = {}
    for source in (scratch / f"{stored}.gguf", folder):
        output = scratch / f"{source.stem}-{requested}.itx"
        tools.compile(source, "-o", output, "--kv=f32", f"--quantize={requested}")
        (logits[source],) = intarsia.Generator(output).logits([ids])
    actual, expected = logits.values()
    assert np.abs(expected).max() > 0.3
    np.testing.assert_array_equal(actual, expected)
    (exact,) = intarsia.Generator(compiled(tools, scratch / f"{stored}.gguf", scratch / f"{stored}.itx")).logits([ids])
    assert np.abs(exact - actual).max() > 1e-3


def compiled(tools, source: Path, output: Path) -> Path:
    tools.compile(source, "-o", output, "--kv=f32")
    return output


def plain(name: str, value: np.ndarray) -> tuple[np.ndarray, Type]:
    return as_floats("F32")(name, value)


def write_changed(path: Path, change, store: Store = plain, model: str = "llama") -> None:
    """Write a model with its metadata changed before they are written."""
    before = gguf.GGUFWriter.write_header_to_file

    def header(self, *arguments):
        change(self)
        before(self, *arguments)

    gguf.GGUFWriter.write_header_to_file = header
    try:
        write_gguf(DECODERS / model, path, store)
    finally:
        gguf.GGUFWriter.write_header_to_file = before


def set_key(key: str, value: object, kind: gguf.GGUFValueType = gguf.GGUFValueType.UINT32):
    def change(writer: gguf.GGUFWriter) -> None:
        writer.kv_data[0].pop(key, None)
        writer.add_key_value(key, value, kind)

    return change


def imported(tools, path: Path, change, model: str = "llama"):
    """Return what importing a changed model prints, without the hash of the file."""
    write_changed(path, change, model=model)
    done = tools.run("intarsia-compile", path, "--stop-after=import", check=False)
    return re.sub(r'model_hash = "\w+"', "", done.stdout), done.stderr


@pytest.mark.cpu_is_enough
@pytest.mark.parametrize("golden", GOLDEN_ENDS, ids=lambda golden: golden["name"])
def test_ends_as_llama_cpp(tools, scratch, golden):
    def change(writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(golden["tokens"])
        writer.add_token_types(golden["types"])
        for name, value in golden["settings"].items():
            kind = gguf.GGUFValueType.STRING if isinstance(value, str) else gguf.GGUFValueType.UINT32
            set_key(f"tokenizer.ggml.{name}", value, kind)(writer)

    ir, remarks = imported(tools, scratch / "ends.gguf", change)
    ends = json.loads(re.search(r"eos_token_ids = (\[.*?\])", ir)[1])
    assert sorted(ends) == golden["ids"]
    named = [golden["settings"].get(f"{name}_token_id") for name in ("eos", "eot", "eom", *FIM)]
    unnamed = [f"{golden['tokens'][token]} ({token})" for token in golden["ids"] if token not in named]
    assert (f"answers also end at {', '.join(unnamed)}: no key says so" in remarks) == bool(unnamed)


@pytest.mark.cpu_is_enough
def test_ends_of_a_file_without_types(tools, scratch):
    """Its tokens are words, of which llama.cpp takes the same spellings."""

    def change(writer: gguf.GGUFWriter) -> None:
        writer.add_token_list(["a", "b", "<|im_end|>", "</s>", "<|end"])

    ir, remarks = imported(tools, scratch / "ends.gguf", change)
    assert "eos_token_ids = [2, 3]," in ir
    assert "answers also end at </s> (3)" in remarks


@pytest.mark.cpu_is_enough
def test_usual_values_of_keys(tools, scratch):
    """Keys that say what is so without them."""
    expected, _ = imported(tools, scratch / "m.gguf", lambda writer: None, "llama-yarn")
    for key, value in (
        ("yarn_ext_factor", 1.0),
        ("yarn_ext_factor", -1.0),
        ("yarn_attn_factor", 1.0),
        ("yarn_log_multiplier", 0.0),
        ("yarn_beta_slow", 1.0),
        ("attn_factor", 1.0),
    ):
        change = set_key(f"llama.rope.scaling.{key}", value, gguf.GGUFValueType.FLOAT32)
        assert imported(tools, scratch / "m.gguf", change, "llama-yarn")[0] == expected, key
    other, _ = imported(
        tools,
        scratch / "m.gguf",
        set_key("llama.rope.scaling.attn_factor", 0.9, gguf.GGUFValueType.FLOAT32),
        "llama-yarn",
    )
    assert other != expected


@pytest.mark.cpu_is_enough
@pytest.mark.parametrize(
    ("key", "value", "model", "message"),
    [
        ("rope.scaling.yarn_ext_factor", 0.0, "llama-yarn", "is 0.000; 1 is supported with YaRN"),
        ("rope.scaling.yarn_ext_factor", 0.5, "llama-yarn", "is 0.500; 1 is supported with YaRN"),
        ("rope.scaling.yarn_ext_factor", 1.0, "llama", "is 1.000; 0 is supported without YaRN"),
        ("rope.scaling.yarn_ext_factor", 0.0, "llama", ""),
        ("rope.scaling.yarn_attn_factor", 0.9, "llama-yarn", "is 0.900; 1 is supported; rope.scaling.attn_factor is"),
        ("rope.scaling.yarn_log_multiplier", 1.0, "llama-yarn", "is not supported for models of architecture llama"),
        ("logit_scale", 1.0, "llama", ""),
        ("attention.scale", 1.0, "llama", "is not supported for models of architecture llama"),
    ],
)
def test_other_values_of_keys(tools, scratch, key, value, model, message):
    change = set_key(f"llama.{key}", value, gguf.GGUFValueType.FLOAT32)
    ir, errors = imported(tools, scratch / "m.gguf", change, model)
    assert bool(ir) == (not message)
    assert not message or f"m.gguf: key 'llama.{key}' {message}" in errors


@pytest.mark.cpu_is_enough
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            set_key("general.architecture", "mamba", gguf.GGUFValueType.STRING),
            "m.gguf: general.architecture 'mamba' is not supported; supported: gemma2, gemma3, gpt-oss, gpt2, llama, phi3, qwen2, qwen3, qwen3moe",
        ),
        (lambda w: w.kv_data[0].pop("llama.block_count"), "m.gguf: key 'llama.block_count' is missing"),
        (set_key("llama.block_count", 1), "m.gguf: has tensor 'blk.1."),
        (set_key("llama.block_count", 3), "m.gguf: has no tensor 'blk.2.attn_norm.weight', which the metadata implies"),
        (
            set_key("llama.feed_forward_length", 81),
            "tensor 'blk.0.ffn_gate.weight' is [80, 48], the metadata implies [81, 48] (llama.feed_forward_length)",
        ),
        (set_key("llama.embedding_length", "48", gguf.GGUFValueType.STRING), "'llama.embedding_length' is no integer"),
        (set_key("llama.attention.head_count", 5), "llama.attention.head_count 5 is not a multiple of"),
        (set_key("llama.attention.head_count", 0), "key 'llama.attention.head_count' is not positive"),
        (set_key("llama.attention.value_length", 8), "key 'llama.attention.value_length' is 8, heads of keys have 16"),
        (set_key("llama.expert_count", 8), "key 'llama.expert_used_count' is missing"),
        (set_key("llama.expert_count", 0), ""),
        (set_key("llama.logit_scale", 0.5, gguf.GGUFValueType.FLOAT32), "key 'llama.logit_scale' is not supported"),
        (set_key("llama.attention.causal", False, gguf.GGUFValueType.BOOL), "'llama.attention.causal' is false"),
        (
            set_key("llama.rope.scaling.type", "longrope", gguf.GGUFValueType.STRING),
            "key 'llama.rope.scaling.type' 'longrope' is not supported; supported: none, linear, yarn",
        ),
        (set_key("llama.rope.dimension_count", 17), "key 'llama.rope.dimension_count' is 17, heads have 16 features"),
        (set_key("llama.rope.freq_base", 0.0, gguf.GGUFValueType.FLOAT32), "llama.rope.freq_base is 0"),
        (set_key("tokenizer.ggml.eos_token_id", "x", gguf.GGUFValueType.STRING), "eos_token_id' is no token id"),
        (
            set_key("tokenizer.ggml.eos_token_id", -5, gguf.GGUFValueType.INT32),
            "key 'tokenizer.ggml.eos_token_id' is -5, token ids are not negative",
        ),
        (lambda w: w.add_tensor("blk.0.attn_q.scale", np.ones(1, "f4")), "has tensor 'blk.0.attn_q.scale', which"),
        (lambda w: w.add_tensor("blk.0.ffn_gate.1.weight", np.ones((80, 48), "f4")), "has tensor 'blk.0.ffn_gate.1.weight': experts that are stored apart"),
        (lambda w: w.add_tensor("rope_freqs.weight", np.ones(3, "f4")), "factors has 3 numbers, a head has 8 pairs of features to rotate"),
        (lambda w: w.add_tensor("rope_freqs.weight", np.zeros(8, "f4")), "has an element that is not a positive number"),
    ],
)  # fmt: skip
def test_refusals(tools, scratch, change, message):
    write_changed(scratch / "m.gguf", change)
    done = tools.run("intarsia-compile", scratch / "m.gguf", "--stop-after=import", check=False)
    assert message in done.stderr
    assert done.returncode == (1 if message else 0)


@pytest.mark.cpu_is_enough
def test_windows_of_some_layers_are_refused(tools, scratch):
    write_changed(scratch / "m.gguf", set_key("qwen2.attention.sliding_window", 8), model="qwen2")
    done = tools.run("intarsia-compile", scratch / "m.gguf", "--stop-after=import", check=False)
    assert "m.gguf: key 'qwen2.attention.sliding_window' is not supported" in done.stderr


@pytest.mark.cpu_is_enough
def test_types_that_are_not_decoded(tools, scratch):
    def store(name: str, value: np.ndarray) -> tuple[np.ndarray, Type]:
        if name == "blk.0.ffn_up.weight":
            return np.zeros((80, 48), np.int8), Type.I8
        return plain(name, value)

    write_changed(scratch / "m.gguf", lambda writer: None, store)
    done = tools.run("intarsia-compile", scratch / "m.gguf", "--stop-after=import", check=False)
    assert "m.gguf: tensor 'blk.0.ffn_up.weight' is of dtype I8, expected one of F32, F16, Q4_0" in done.stderr


@pytest.mark.cpu_is_enough
def test_files_that_are_not_read(tools, scratch):
    (scratch / "bad.gguf").write_bytes(b"GGML" + bytes(64))
    done = tools.run("intarsia-compile", scratch / "bad.gguf", "-o", scratch / "bad.itx", check=False)
    assert "error: bad.gguf: is not a GGUF file" in done.stderr
    assert not (scratch / "bad.itx").exists()
    done = tools.run("intarsia-compile", scratch / "bad.gguf", "--start-from=lower", check=False)
    assert "--start-from=lower needs IR, " in done.stderr
    assert "is a GGUF file" in done.stderr
