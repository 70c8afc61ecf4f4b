# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write agents: graphs of tasks with expected sizes, which the planner places on machines.

A graph is a Python function that is run once, with placeholder values. The tasks that it calls are recorded and printed
as IR of the dialect ``agent``:

>>> from intarsia import agent
>>> llama = agent.Model("llama70b", shape="llama-3.1-70b")
>>> minilm = agent.Model("minilm", parameters=2.27e7)
>>> docs = agent.Index("kb", vectors=10_000_000, dimension=384, chunk_tokens=100, embedder=minilm)
>>> @agent.graph(agent.text(400, p95=900), sla=agent.Sla(p95_ms=3000, ttft_ms=250, tbt_ms=20, requests_per_second=20))
... def support(question):
...     return llama.answer(question, docs.retrieve(question, top_k=8), tokens=agent.Amount(300, p95=700, max=1024))
>>> print(support)  # doctest: +ELLIPSIS
agent.model @minilm {parameters = 22700000.0}
...

Sizes are in tokens (text), pixels (images), seconds (audio, video) and bytes (data); times in milliseconds. A number is
a constant; :class:`Amount` says more.
"""

from .agents.graph import (
    AgentError,
    Amount,
    Graph,
    Index,
    Memory,
    Model,
    Size,
    Sla,
    Tool,
    Value,
    audio,
    branch,
    compute,
    data,
    function,
    graph,
    image,
    join,
    loop,
    map,
    module,
    stream,
    text,
    video,
)
from .agents.langgraph import convert as from_langgraph

__all__ = [
    "AgentError",
    "Amount",
    "Graph",
    "Index",
    "Memory",
    "Model",
    "Size",
    "Sla",
    "Tool",
    "Value",
    "audio",
    "branch",
    "compute",
    "data",
    "from_langgraph",
    "function",
    "graph",
    "image",
    "join",
    "loop",
    "map",
    "module",
    "stream",
    "text",
    "video",
]

# Messages and help() show the public names.
for _name in __all__:
    globals()[_name].__module__ = __name__
