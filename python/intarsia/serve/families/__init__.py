# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Families of chat models by how they write calls of functions; one file each."""

from __future__ import annotations

from .family import Family
from .gemma import Gemma
from .generic import Generic
from .harmony import Harmony
from .hermes import Hermes
from .llama import Llama
from .mistral import Mistral
from .xml import Xml

#: The first one that knows a template is its family; the last one knows all.
FAMILIES: tuple[Family, ...] = (Harmony(), Gemma(), *Mistral.versions(), Xml(), Hermes(), Llama(), Generic())


def family_of(template: str) -> Family:
    """Return the family of a model by its chat template."""
    return next(family for family in FAMILIES if family.knows(template))
