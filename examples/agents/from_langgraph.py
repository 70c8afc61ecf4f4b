# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A ReAct agent as LangGraph has it, with annotations that say what its nodes cost."""

import operator
from typing import Annotated, TypedDict

from intarsia import agent, langgraph
from langgraph.graph import END, START, StateGraph

llama = agent.Model("llama70b", shape="llama-3.1-70b", context_tokens=131072)
search = agent.Tool("web_search", ms=agent.Amount(p50=400, p95=1200), dollars_per_call=0.005, concurrency=100)


class State(TypedDict):
    """The messages so far."""

    messages: Annotated[list, operator.add]


# Sizes are those of react.py.
@langgraph.llm(llama, tokens=agent.Amount(80, p95=180, max=512), instruction_tokens=1500, shared_instructions=True)
def think(state: State) -> dict:
    """Ask the model what to do; the user's code stands here."""
    return {"messages": []}


@langgraph.tool(search, tokens=agent.Amount(500, p95=900))
def act(state: State) -> dict:
    """Call the tool that the model chose."""
    return {"messages": []}


@langgraph.probabilities(act=0.7, done=0.3, max_runs=7)
def decide(state: State) -> str:
    """Look whether the model wants to call a tool."""
    return "done"


builder = StateGraph(State)
builder.add_node("think", think)
builder.add_node("act", act)
builder.add_edge(START, "think")
builder.add_conditional_edges("think", decide, {"act": "act", "done": END})
builder.add_edge("act", "think")

react = agent.from_langgraph(
    builder,
    inputs={"messages": agent.text(25, p95=50)},
    sla=agent.Sla(p95_ms=45000, tbt_ms=50, requests_per_second=5),
    name="react",
)


if __name__ == "__main__":
    print(react, end="")
