# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Questions about images: a vision encoder and a language model, then a search for what was seen."""

from intarsia import agent

# Qwen2-VL (Wang et al., 2024, arXiv 2409.12191): a vision transformer of 675 M parameters sees patches of 14 x 14
# pixels and merges four of them, so that a token is 28 x 28 pixels; 2 flops for each parameter and patch.
vision = agent.Model("vision", parameters=675e6, flops_per_unit=2 * 675e6 / 14**2, tokens_per_unit=1 / 28**2)
llama = agent.Model("llama70b", shape="llama-3.1-70b", context_tokens=131072, encoders={"image": vision})
# CLIP ViT-L/14 has 428 M parameters and 768 dimensions (Radford et al., 2021, arXiv 2103.00020).
clip = agent.Model("clip", parameters=428e6)
products = agent.Index("products", vectors=2_000_000, dimension=768, chunk_tokens=60, embedder=clip, visited=1.0e-3)


# A photograph of a telephone, made smaller to 1 megapixel; a question as in VQA (6 words; Antol et al., 2015, arXiv
# 1505.00468) with some context around it.
@agent.graph(
    agent.image(1_048_576), agent.text(20, p95=60), sla=agent.Sla(p95_ms=8000, tbt_ms=50, requests_per_second=10)
)
def look(photo, question):
    """Answer a question about a photograph."""
    seen = llama.answer(
        photo, question, tokens=agent.Amount(90, p95=180, max=512), instruction_tokens=120, label="describe"
    )
    offers = products.retrieve(seen, top_k=5, label="find offers")
    return llama.answer(
        photo,
        question,
        seen,
        offers,
        tokens=agent.Amount(140, p95=320, max=1024),
        instruction_tokens=120,
        label="advise",
    )


if __name__ == "__main__":
    print(look, end="")
