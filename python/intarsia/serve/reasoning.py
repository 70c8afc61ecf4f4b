# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a model marks what it thinks before it answers, and how much of that it is told to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from jinja2.ext import Extension

from .errors import RequestError
from .readers import Thinking

#: Markers around reasoning, by the one that ends it: templates of models that think write at least that one.
MARKERS = (
    Thinking("<think>", "</think>"),
    Thinking("[THINK]", "[/THINK]"),
    Thinking("<seed:think>", "</seed:think>"),
    Thinking("<thinking>", "</thinking>"),
)
#: The efforts of OpenAI's interface.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
#: Variables of templates that turn thinking on and off.
_SWITCHES = ("enable_thinking", "thinking")


def thinking_of(template: str, own: Thinking | None) -> Thinking | None:
    """Return the markers of a model, by its template and those that its family has."""
    if own is not None:
        return own if own.end in template else None
    return next((one for one in MARKERS if one.end in template), None)


def at_the_end(thinking: Thinking | None, prompt: str) -> Thinking | None:
    """Return the markers for the answer to a prompt, which may have begun the reasoning, or ended it."""
    if thinking is None:
        return None
    end = prompt.rstrip()
    if end.endswith(thinking.begin.rstrip()):
        return replace(thinking, is_open=True)
    return None if end.endswith(thinking.end) else thinking


def effort_variables(template: str, effort: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of a template's variables for an effort; those that the request gives are not touched.

    Raises
    ------
    RequestError
        The template knows no such variable, or the effort is unknown.
    """
    if effort is None:
        return {}
    if effort not in EFFORTS:
        raise RequestError(
            f"reasoning_effort is {effort!r:.60}, must be one of {', '.join(EFFORTS)}", "reasoning_effort"
        )
    variables: dict[str, Any] = {}
    if _names(template, "reasoning_effort"):
        known = _known_efforts(template)
        if effort not in known and effort != "none":
            raise RequestError(
                f"reasoning_effort is {effort}, the model's chat template knows {', '.join(known)}", "reasoning_effort"
            )
        if effort in known:
            variables["reasoning_effort"] = effort
    for switch in _SWITCHES:
        if _names(template, switch):
            variables[switch] = effort != "none"
            break
    if not variables:
        if effort == "none" and thinking_of(template, None) is None and not _names(template, "reasoning_effort"):
            return {}  # it does not think anyway
        raise RequestError(
            f"reasoning_effort is {effort}, which the model's chat template has no variable for: leave it out",
            "reasoning_effort",
            code="unsupported_parameter",
        )
    return {name: value for name, value in variables.items() if name not in given}


def switch_variables(template: str, thinks: bool | None) -> dict[str, Any]:
    """Return the value of the variable that turns thinking on and off; nothing where a template has none."""
    switch = next((name for name in _SWITCHES if _names(template, name)), None)
    return {} if thinks is None or switch is None else {switch: thinks}


def _known_efforts(template: str) -> list[str]:
    """Return the efforts that a template compares with; one that prints what it gets knows low, medium and high."""
    compared = [effort for effort in EFFORTS if re.search(f"""["']{effort}["']""", template)]
    return compared if len(compared) > 1 else ["low", "medium", "high"]


def _names(template: str, variable: str) -> bool:
    """Return True if a template reads a variable: one that it does not only set itself."""
    return variable in _variables(template)


@lru_cache(maxsize=64)
def _variables(template: str) -> frozenset[str]:
    """Return the variables that a template reads."""
    import jinja2
    from jinja2 import nodes

    environment = jinja2.Environment(extensions=["jinja2.ext.loopcontrols", _Generation])
    try:
        tree = environment.parse(template)  # nothing is computed
    except Exception:  # rendering says what is wrong
        return frozenset()
    read = {node.name for node in tree.find_all(nodes.Name) if node.ctx == "load"}
    written = {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
    # {% set thinking = thinking | default(false) %}, {% if not thinking is defined %}{% set thinking = false %}
    asked = {name.name for node in tree.find_all((nodes.Test, nodes.Assign, nodes.Filter)) for name in _asked(node)}
    return frozenset(name for name in read if name not in written or name in asked)


def _asked(node: Any) -> list[Any]:
    """Return names that a part of a template asks for though it may set them."""
    from jinja2 import nodes

    if isinstance(node, nodes.Assign):
        targets = {name.name for name in node.target.find_all(nodes.Name)} | {getattr(node.target, "name", None)}
        return [name for name in [node.node, *node.node.find_all(nodes.Name)] if getattr(name, "name", 0) in targets]
    is_question = node.name in ("defined", "undefined", "none", "default", "d")
    return [node.node] if is_question and isinstance(node.node, nodes.Name) else []


class _Generation(Extension):
    """The tag of transformers that marks an answer."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Any) -> Any:
        """Return what is within the tag."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
