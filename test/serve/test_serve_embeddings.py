# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`/v1/embeddings` and `/v1/rerank` with compiled encoders."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import intarsia
import numpy as np
import pytest
from intarsia.serve import embeddings
from intarsia.serve.encoders import Encoder
from intarsia.serve.server import Server
from safetensors.numpy import load_file, save_file
from serve_client import Client, running
from test_serve_fields import problems_of
from tokenizers import Tokenizer, models, pre_tokenizers, processors

MODELS = Path(__file__).resolve().parents[1] / "EndToEnd" / "models"
WORDS = [f"w{number}" for number in range(99)]
TEXTS = ["w5 w6 w7", "w8", "w9 w10 w11 w12 w13 w14", "w5 w6 w7 w9"]


def word_tokenizer() -> Tokenizer:
    """Return a tokenizer of 99 words, with the tokens around texts and pairs of them that BERT has."""
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="w1"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.BertProcessing(("w3", 3), ("w2", 2))
    return tokenizer


@pytest.fixture(scope="module")
def artifacts(tools: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give a sentence encoder, a classifier of three classes, and one of the first of these alone."""
    folder = tmp_path_factory.mktemp("serve")
    three = MODELS / "bert-sequence-classification"
    one = folder / "ranks"
    shutil.copytree(three, one)
    weights = load_file(three / "model.safetensors")
    weights |= {name: weights[name][:1].copy() for name in ("classifier.weight", "classifier.bias")}
    save_file(weights, one / "model.safetensors")
    config = json.loads((three / "config.json").read_text())
    (one / "config.json").write_text(json.dumps({**config, "id2label": {"0": "relevant"}}))
    tools.compile(one, "-o", folder / "ranks.itx")
    return {
        "embeds": tools.artifact(MODELS / "sentence-mean"),
        "classes": tools.artifact(three),
        "ranks": folder / "ranks.itx",
    }


@pytest.fixture(scope="module")
def client(artifacts: dict[str, Path]) -> Iterator[Client]:
    tokenizer = word_tokenizer()
    encoders = [Encoder(name, intarsia.load(artifacts[name]), tokenizer) for name in ("embeds", "ranks")]
    server = Server(encoders)
    with running(server) as port:
        yield Client(server, port, [])


def alone(artifact: Path, ids: list[int]) -> np.ndarray:
    """Return what the artifact itself gives for one text."""
    return intarsia.load(artifact).embed(input_ids=[ids], attention_mask=[[1] * len(ids)])[0]


def test_embeddings_are_those_of_the_artifact(client: Client, artifacts: dict[str, Path]) -> None:
    answer = client.json("/v1/embeddings", {"model": "embeds", "input": TEXTS})
    assert [one["index"] for one in answer["data"]] == [0, 1, 2, 3]
    ids = [word_tokenizer().encode(text).ids for text in TEXTS]
    assert answer["usage"] == {"prompt_tokens": sum(map(len, ids)), "total_tokens": sum(map(len, ids))}
    for one, text in zip(answer["data"], ids, strict=True):
        # Other texts beside it change the last bits of sums only.
        np.testing.assert_allclose(one["embedding"], alone(artifacts["embeds"], text), rtol=0, atol=1e-5)
    by_ids = client.json("/v1/embeddings", {"model": "embeds", "input": ids})
    assert by_ids["data"] == answer["data"]
    one = client.json("/v1/embeddings", {"model": "embeds", "input": TEXTS[0]})
    assert len(one["data"]) == 1


def test_embeddings_in_base64_and_shorter_ones(client: Client) -> None:
    floats = client.json("/v1/embeddings", {"model": "embeds", "input": TEXTS})["data"]
    coded = client.json("/v1/embeddings", {"model": "embeds", "input": TEXTS, "encoding_format": "base64"})["data"]
    for one, other in zip(floats, coded, strict=True):
        got = np.frombuffer(base64.b64decode(other["embedding"]), "<f4")
        np.testing.assert_array_equal(got, np.float32(one["embedding"]))
    short = client.json("/v1/embeddings", {"model": "embeds", "input": TEXTS[0], "dimensions": 4})["data"][0]
    wanted = np.float32(floats[0]["embedding"])[:4]
    np.testing.assert_allclose(short["embedding"], wanted / np.linalg.norm(wanted), rtol=1e-5)


def test_rerank_by_embeddings_is_by_cosine(client: Client) -> None:
    answer = client.json("/v1/rerank", {"model": "embeds", "query": TEXTS[0], "documents": TEXTS, "top_n": 3})
    results = answer["results"]
    assert len(results) == 3
    assert results[0]["index"] == 0
    assert results[0]["relevance_score"] == pytest.approx(1.0, abs=1e-5)
    assert results[0]["document"] == {"text": TEXTS[0]}
    scores = [one["relevance_score"] for one in results]
    assert scores == sorted(scores, reverse=True)


def test_rerank_by_pairs_is_the_classifier_s(client: Client, artifacts: dict[str, Path]) -> None:
    body = {"model": "ranks", "query": "w20 w21", "documents": TEXTS, "return_documents": False}
    results = client.json("/rerank", body)["results"]
    assert "document" not in results[0]
    classes = intarsia.load(artifacts["classes"])
    tokenizer = word_tokenizer()
    for one in results:
        pair = tokenizer.encode("w20 w21", TEXTS[one["index"]])
        logits = classes.main(
            input_ids=[pair.ids], attention_mask=[[1] * len(pair.ids)], token_type_ids=[pair.type_ids]
        )
        assert one["relevance_score"] == pytest.approx(1 / (1 + np.exp(-np.float64(logits[0, 0]))), abs=1e-5)


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/v1/embeddings", {"input": []}, "input"), ("/v1/embeddings", {"input": [[]]}, "input"),
        ("/v1/embeddings", {"input": ["w5", 7]}, "input[1]"), ("/v1/embeddings", {"input": [99]}, "input[0]"),
        ("/v1/embeddings", {"dimensions": 0}, "dimensions"), ("/v1/embeddings", {"dimensions": 999}, "dimensions"),
        ("/v1/embeddings", {"encoding_format": "int8"}, "encoding_format"),
        ("/v1/embeddings", {"input": " ".join(WORDS)}, "input"), ("/v1/embeddings", {"model": "ranks"}, "model"),
        ("/v1/rerank", {"documents": []}, "documents"), ("/v1/rerank", {"documents": [7]}, "documents[0]"),
        ("/v1/rerank", {"query": None}, "query"), ("/v1/rerank", {"top_n": 0}, "top_n"),
        ("/v1/chat/completions", {"messages": []}, "model"),
    ],
)  # fmt: skip
def test_refused(client: Client, path: str, fields: dict[str, Any], param: str) -> None:
    plain = {"/v1/embeddings": {"input": "w5"}, "/v1/rerank": {"query": "w5", "documents": ["w6"]}}.get(path, {})
    assert client.error(path, {"model": "embeds", **plain, **fields})["param"] == param


@pytest.mark.parametrize(
    ("path", "plain", "names"),
    [
        ("/v1/embeddings", {"model": "embeds", "input": "w5"}, embeddings._EMBED_NAMES),
        ("/v1/rerank", {"model": "ranks", "query": "w5", "documents": ["w6"]}, embeddings._RANK_NAMES),
    ],
    ids=["embeddings", "rerank"],
)
def test_values_of_other_types(client: Client, path: str, plain: dict[str, Any], names: set[str]) -> None:
    assert problems_of(client, path, plain, names) == ""


@pytest.mark.parametrize(("model", "path"), [("embeds", "/v1/embeddings"), ("embeds", "/rerank"), ("ranks", "/rerank")])
def test_texts_that_the_tokenizer_does_not_know(artifacts: dict[str, Path], model: str, path: str) -> None:
    tokenizer = word_tokenizer()
    tokenizer.model = models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="none")
    tokenizer.add_tokens(["beyond"])
    server = Server([Encoder(model, intarsia.load(artifacts[model]), tokenizer)])
    with running(server) as port:
        client = Client(server, port, [])
        for text, message in (("unheard", "the tokenizer cannot encode"), ("beyond", "token 99")):
            rank = {"query": "w5", "documents": ["w6", text]}
            body = {"model": model, "input": text} if path == "/v1/embeddings" else {"model": model, **rank}
            error = client.error(path, body)
            assert error["param"] == ("input" if path == "/v1/embeddings" else "documents[1]")
            assert message in error["message"]
            assert client.error("/rerank", {"model": model, **rank, "query": text})["param"] in (
                "query",
                "documents[0]",
            )


def test_artifact_that_is_none_of_these(artifacts: dict[str, Path]) -> None:
    with pytest.raises(intarsia.InvalidArgumentError, match="nothing to serve"):
        Encoder("classes", intarsia.load(artifacts["classes"]), word_tokenizer())
