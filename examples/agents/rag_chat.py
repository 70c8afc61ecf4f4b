# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Retrieval-augmented chat: passages that fit the question go in front of it."""

from intarsia import agent

# 22.7 M parameters, 384 dimensions: the model card of all-MiniLM-L6-v2.
embedder = agent.Model("minilm", parameters=22.7e6)
# Wikipedia as dense passage retrieval cuts it: 21 M passages of 100 words (Karpukhin et al., 2020, arXiv 2004.04906,
# section 4.1), 4 tokens for 3 words. A graph index (HNSW) looks at some thousand of them.
passages = agent.Index(
    "wikipedia", vectors=21_000_000, dimension=384, chunk_tokens=133, embedder=embedder, visited=2.0e-4
)
llama = agent.Model("llama70b", shape="llama-3.1-70b", context_tokens=131072)


# Questions and answers as in conversations of the Azure traces (Patel et al., Splitwise, arXiv 2311.18677, figure 3):
# the median answer has 129 tokens; the tail is from the same figure.
@agent.graph(agent.text(60, p95=180), sla=agent.Sla(p95_ms=12000, ttft_ms=1000, tbt_ms=50, requests_per_second=20))
def chat(question):
    """Answer from passages."""
    found = passages.retrieve(question, top_k=10, label="find")
    return llama.answer(
        found,
        question,
        tokens=agent.Amount(p50=129, p95=450, max=1024),
        instruction_tokens=250,
        shared_instructions=True,
        label="answer",
    )


if __name__ == "__main__":
    print(chat, end="")
