# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Import graphs of LangGraph: nodes become tasks, conditional edges branches, edges back loops.

A node is a Python function whose cost is not known. An annotation gives it, as a decorator of the function or as the
node's metadata:

>>> from intarsia import agent, langgraph
>>> llama = agent.Model("llama8b", shape="llama-3.1-8b")
>>> @langgraph.llm(llama, tokens=agent.Amount(300, p95=700))
... def respond(state): ...
>>> builder.add_node("respond", respond)                                               # doctest: +SKIP
>>> builder.add_node("respond", run, metadata={"intarsia": langgraph.llm(llama, tokens=300)})  # doctest: +SKIP

Keys of the state are the values that flow. A node reads the keys in `reads` (by default all that exist) and writes the
keys in `writes` (by default all with a reducer, or all keys if none has one). A key with a reducer grows by each write;
any other key is replaced. Nodes run in supersteps, as in LangGraph: a node sees the writes of earlier supersteps, and
waits for the nodes whose writes it reads. A node with several incoming edges runs once for each superstep in which it
is reached, or once if it waits (``add_edge([…], node)``, ``defer=True``). Several ways out of a node, edges and
conditional edges, are taken in the same superstep, each independently of the others.

In the converted graph the number of a loop's runs and the case taken in a run are independent, and so is the node that
comes after a loop that may be left to several. Expected executions are those of the LangGraph graph; the probability
that a node runs at all may differ if a case ends the loop.
"""

from .agents.langgraph import Annotation, compute, convert, llm, probabilities, retrieve, sends, several, tool

__all__ = ["Annotation", "compute", "convert", "llm", "probabilities", "retrieve", "sends", "several", "tool"]

# Messages and help() show the public names.
for _name in __all__:
    globals()[_name].__module__ = __name__
