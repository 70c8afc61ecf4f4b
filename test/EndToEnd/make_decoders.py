#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes decoders/NAME: small language models with random weights, each with golden.npz, what PyTorch computes for it.

make_decoders.py [NAME …]    (all without names)

Needs: pip install torch transformers safetensors numpy. The tests need none of these: what this script writes is
committed. Every model differs from the others in a setting that an importer can get wrong.

golden.npz: input_ids int64 [sequences, longest], lengths int64 [sequences] (of the prompts), logits float32
[sequences, longest, vocabulary] of the whole texts. Sequence s has lengths[s] + STEPS tokens: the prompt, then what is
decoded one by one; what is beyond means nothing. long_input_ids and long_logits: one text that is longer than what
the model was first trained for, where that changes how it is computed.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import transformers

HERE = Path(__file__).resolve().parent
LENGTHS = (45, 9, 1)
STEPS = 10
SMALL = {
    "vocab_size": 99,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 80,
    "max_position_embeddings": 64,
    "head_dim": 16,
    "attn_implementation": "eager",
}


def randomize(model: torch.nn.Module, seed: int) -> None:
    """Weights that make attention uneven and biases and scales matter, unlike those of initializer_range."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:
                is_scale = ("norm" in name or "ln_" in name) and not model.config.model_type.startswith("gemma")
                parameter.copy_((1.0 if is_scale else 0.0) + 0.2 * noise)
            elif parameter.ndim == 3:  # matrices of experts
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)
            else:
                parameter.copy_(noise / parameter[0].numel() ** 0.5)


def write(
    name: str,
    model: transformers.PreTrainedModel,
    seed: int,
    dtype: torch.dtype = torch.float32,
    long: int | None = None,
    drop_prefix: str = "",
    older: dict[str, object] | None = None,
    mxfp4: bool = False,
) -> None:
    """Writes one model, with `long` tokens in its long text, and its settings in `older` words (None: left out)."""
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    randomize(model, seed)
    model = model.to(dtype).eval()
    folder = HERE / "decoders" / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text())
    for key, value in (older or {}).items():
        *parents, last = key.split(".")
        section = config
        for parent in parents:
            section = section[parent]
        section.pop(last, None)
        if value is not None:
            section[last] = value
    if older:
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    # The weights as stored, everything computed in float32; but constants of the model are rounded as the weights are.
    model = type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    embed_scale = getattr(model.get_input_embeddings(), "embed_scale", None)
    if embed_scale is not None:
        embed_scale.copy_(embed_scale.to(dtype))
    if drop_prefix:
        path = folder / "model.safetensors"
        tensors = safetensors.torch.load_file(path)
        safetensors.torch.save_file({key.removeprefix(drop_prefix): value for key, value in tensors.items()}, path)
    if mxfp4:
        store_mxfp4(folder, seed)
        read_mxfp4(folder, model)
    longest = max(LENGTHS) + STEPS
    vocabulary = model.config.get_text_config().vocab_size
    ids = np.random.default_rng(seed).integers(0, vocabulary, (len(LENGTHS), longest))

    def logits_of(ids: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model(torch.from_numpy(ids)).logits.numpy().astype(np.float32)

    golden = {"input_ids": ids, "lengths": np.array(LENGTHS), "logits": logits_of(ids)}
    if long is not None:
        golden["long_input_ids"] = np.random.default_rng(seed + 1000).integers(0, vocabulary, (1, long))
        golden["long_logits"] = logits_of(golden["long_input_ids"])
    np.savez_compressed(folder / "golden.npz", **golden)
    print(name, "largest logit", np.abs(golden["logits"]).max())


def store_mxfp4(folder: Path, seed: int) -> None:
    """Replaces the weights of experts by random blocks and scales, each layer's in its own way."""
    path = folder / "model.safetensors"
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, value in safetensors.torch.load_file(path).items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            tensors[name] = value
            continue
        experts, columns, rows = value.shape
        shape = (experts, rows, columns // 32)
        tensors[name + "_blocks"] = torch.randint(0, 256, (*shape, 16), generator=generator, dtype=torch.uint8)
        tensors[name + "_scales"] = torch.randint(121, 126, shape, generator=generator, dtype=torch.uint8)
    safetensors.torch.save_file(tensors, path)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def read_mxfp4(folder: Path, model: transformers.PreTrainedModel) -> None:
    """Gives the model the weights of its experts, as transformers decodes them."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    for name, parameter in model.named_parameters():
        if name + "_blocks" in tensors:
            decoded = convert_moe_packed_tensors(tensors[name + "_blocks"], tensors[name + "_scales"])
            parameter.data.copy_(decoded)


def main() -> None:
    t = transformers
    llama3 = {
        "rope_type": "llama3",
        "rope_theta": 500.0,
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    yarn = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 16}
    linear = {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0}

    def llama(**settings: object) -> transformers.PreTrainedModel:
        return t.LlamaForCausalLM(t.LlamaConfig(**(SMALL | settings)))

    write("llama", llama(), 1)
    write("llama-tied-bf16", llama(tie_word_embeddings=True, head_dim=32), 2, torch.bfloat16)
    write("llama-llama3", llama(rope_parameters=llama3, attention_bias=True, mlp_bias=True), 3)
    write("llama-yarn", llama(rope_parameters=yarn, num_key_value_heads=4), 4)
    write("llama-linear", llama(rope_parameters=linear, num_key_value_heads=1), 5)
    write("mistral", t.MistralForCausalLM(t.MistralConfig(**SMALL, sliding_window=11)), 6)
    write("mistral-whole", t.MistralForCausalLM(t.MistralConfig(**SMALL, sliding_window=None)), 7)
    qwen2 = {name: value for name, value in SMALL.items() if name != "head_dim"} | {"hidden_size": 64}
    write("qwen2", t.Qwen2ForCausalLM(t.Qwen2Config(**qwen2)), 8)
    phi3 = {name: value for name, value in SMALL.items() if name != "head_dim"} | {"hidden_size": 64, "pad_token_id": 0}
    write("phi3", t.Phi3ForCausalLM(t.Phi3Config(**phi3, partial_rotary_factor=0.5, sliding_window=20)), 10)
    write("qwen3", t.Qwen3ForCausalLM(t.Qwen3Config(**SMALL)), 9)
    window = {"use_sliding_window": True, "sliding_window": 11, "max_window_layers": 1, "intermediate_size": 48}
    write("qwen3-window", t.Qwen3ForCausalLM(t.Qwen3Config(**(SMALL | window))), 11)
    smollm = SMALL | {"num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 64}
    older = {"rope_parameters": None, "head_dim": None, "rope_theta": 1000.0, "rope_interleaved": False}
    older |= {"pretraining_tp": 1, "mlp_bias": None, "dtype": None, "torch_dtype": "bfloat16"}
    smollm = t.LlamaForCausalLM(t.LlamaConfig(**smollm, tie_word_embeddings=True))
    write("llama-older-bf16", smollm, 19, torch.bfloat16, older=older)
    dynamic = {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 4.0}
    write("llama-dynamic", llama(rope_parameters=dynamic, num_hidden_layers=1, intermediate_size=48), 18)
    longrope = {
        "rope_type": "longrope",
        "short_factor": [1.0 + 0.1 * i for i in range(8)],
        "long_factor": [1.5 + i for i in range(8)],
    }
    phi3 |= {"hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 64}
    phi3 |= {"rope_parameters": longrope, "original_max_position_embeddings": 56}
    write("phi3-longrope", t.Phi3ForCausalLM(t.Phi3Config(**phi3)), 12, long=64)

    caps = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 24}
    write("gemma2", t.Gemma2ForCausalLM(t.Gemma2Config(**SMALL, **caps, sliding_window=11)), 13)
    gemma3 = SMALL | {"num_hidden_layers": 3, "sliding_window": 11, "sliding_window_pattern": 2}
    gemma3["rope_parameters"] = {
        "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    }
    text = t.Gemma3TextConfig(**gemma3, query_pre_attn_scalar=24)
    write("gemma3-text-bf16", t.Gemma3ForCausalLM(text), 14, torch.bfloat16)
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    vision |= {"image_size": 8, "patch_size": 4}
    text = t.Gemma3TextConfig(**(SMALL | {"intermediate_size": 48, "sliding_window": 11, "sliding_window_pattern": 2}))
    parts = {"text_config": text, "vision_config": t.SiglipVisionConfig(**vision)}
    gemma3 = t.Gemma3Config(**parts, mm_tokens_per_image=4, image_token_index=98)
    older = {"rope_parameters": None, "layer_types": None, "_sliding_window_pattern": None, "rope_theta": 1000.0}
    older |= {"rope_local_base_freq": 100.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    older |= {"tie_word_embeddings": None, "query_pre_attn_scalar": None}
    older = {f"text_config.{key}": value for key, value in older.items()}
    write("gemma3", t.Gemma3ForConditionalGeneration(gemma3), 15, torch.bfloat16, older=older)

    gpt2 = {"vocab_size": 99, "n_positions": 64, "n_embd": 48, "n_layer": 2, "n_head": 3, "n_inner": 80}
    write("gpt2", t.GPT2LMHeadModel(t.GPT2Config(**gpt2)), 16)
    scaled = t.GPT2Config(**gpt2, scale_attn_by_inverse_layer_idx=True)
    write("gpt2-no-prefix-bf16", t.GPT2LMHeadModel(scaled), 17, torch.bfloat16, drop_prefix="transformer.")

    mixtral = SMALL | {"num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 40}
    write("mixtral", t.MixtralForCausalLM(t.MixtralConfig(**mixtral)), 20)
    moe = SMALL | {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "intermediate_size": 40}
    window = {"use_sliding_window": True, "sliding_window": 11}
    write("qwen3-moe-bf16", t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**moe, **window)), 21, torch.bfloat16)
    mixed = moe | {"num_hidden_layers": 4, "decoder_sparse_step": 2, "mlp_only_layers": [3], "norm_topk_prob": True}
    mixed |= {"num_experts": 4, "num_experts_per_tok": 2}
    write("qwen3-moe-mixed", t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**mixed)), 22)
    yarn |= {"beta_fast": 8.0, "truncate": False}
    oss = mixtral | {"sliding_window": 11, "swiglu_limit": 1.0, "rope_parameters": yarn}
    write("gpt-oss-bf16", t.GptOssForCausalLM(t.GptOssConfig(**oss)), 23, torch.bfloat16)
    oss |= {"layer_types": ["full_attention", "sliding_attention"], "swiglu_alpha": 1.3, "attention_bias": False}
    write("gpt-oss", t.GptOssForCausalLM(t.GptOssConfig(**oss)), 24)
    oss |= {"hidden_size": 64, "intermediate_size": 32, "num_local_experts": 3, "swiglu_limit": 2.0}
    write("gpt-oss-mxfp4", t.GptOssForCausalLM(t.GptOssConfig(**oss)), 25, torch.bfloat16, mxfp4=True)


if __name__ == "__main__":
    sys.exit(main())
