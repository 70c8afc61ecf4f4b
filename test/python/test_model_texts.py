# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The texts of a model, for generators and servers."""

from __future__ import annotations

from types import SimpleNamespace

import intarsia
import pytest
import tokenizers
from intarsia.generation.texts import Limits, ModelTexts, limits_of, open_texts
from intarsia.text.tokenizer import Text
from tokenizers import models, pre_tokenizers

WORDS = ["<unk>", "the", "violin", "</s>", "<|end|>", "plays"]
TEMPLATE = intarsia.ChatTemplate(
    {"default": "{{ messages[0].content }}", "tool_use": "plays"}, {"eos_token": "<|end|>"}
)


def text(template: intarsia.ChatTemplate | None = TEMPLATE, document_end: int | None = None) -> Text:
    tokenizer = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["</s>", "<|end|>"])
    return Text(tokenizer, template, document_end)


def test_a_template_may_end_answers_with_another_token():
    assert ModelTexts(text(), 6, [3]).ends == {3, 4}
    assert ModelTexts(text(None), 6, [3]).ends == {3}
    assert ModelTexts(text(), 4, [3]).ends == {3}  # the model does not have it


def test_documents_end_as_the_model_says_or_the_tokenizer():
    assert ModelTexts(text(), 6, [5, 3]).encode_document("the violin") == [1, 2, 3]
    assert ModelTexts(text(document_end=4), 6, [3]).encode_document("the violin") == [1, 2, 4]
    assert ModelTexts(text(), 6, [3]).encode_document("the violin </s>") == [1, 2, 3]


def test_tokens_that_the_model_does_not_have_are_refused():
    texts = ModelTexts(text(), 5, [3])
    assert texts.encode("the violin") == [1, 2]
    message = "has 'plays', token 5, which the model does not have: its vocabulary is 0 to 4"
    with pytest.raises(intarsia.InvalidArgumentError, match=f"a prompt {message}"):
        texts.encode("the violin plays")
    with pytest.raises(intarsia.InvalidArgumentError, match=f"messages {message}"):
        texts.encode_chat([{"role": "user", "content": "the violin plays"}])


def test_chats_have_the_template_that_is_named():
    texts = ModelTexts(text(), 6)
    user = {"role": "user", "content": "the"}
    assert texts.encode_chat([user]) == [1]
    assert texts.encode_chat([user], tools=[{}]) == [5]
    for number in range(20):
        assert texts.encode_chat([user], template="violin " * number) == [2] * number
    assert texts.encode_chat([user]) == [1]


def test_another_template_keeps_the_special_tokens():
    texts = open_texts(Limits(6, 8, {3}), text(), "{{ eos_token }} violin")
    assert texts.encode_chat([{"role": "user", "content": "the"}]) == [4, 2]
    assert texts.ends == {3, 4}
    with pytest.raises(intarsia.InvalidArgumentError, match="the tokenizer has 6 tokens, the model 5"):
        open_texts(Limits(5, 8, {3}), text())


class Artifact(dict):
    """A module of functions, by name."""

    path = "a.itx"


def test_a_step_without_ranges_is_no_language_model():
    ids, places = (SimpleNamespace(name=name, value_range=(0, 9)) for name in ("input_ids", "positions"))
    signature = SimpleNamespace(inputs=[ids, places], metadata={"eos_token_ids": [2]})
    assert limits_of(Artifact(step=SimpleNamespace(signature=signature))) == Limits(9, 9, {2})
    signature.inputs = [ids]
    with pytest.raises(intarsia.InvalidArgumentError, match=r"a\.itx: .* no range for an input 'positions'"):
        limits_of(Artifact(step=SimpleNamespace(signature=signature)))
