# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Summaries of long reports: each part is summarised, then the summaries are."""

from intarsia import agent

small = agent.Model("llama8b", shape="llama-3.1-8b", context_tokens=131072)
large = agent.Model("llama70b", shape="llama-3.1-70b", context_tokens=131072)


@agent.function(ms=15, tokens=agent.Amount(12500, p95=28000))
def cut(report):
    """Cut a report at headings into parts of at most 2,000 tokens."""


# GovReport (Huang et al., 2021, arXiv 2104.02112, table 1): 9,409 words, summaries of 553; 4 tokens for 3 words.
@agent.graph(agent.text(12500, p95=28000), sla=agent.Sla(p95_ms=30000, requests_per_second=1))
def summarise(report):
    """Summarise a report."""
    parts = cut(report)
    summaries = agent.map(
        lambda part: small.answer(
            part, tokens=agent.Amount(180, p95=260, max=300), instruction_tokens=120, label="summarise part"
        ),
        parts,
        width=agent.Amount(7, p95=15, max=40),
        each=agent.Amount(1800, max=2000),
        label="parts",
    )
    return large.answer(
        summaries, tokens=agent.Amount(737, p95=1100, max=1500), instruction_tokens=200, label="summarise summaries"
    )


if __name__ == "__main__":
    print(summarise, end="")
