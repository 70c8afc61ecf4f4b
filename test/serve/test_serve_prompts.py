# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tokens of a chat whose answer has begun, against the package tokenizers on the whole text."""

from __future__ import annotations

import string
from typing import Any

import pytest
from intarsia.generation.texts import ModelTexts
from intarsia.serve.prompts import Prompts
from intarsia.text.chat import ChatTemplate
from intarsia.text.tokenizer import Text
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

CONTROLS = ["<s>", "</s>", "<|user|>", "<|assistant|>"]

#: Texts in which tokens run over the end of a template and the beginning of an answer, such as ":we".
TEMPLATES = {
    "control token": "<s>{% for m in messages %}<|user|>{{ m.content }}</s>{% endfor %}<|assistant|>",
    "line": "<s>{% for m in messages %}<|user|>\n{{ m.content }}</s>\n{% endfor %}<|assistant|>\n",
    "letters": "{% for m in messages %}user: {{ m.content }}\n{% endfor %}model:",
    "half a token": "{% for m in messages %}user: {{ m.content }}\n{% endfor %}model:<",
    "space": "{% for m in messages %}user: {{ m.content }}\n{% endfor %}model: ",
}
BEGINNINGS = ["we", " we", "", "  we were", "we </s>", "\nwe", "</s>we", "/s>we"]


def tokenizer_of(pre_tokenizer: Any, normalizer: Any = None, space: str = "▁") -> Tokenizer:
    letters = [*string.ascii_letters, *"<>|/:.\n �"] if space == "▁" else pre_tokenizers.ByteLevel.alphabet()
    merges = [("w", "e"), (space, "we"), (":", "we"), (":", f"{space}we"), ("e", "l"), ("el", ":"), (space, space)]
    words = ["<unk>", *sorted({*letters, space}), *("".join(pair) for pair in merges)]
    model = models.BPE({word: i for i, word in enumerate(dict.fromkeys(words))}, merges, unk_token="<unk>")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in CONTROLS])
    return tokenizer


TOKENIZERS = {
    "a space first": lambda: tokenizer_of(pre_tokenizers.Metaspace("▁", "first", split=False)),
    "a space before each part": lambda: tokenizer_of(pre_tokenizers.Metaspace("▁", "always", split=False)),
    "no space": lambda: tokenizer_of(pre_tokenizers.Metaspace("▁", "never", split=False)),
    "a space by the normalizer": lambda: tokenizer_of(
        None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    ),
    "bytes": lambda: tokenizer_of(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), space="Ġ"),
}


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_begun_answer_is_encoded_with_what_is_before_it(name: str, template: str) -> None:
    tokenizer = TOKENIZERS[name]()
    chat_template = ChatTemplate({"default": TEMPLATES[template]})
    prompts = Prompts(ModelTexts(Text(tokenizer, chat_template), tokenizer.get_vocab_size()))
    user = {"role": "user", "content": "were we"}
    rendered = chat_template.render([user])
    for beginning in BEGINNINGS:
        answer = {"role": "assistant", "content": beginning}
        ids = prompts.encode_chat([user, answer], None, {}, continues=True)
        whole = tokenizer.encode(rendered + beginning, add_special_tokens=False).ids
        if (rendered + beginning).count("</s>") == rendered.count("</s>"):
            assert ids == whole
            continue
        # Control tokens of the template are one token each; one that the answer spells is letters.
        assert ids != whole
        assert all(ids.count(tokenizer.token_to_id(text)) == rendered.count(text) for text in CONTROLS)
        letters = "".join(map(tokenizer.id_to_token, ids)).replace("▁", " ").replace("Ġ", " ").replace("Ċ", "\n")
        assert letters.endswith(beginning)
