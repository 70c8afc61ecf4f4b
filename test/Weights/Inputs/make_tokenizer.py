# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a GGUF file of metadata alone; "nan" as second argument: with a score that is none."""

import sys

from gguf import GGUFWriter

writer = GGUFWriter(sys.argv[1], "llama")
writer.add_string("tokenizer.ggml.model", "gpt2")
writer.add_array("tokenizer.ggml.tokens", ["a", "Ġ", "<s>"])
writer.add_array("tokenizer.ggml.scores", [0.5, float("nan") if "nan" in sys.argv else -1000.0])
writer.add_array("tokenizer.ggml.merges", ["Ġ a"])
writer.add_uint32("tokenizer.ggml.bos_token_id", 1)
writer.add_bool("tokenizer.ggml.add_bos_token", True)
writer.add_string("tokenizer.chat_template", "{{ a }}")
writer.add_string("tokenizer.huggingface.json", "{}")
writer.add_name("Phi 3")
writer.add_string("general.author", "nobody")
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.close()
