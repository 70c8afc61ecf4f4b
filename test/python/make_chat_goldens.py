#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes chat/goldens.json: what apply_chat_template of transformers makes of chat/*.jinja and chat/cases.json.

Needs: pip install transformers tokenizers jinja2. The tests need the last two.

goldens.json: a list of objects with the template's name, the chat's name, the settings, and the text; or null instead
of the text where transformers raises an exception.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

CHAT = Path(__file__).resolve().parent / "chat"


def main() -> None:
    cases = json.loads((CHAT / "cases.json").read_text())
    empty = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=empty, **cases["special_tokens"])
    settings = [
        {"add_generation_prompt": True, "date_string": "26 Jul 2024"},
        {"add_generation_prompt": False, "date_string": "26 Jul 2024"},
        {"add_generation_prompt": True, "enable_thinking": False, "date_string": "1 May", "documents": "documents"},
        {"add_generation_prompt": True, "date_string": "1 May", "tools": "tools"},
    ]
    goldens = []
    files = sorted(CHAT.glob("*.jinja"))
    for file, (name, chat), setting in itertools.product(files, cases["chats"].items(), settings):
        arguments = {key: cases[key] if key in ("documents", "tools") else value for key, value in setting.items()}
        try:
            text = tokenizer.apply_chat_template(chat, chat_template=file.read_text(), tokenize=False, **arguments)
        except Exception:
            text = None
        goldens.append({"template": file.name, "chat": name, "settings": setting, "text": text})
    (CHAT / "goldens.json").write_text(json.dumps(goldens, indent=1, ensure_ascii=False) + "\n")
    print(len(goldens), "texts,", sum(golden["text"] is None for golden in goldens), "refused")


if __name__ == "__main__":
    main()
