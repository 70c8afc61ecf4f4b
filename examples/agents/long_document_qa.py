# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Questions about long documents: all of it is read where it fits, parts of it are searched where it does not."""

from intarsia import agent

reader = agent.Model("llama70b", shape="llama-3.1-70b", context_tokens=131072)
reranker = agent.Model("reranker", parameters=568e6)  # bge-reranker-v2-m3, its model card
embedder = agent.Model("embedder", parameters=568e6)  # bge-m3, its model card: 1,024 dimensions


@agent.function(ms=40, tokens=agent.Amount(9000, p95=32000, max=100000))
def extract(document):
    """Read the text out of a document."""


# Documents of LongBench (Bai et al., 2023, arXiv 2308.14508): 6,711 words on average, 9,000 tokens. A document that was
# uploaded is some hundred kilobytes. Reports of a whole collection are searched instead.
@agent.graph(
    agent.data(400_000, p95=1_500_000), agent.text(30, p95=70), sla=agent.Sla(p95_ms=25000, requests_per_second=2)
)
def ask(document, question):
    """Answer a question about a document."""
    length = agent.Amount(130, p95=350, max=1024)
    content = extract(document)

    def whole():
        return reader.answer(content, question, tokens=length, instruction_tokens=150, label="read all")

    def parts():
        collection = agent.Index(
            "collection", vectors=300_000, dimension=1024, chunk_tokens=256, embedder=embedder, visited=0.01
        )
        found = collection.retrieve(question, top_k=50, label="find")
        best = reranker.infer(question, found, tokens=8 * 256, label="rerank")
        return reader.answer(best, question, tokens=length, instruction_tokens=150, label="read parts")

    return agent.branch({"whole": (0.7, whole), "parts": (0.3, parts)}, on=content, decide="fits_in_context")


if __name__ == "__main__":
    print(ask, end="")
