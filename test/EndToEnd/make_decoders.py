#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes decoders/NAME: small language models with random weights, each with golden.npz, what PyTorch computes for it.

Needs: pip install torch transformers safetensors numpy. The tests need none of these: what this script writes is
committed. Every model differs from the others in a setting that an importer can get wrong.

golden.npz: input_ids int64 [sequences, longest], lengths int64 [sequences] (of the prompts), logits float32
[sequences, longest, vocabulary] of the whole texts. Sequence s has lengths[s] + STEPS tokens: the prompt, then what is
decoded one by one; what is beyond means nothing.
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
                parameter.copy_((1.0 if "norm" in name else 0.0) + 0.2 * noise)
            elif parameter.ndim == 3:  # matrices of experts
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)
            else:
                parameter.copy_(noise / parameter[0].numel() ** 0.5)


def write(
    name: str,
    model: transformers.PreTrainedModel,
    seed: int,
    dtype: torch.dtype = torch.float32,
    mxfp4: bool = False,
) -> None:
    randomize(model, seed)
    model = model.to(dtype).eval()
    folder = HERE / "decoders" / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    # The weights as stored, everything computed in float32.
    model = type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    if mxfp4:
        store_mxfp4(folder, seed)
        read_mxfp4(folder, model)
    longest = max(LENGTHS) + STEPS
    ids = np.random.default_rng(seed).integers(0, model.config.vocab_size, (len(LENGTHS), longest))
    with torch.no_grad():
        logits = model(torch.from_numpy(ids)).logits.numpy().astype(np.float32)
    np.savez_compressed(folder / "golden.npz", input_ids=ids, lengths=np.array(LENGTHS), logits=logits)
    print(name, "largest logit", np.abs(logits).max())


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

    mixtral = SMALL | {"num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 40}
    write("mixtral", t.MixtralForCausalLM(t.MixtralConfig(**mixtral)), 20)
    moe = SMALL | {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "intermediate_size": 40}
    write("qwen3-moe-bf16", t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**moe)), 21, torch.bfloat16)
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
