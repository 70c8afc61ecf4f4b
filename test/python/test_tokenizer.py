# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokenizers that artifacts carry, that lie beside them, and that a user names."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import intarsia
import pytest
import tokenizers
from intarsia.text.encoding import encode
from intarsia.text.tokenizer import open_tokenizer

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
HELLO = [{"role": "user", "content": "Hello"}]
GOLDENS = json.loads((Path(__file__).resolve().parent / "tokenizer_goldens.json").read_text())


def copy_model(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in ("config.json", "model.safetensors", *names):
        (folder / name).symlink_to(MODEL / name)
    return folder


def move(artifact: Path, folder: Path) -> Path:
    """Copy an artifact and its weights to a folder of their own."""
    for file in (artifact, artifact.with_suffix(".safetensors")):
        shutil.copy(file, folder / file.name)
    return folder / artifact.name


def write_tokenizer(folder: Path, changes: dict[str, object], files: dict[str, object]) -> Path:
    """Write the tokenizer of the example without a begin, with changes and other files."""
    folder.mkdir(exist_ok=True)
    description = json.loads((MODEL / "tokenizer.json").read_text()) | {"post_processor": None} | changes
    for name, content in {"tokenizer.json": description, **files}.items():
        (folder / name).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden["name"])
def test_as_transformers(golden, tmp_path):
    tokenizer = open_tokenizer(write_tokenizer(tmp_path / "m", golden["changes"], golden["files"])).tokenizer
    for text, ids, decoded in zip(golden["texts"], golden["ids"], golden["decoded"], strict=True):
        assert encode(tokenizer, text) == ids
        assert tokenizer.decode(ids) == decoded


def test_prompts_begin_as_in_transformers(glossary_artifact, tmp_path):
    """The model has a token for that, which is put only where the tokenizer puts it."""
    module = intarsia.load(glossary_artifact)
    goldens = [golden for golden in GOLDENS if golden["name"].startswith("begin: ")]
    assert len(goldens) == 42
    for golden in goldens:
        folder = write_tokenizer(tmp_path / "m", golden["changes"], golden["files"])
        generator = intarsia.Generator(module, tokenizer=folder)
        (ids,) = golden["ids"][:1]
        assert generator.encode(golden["texts"][0]) == ids, golden["name"]
        assert generator.encode_document(golden["texts"][0]) == [*ids, 1]


