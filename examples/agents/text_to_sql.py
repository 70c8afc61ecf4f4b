# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text to SQL: the model writes a query, the database runs it, and what fails is written again."""

from intarsia import agent

coder = agent.Model("qwen32b", shape="qwen3-32b", context_tokens=131072)
writer = agent.Model("llama8b", shape="llama-3.1-8b", context_tokens=131072)
# Analytical queries over some gigabytes: mostly quick, with a long tail.
database = agent.Tool("warehouse", ms=agent.Amount(p50=150, p95=2500, p99=9000), concurrency=32)


# BIRD (Li et al., 2023, arXiv 2305.03111): questions of 16 words, schemas of 7 tables and 54 columns, which are about
# 1,500 tokens with a description of each column; queries of 31 tokens on average, more with the joins of hard ones.
# Around 60 % of first queries of a good model run and are right, a retry with the error repairs about half of the rest.
@agent.graph(agent.text(24, p95=45), sla=agent.Sla(p95_ms=20000, requests_per_second=4))
def answer(question):
    """Answer from a database."""

    def attempt(context):
        query = coder.answer(
            context,
            tokens=agent.Amount(90, p95=220, max=512),
            instruction_tokens=1700,
            shared_instructions=True,
            label="write query",
        )
        rows = database(query, tokens=agent.Amount(120, p95=400, max=2000), label="run query")
        return agent.join(context, query, rows)

    # P(1) = 0.6, then half of what is left, 4 attempts at most.
    context = agent.loop(
        attempt,
        question,
        runs=agent.Amount(1.7, max=4),
        run_probabilities=[0.6, 0.2, 0.1, 0.1],
        keeps_prefix=True,
        until="ran_without_error",
    )
    return writer.answer(context, tokens=agent.Amount(80, p95=200, max=400), label="explain")


if __name__ == "__main__":
    print(answer, end="")
