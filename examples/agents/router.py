# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A router: a small classifier sends easy questions to a small model, hard ones to a large one."""

from intarsia import agent

# RouteLLM (Ong et al., 2024, arXiv 2406.18665): a BERT-base classifier (110 M parameters) keeps 95 % of the large
# model's quality on MT-Bench with about half of the calls or fewer to it.
classifier = agent.Model("router", parameters=110e6)
small = agent.Model("llama8b", shape="llama-3.1-8b", context_tokens=131072)
large = agent.Model("llama70b", shape="llama-3.1-70b", context_tokens=131072)


# Questions and answers of chats in the open: LMSYS-Chat-1M (Zheng et al., 2023, arXiv 2309.11998, table 1) has 69.5
# tokens a prompt and 214.5 a response on average.
@agent.graph(agent.text(69.5, p95=260), sla=agent.Sla(p95_ms=15000, ttft_ms=500, tbt_ms=50, requests_per_second=40))
def route(question):
    """Answer by the model that the question needs."""
    difficulty = classifier.infer(question, tokens=1, label="classify")
    return agent.branch(
        {
            "easy": (0.6, lambda: small.answer(question, tokens=agent.Amount(190, p95=560, max=1024), label="small")),
            "hard": (0.4, lambda: large.answer(question, tokens=agent.Amount(250, p95=700, max=1024), label="large")),
        },
        on=difficulty,
        decide="difficult",
    )


if __name__ == "__main__":
    print(route, end="")
