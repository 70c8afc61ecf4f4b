# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a server is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field

from .connection import Limits

#: Values of chat templates that requests may set: those that popular models' templates ask for.
TEMPLATE_VARIABLES = ("enable_thinking", "thinking", "reasoning_effort", "thinking_budget")


@dataclass
class ServerOptions:
    """The options of a server; `intarsia serve --help` explains them.

    Attributes
    ----------
    max_body_bytes, max_bodies_bytes : int
        The most that the body of one request, and those of all, may take.
    max_prompts : int
        The most prompts, inputs or documents of one request.
    max_requests : int
        The most requests at a time; more are answered with 429.
    max_seconds : float or None
        The time that a request may take.
    drain_seconds : float
        The time that running requests get when the server ends.
    ignores_unknown : bool
        Ignore fields that the server does not know, instead of refusing the request.
    template_variables : tuple of str
        What ``chat_template_kwargs`` may set.
    shares_prefixes : bool
        Requests with different API keys share the state of prompts that begin alike.
    opens_metrics : bool
        ``/metrics`` asks for no API key.
    vllm_metrics : bool
        Metrics are also given with vLLM's names.
    """

    max_body_bytes: int = 16 * 1024 * 1024
    max_bodies_bytes: int = 256 * 1024 * 1024
    max_prompts: int = 2048
    max_requests: int = 2048
    max_seconds: float | None = None
    drain_seconds: float = 30.0
    ignores_unknown: bool = False
    template_variables: tuple[str, ...] = TEMPLATE_VARIABLES
    shares_prefixes: bool = False
    opens_metrics: bool = False
    vllm_metrics: bool = False
    limits: Limits = field(default_factory=Limits)
