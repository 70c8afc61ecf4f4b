# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A coding agent: reads an issue, looks around in the repository, edits and tests until the tests pass."""

from intarsia import agent

coder = agent.Model("qwen235b", shape="qwen3-235b-a22b", context_tokens=131072)
# Reading files and searching in them; a test run takes longer.
shell = agent.Tool("shell", ms=agent.Amount(p50=60, p95=800), concurrency=200)
tests = agent.Tool("tests", ms=agent.Amount(p50=8000, p95=60000), concurrency=40, failure_probability=0.01)
notes = agent.Memory("notes", read_ms=3, write_ms=5)


# SWE-bench issues have 195 words (Jimenez et al., 2024, arXiv 2310.06770, table 1). SWE-agent (Yang et al., 2024, arXiv
# 2405.15793) solves them in a median of 12 steps, with a limit on costs that is reached at some 40. What commands print
# is cut at some thousand tokens.
@agent.graph(agent.text(260, p95=800), sla=agent.Sla(p95_ms=600000, requests_per_second=0.2))
def code(issue):
    """Solve an issue."""
    known = notes.read(issue, tokens=agent.Amount(300, p95=600), label="recall")
    start = agent.join(known, issue)

    def step(context):
        action = coder.answer(
            context,
            tokens=agent.Amount(220, p95=600, max=2048),
            instruction_tokens=2200,
            shared_instructions=True,
            label="act",
        )
        seen = agent.branch(
            {
                "look": (0.75, lambda: shell(action, tokens=agent.Amount(700, p95=2000, max=4000), label="look")),
                "test": (0.25, lambda: tests(action, tokens=agent.Amount(400, p95=1200, max=4000), label="test")),
            },
            on=action,
            decide="choose_tool",
        )
        return agent.join(context, action, seen)

    context = agent.loop(step, start, runs=agent.Amount(14, max=40), keeps_prefix=True, until="submitted")
    report = coder.answer(
        context,
        tokens=agent.Amount(350, p95=700, max=2048),
        instruction_tokens=2200,
        shared_instructions=True,
        label="report",
    )
    notes.write(report, label="remember")
    return report


if __name__ == "__main__":
    print(code, end="")
