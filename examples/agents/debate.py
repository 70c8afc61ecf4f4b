# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Three models debate in two rounds, and a judge decides."""

from intarsia import agent

debaters = [
    agent.Model("llama70b", shape="llama-3.1-70b", context_tokens=131072),
    agent.Model("qwen32b", shape="qwen3-32b", context_tokens=131072),
    agent.Model("mixtral", shape="mixtral-8x7b", context_tokens=32768),
]
judge = agent.Model("gptoss120b", shape="gpt-oss-120b", context_tokens=131072)


# Three agents and two rounds as in Du et al. (2023, arXiv 2305.14325, section 3), on grade school problems of 46 words
# (GSM8K, Cobbe et al., 2021, arXiv 2110.14168); an argument step by step is about 200 tokens.
@agent.graph(agent.text(65, p95=120), sla=agent.Sla(p95_ms=30000, requests_per_second=2))
def debate(problem):
    """Let three models argue, and one decide."""
    length = agent.Amount(200, p95=380, max=1024)
    first = [
        model.answer(problem, tokens=length, instruction_tokens=80, label=f"open {model.name}") for model in debaters
    ]
    second = []
    for model, own in zip(debaters, first, strict=True):
        others = [argument for argument in first if argument is not own]
        second.append(
            model.answer(problem, own, *others, tokens=length, instruction_tokens=120, label=f"reply {model.name}")
        )
    return judge.answer(
        problem, *first, *second, tokens=agent.Amount(150, p95=300, max=512), instruction_tokens=200, label="judge"
    )


if __name__ == "__main__":
    print(debate, end="")