PIECES = {"normalizer": {"type": "Prepend", "prepend": "_"}, "pre_tokenizer": None, "decoder": None}
SPACE = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize(
    ("changes", "config", "message"),
    [
        ({}, {"split_special_tokens": "yes"}, "split_special_tokens is 'yes', must be true or false"),
        ({}, {"add_prefix_space": 1}, "add_prefix_space is 1, must be true or false"),
        (PIECES, {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}, "is false, but tokenizer.json puts a"),
        (PIECES, {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": True}, None),
        (PIECES, {"tokenizer_class": "LlamaTokenizer"}, None),
        (PIECES, {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": False}, None),
        ({}, {"add_prefix_space": True}, "is true, but tokenizer.json puts no space before a text: save the tokenizer"),
        ({"pre_tokenizer": SPACE}, {"add_prefix_space": True}, None),
        ({}, {"added_tokens_decoder": []}, "added_tokens_decoder is no object"),
        ({}, {"added_tokens_decoder": {"x": {"content": "a"}}}, "has a key 'x', must be a token id"),
        ({}, {"added_tokens_decoder": {"7": {"text": "a"}}}, r"added_tokens_decoder\[7\] is neither a token nor an object"),
        ({}, {"added_tokens_decoder": {"7": {"content": "a", "lstrip": 3}}}, r"added_tokens_decoder\[7\]: "),
        ({}, {"extra_special_tokens": [7]}, "an item of extra_special_tokens is neither a token nor an object"),
        ({}, {"additional_special_tokens": 7}, "extra_special_tokens is neither a list of tokens nor an object"),
        ({}, {"eos_token": 7}, "eos_token is neither a token nor an object"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_followed(changes, config, message, tmp_path):
    folder = write_tokenizer(tmp_path / "m", changes, {"tokenizer_config.json": config})
    if message is None:
        assert open_tokenizer(folder).tokenizer
        return
    with pytest.raises(intarsia.InvalidArgumentError, match=rf"tokenizer_config\.json: .*{message}"):
        open_tokenizer(folder)


def test_opened_tokenizers_that_cut_or_pad(glossary_artifact):
    tokenizer = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    for enable, setting in (
        (lambda: tokenizer.enable_truncation(4), "truncation"),
        (tokenizer.enable_padding, "padding"),
    ):
        enable()
        with pytest.raises(
            intarsia.InvalidArgumentError, match=rf"the tokenizer has {setting}, .* no_{setting}\(\), or"
        ):
            intarsia.Generator(glossary_artifact, tokenizer=tokenizer)
        getattr(tokenizer, f"no_{setting}")()
    assert len(intarsia.Generator(glossary_artifact, tokenizer=tokenizer).encode("an instrument with four strings")) > 4


def test_the_artifact_is_all_that_texts_need(glossary_artifact, tmp_path):
    path = move(glossary_artifact, tmp_path)
    module = intarsia.load(path, verify=True)
    assert module.files == ("tokenizer.json",)
    assert module.file("tokenizer.json") == (MODEL / "tokenizer.json").read_bytes()
    with pytest.raises(intarsia.NotFoundError, match=r"carries no file 'none'; it carries: tokenizer\.json"):
        module.file("none")
    (own,) = intarsia.Generator(path).generate("violin (noun):", 12)
    (given,) = intarsia.Generator(path, tokenizer=MODEL).generate("violin (noun):", 12)
    assert own == given
    assert own.text


def test_chat_templates_and_settings_are_carried(tools, tmp_path):
    folder = copy_model(tmp_path / "model")
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    config = {"bos_token": "<s>", "eos_token": "Ġviol", "mask_token": "Ġthe"}
    files = {"tokenizer_config.json": config, "added_tokens.json": {"Ġviol": 1929}, "special_tokens_map.json": {}}
    write_tokenizer(folder, {"truncation": truncation}, files)
    (folder / "chat_template.jinja").write_text("{{ bos_token }}{{ messages[0].content }}é")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "rag.jinja").write_text("rag")
    (folder / "README.md").write_text("not carried")
    tools.compile(folder, "-o", tmp_path / "m.itx", "--embed-weights")
    carried = intarsia.Generator(tmp_path / "m.itx")
    assert carried.module.files == (
        *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
        *("chat_template.jinja", "additional_chat_templates/rag.jinja"),
    )
    given = intarsia.Generator(tmp_path / "m.itx", tokenizer=folder)
    assert carried.chat_template == given.chat_template
    assert carried.chat_template.render(HELLO, template="rag") == "rag"
    assert carried.encode_chat(HELLO) == given.encode_chat(HELLO) == carried.tokenizer.encode("<s>Helloé").ids
    text = "of Ġviol in Ġthe end"
    assert carried.encode(text) == given.encode(text) == carried.tokenizer.encode(text).ids
    of = [carried.tokenizer.token_to_id(token) for token in ("of", "Ġ", "Ġviol", "Ġin", "Ġ", "Ġthe", "Ġend")]
    assert carried.encode(text) == of
    # The end that only the files beside tokenizer.json make a token ends an answer.
    assert {1, 1929} <= carried._texts.ends
    shutil.rmtree(folder)
    assert intarsia.Generator(tmp_path / "m.itx").encode_chat(HELLO) == carried.encode_chat(HELLO)


def test_phases_in_between_keep_the_files(tools, tmp_path):
    copy_model(tmp_path / "model", "tokenizer.json")
    tools.compile(tmp_path / "model", "--stop-after=lower", "-o", tmp_path / "lowered.mlir")
    assert 'nn.files = ["tokenizer.json"]' in (tmp_path / "lowered.mlir").read_text()
    archives = f"--archives={tmp_path / 'model'}"
    tools.compile(tmp_path / "lowered.mlir", "--start-from=target", archives, "-o", tmp_path / "m.itx")
    assert intarsia.Generator(tmp_path / "m.itx").encode("violin")


def test_models_without_a_tokenizer(tools, wordless_artifact, tmp_path):
    result = tools.compile(copy_model(tmp_path / "model"), "-o", tmp_path / "m.itx")
    assert "remark: " in result.stderr
    assert "has no tokenizer.json, so that the artifact gets no tokenizer" in result.stderr
    generator = intarsia.Generator(wordless_artifact)
    assert (generator.tokenizer, generator.chat_template, generator.module.files) == (None, None, ())
    (result,) = generator.generate([0, 100, 101], max_tokens=4)
    assert result.text is None
    assert list(generator.stream([0, 100, 101], max_tokens=4)) == result.ids
    why = r" needs a tokenizer\. .*glossary\.itx: carries no tokenizer, as the model that it was compiled from had none"
    for ask, what in (
        (lambda: generator.generate("violin"), "a text"),
        (lambda: generator.encode_document("violin"), "a text"),
        (lambda: generator.generate([1], stop="a"), "a stop string"),
        (lambda: generator.generate([1], regex="a"), "what keeps a text in a form"),
        (lambda: generator.chat(HELLO), "a chat"),
    ):
        with pytest.raises(intarsia.InvalidArgumentError, match=what + why):
            ask()


def test_a_tokenizer_beside_the_artifact(wordless_artifact, tmp_path):
    path = move(wordless_artifact, tmp_path)
    assert intarsia.Generator(path).tokenizer is None
    (tmp_path / "tokenizer.json").symlink_to(MODEL / "tokenizer.json")
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}")
    generator = intarsia.Generator(path)
    assert [0, *generator.encode_chat(HELLO)] == generator.tokenizer.encode("Hello").ids


def test_a_carried_tokenizer_goes_before_one_beside(glossary_artifact, tmp_path):
    path = move(glossary_artifact, tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert intarsia.Generator(path).encode("violin") == intarsia.Generator(path, tokenizer=MODEL).encode("violin")


def test_token_ids_do_without_what_cannot_be_opened(glossary_artifact, wordless_artifact, tmp_path, monkeypatch):
    (tmp_path / "tokenizer.json").write_text("{}")
    generator = intarsia.Generator(move(wordless_artifact, tmp_path))
    assert generator.generate([0, 100], 2)[0].text is None
    with pytest.raises(intarsia.InvalidArgumentError, match=r"a text needs a tokenizer\. .*tokenizer\.json: "):
        generator.generate("violin")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    generator = intarsia.Generator(glossary_artifact)
    assert generator.generate([0, 100], 2)[0].text is None
    with pytest.raises(intarsia.InvalidArgumentError, match=r"a text needs .* pip install 'intarsia\[text\]'"):
        generator.generate("violin")
    with pytest.raises(intarsia.NotFoundError, match=r"pip install 'intarsia\[text\]'"):
        intarsia.Generator(glossary_artifact, tokenizer=MODEL)


def test_panics_of_the_package_are_errors(wordless_artifact, tmp_path):
    """It ends a prefix of subwords that is longer than a merge by a panic, which is no exception of Python."""
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
    model["continuing_subword_prefix"] = "######"
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    with pytest.raises(
        intarsia.InvalidArgumentError, match=r"tokenizer\.json: the package that reads it panics: range"
    ):
        intarsia.Generator(wordless_artifact, tokenizer=tmp_path)


def test_a_tokenizer_of_another_model(tools, tmp_path):
    folder = copy_model(tmp_path / "model")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({str(i): i for i in range(5000)}, unk_token="0"))
    words.save(str(folder / "tokenizer.json"))
    tools.compile(folder, "-o", tmp_path / "m.itx")
    generator = intarsia.Generator(tmp_path / "m.itx")
    assert len(generator.logits([[1, 2]])[0]) == 2
    with pytest.raises(intarsia.InvalidArgumentError, match="the tokenizer has 5000 tokens, the model 4096: is it"):
        generator.generate("1 2")


def test_added_tokens_that_the_model_does_not_have(glossary_artifact):
    larger = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    larger.add_tokens([tokenizers.AddedToken("<image>", special=True)])
    generator = intarsia.Generator(glossary_artifact, tokenizer=larger)
    expected = intarsia.Generator(glossary_artifact).generate("violin (noun):", 12)
    assert generator.generate("violin (noun):", 12) == expected
    assert generator.generate("violin (noun):", regex="(yes|no)!")[0].text in ("yes!", "no!")
    with pytest.raises(intarsia.InvalidArgumentError, match="a prompt has '<image>', token 4096, which the model does"):
        generator.generate("violin <image>")


def test_a_damaged_tokenizer(glossary_artifact, tmp_path):
    path = move(glossary_artifact, tmp_path)
    weights = path.with_suffix(".safetensors")
    data = bytearray(weights.read_bytes())
    data[data.index(b'"added_tokens"') + 2] ^= 1
    weights.write_bytes(data)
    with pytest.raises(intarsia.CorruptError, match=r"is damaged: file 'tokenizer\.json' in it does not have the hash"):
        intarsia.Generator(path).generate("violin")
