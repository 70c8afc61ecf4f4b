# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A ReAct loop: the model thinks, calls a tool, reads what it gave, until it can answer."""

from intarsia import agent

llama = agent.Model("llama70b", shape="llama-3.1-70b", context_tokens=131072)
# Web search interfaces answer within some hundred milliseconds and cost about $5 for 1,000 calls (list prices, 2025).
search = agent.Tool(
    "web_search", ms=agent.Amount(p50=400, p95=1200), dollars_per_call=0.005, concurrency=100, failure_probability=0.01
)


# Questions of several hops: 18 words on average (HotpotQA, Yang et al., 2018, arXiv 1809.09600), at most 7 steps of the
# loop (ReAct, Yao et al., 2023, arXiv 2210.03629, section 3.1), few-shot instructions of about 1,500 tokens.
@agent.graph(agent.text(25, p95=50), sla=agent.Sla(p95_ms=45000, tbt_ms=50, requests_per_second=5))
def react(question):
    """Answer with the help of a search."""

    def turn(context):
        thought = llama.answer(
            context,
            tokens=agent.Amount(80, p95=180, max=512),
            instruction_tokens=1500,
            shared_instructions=True,
            label="think",
        )
        # Five results with titles and extracts.
        seen = search(thought, tokens=agent.Amount(500, p95=900), label="search")
        return agent.join(context, thought, seen)

    context = agent.loop(turn, question, runs=agent.Amount(3.2, max=7), keeps_prefix=True, until="answered")
    return llama.answer(
        context,
        tokens=agent.Amount(120, p95=300, max=512),
        instruction_tokens=1500,
        shared_instructions=True,
        label="answer",
    )


if __name__ == "__main__":
    print(react, end="")
