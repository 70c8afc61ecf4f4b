# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that embed texts, or score pairs of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..generation.texts import ModelTexts
from ..runtime.module import Module
from ..support.errors import InvalidArgumentError
from ..text.tokenizer import Text
from .errors import RequestError
from .prompts import Prompts

#: Tokens, with padding, that one call computes.
_BATCH_TOKENS = 8192
#: The context of a model whose artifact has no limit of it: that of BERT and most encoders after it.
_CONTEXT = 512


class Encoder:
    """A compiled encoder: one with a function ``embed`` (sentence-transformers), or a classifier of one class.

    Parameters
    ----------
    name : str
        Its name in requests.
    module : Module
        The artifact.
    tokenizer : tokenizers.Tokenizer
        The tokenizer.

    Attributes
    ----------
    embeds : bool
        True: texts become vectors. False: pairs of texts get scores.
    context : int
        The most tokens of a text.
    """

    def __init__(self, name: str, module: Module, tokenizer: Any) -> None:
        self.name, self.tokenizer = name, tokenizer
        self.created = int(time.time())
        self.embeds = "embed" in module.functions
        self._function = module["embed" if self.embeds else "main"]
        inputs = {value.name: value for value in self._function.signature.inputs}
        outputs = self._function.signature.outputs
        if "input_ids" not in inputs or len(outputs) != 1 or not (self.embeds or outputs[0].shape[-1] == 1):
            raise InvalidArgumentError(
                f"{module.path}: has neither a function 'step' (a language model) nor 'embed' (a sentence encoder), "
                "nor one class (a model that ranks): there is nothing to serve",
                "invalid argument",
            )
        ids = inputs["input_ids"]
        self.vocabulary = ids.value_range[1] if ids.value_range else tokenizer.get_vocab_size()
        self.context = ids.maxima[1] or _CONTEXT
        self.dimensions = outputs[0].shape[-1]
        self._has_mask, self._has_types = "attention_mask" in inputs, "token_type_ids" in inputs
        self._texts = ModelTexts(Text(tokenizer), self.vocabulary)
        self.prompts = Prompts(self._texts)
        self.thread = ThreadPoolExecutor(1, f"intarsia-{name}")
        self.tokens = 0

    def check_lengths(self, where: str, texts: Sequence[Sequence[int]]) -> None:
        """Refuse texts that are longer than the model's context."""
        for number, ids in enumerate(texts):
            if len(ids) > self.context:
                param = where if len(texts) == 1 else f"{where}[{number}]"
                raise RequestError(
                    f"{param} has {len(ids)} tokens; the model's context is {self.context} tokens",
                    param,
                    code="context_length_exceeded",
                )

    def compute(self, texts: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None) -> np.ndarray:
        """Return a row of floats for each text: [texts, dimensions]; `types` says which part of a pair a token is."""
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        result = np.empty((len(texts), self.dimensions), np.float32)
        begin = 0
        while begin < len(order):
            end = begin + 1
            while end < len(order) and len(texts[order[end]]) * (end + 1 - begin) <= _BATCH_TOKENS:
                end += 1
            part = order[begin:end]
            result[part] = self._call([texts[i] for i in part], None if types is None else [types[i] for i in part])
            begin = end
        self.tokens += sum(map(len, texts))
        return result

    def _call(self, texts: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None) -> np.ndarray:
        longest = max(map(len, texts))
        ids, mask, kinds = (np.zeros((len(texts), longest), np.int64) for _ in range(3))
        if not self._has_mask and any(len(text) != longest for text in texts):
            return np.concatenate([self._call([text], types and [types[i]]) for i, text in enumerate(texts)])
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
            if types is not None:
                kinds[row, : len(text)] = types[row]
        arguments = {"input_ids": ids}
        if self._has_mask:
            arguments["attention_mask"] = mask
        if self._has_types and types is not None:
            arguments["token_type_ids"] = kinds
        return np.asarray(self._function(**arguments), np.float32)

    def encode_pair(self, first: str, second: str, param: str) -> tuple[list[int], list[int]]:
        """Return the token ids of two texts as one, and which of the two each is of."""
        try:
            encoding = self._texts.encode_pair(first, second, param)
        except InvalidArgumentError as error:
            raise RequestError(str(error), param) from error
        return encoding.ids, encoding.type_ids
