# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of the server, in Chromium."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from intarsia.serve.keys import Key, Keys
from serve_browser import Browser, browser
from serve_client import served, writes

#: A folder that gets pictures of the page, for eyes.
PICTURES = os.environ.get("INTARSIA_TEST_PICTURES")
ANSWER = "Inlay of many woods: <b>intarsia</b> & 木目.\n" * 4


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as one:
        yield one


def picture(page: Browser, name: str) -> None:
    if PICTURES:
        page.screenshot(Path(PICTURES) / f"{name}.png")


def test_chat_and_live_state(page: Browser) -> None:
    page.faults.clear()
    with served(writes(ANSWER), engine={"step_seconds": 0.002}) as client:
        page.open(f"http://127.0.0.1:{client.port}/")
        page.wait("document.readyState === 'complete' && document.querySelector('#status').className === 'ok'")
        picture(page, "empty")
        page.type("What is intarsia?")
        page.wait("document.querySelector('.answer .note')?.textContent.includes('tokens/s')")
        assert page.run("document.querySelector('.user').textContent") == "What is intarsia?"
        # Markup of the model is shown as it is.
        assert page.run("document.querySelector('.answer > div').textContent") == ANSWER
        assert page.run("document.querySelectorAll('.answer b').length") == 0
        page.type("And more?")
        page.wait("document.querySelectorAll('.answer .note')[1]?.textContent.includes('tokens/s')")
        prompt = client.model.tokenizer.decode(client.engine.submitted[-1].prompt, skip_special_tokens=False)
        turns = f"<|user|>What is intarsia?<|end|><|assistant|>{ANSWER}<|end|><|user|>And more?<|end|><|assistant|>"
        assert prompt == turns
        page.wait(f"document.querySelector('#generated').textContent === '{2 * len(ANSWER.encode())}'")
        assert page.run("document.querySelector('#first50').textContent").startswith("≤ ")
        picture(page, "chat")
        origins = {url.split("/")[2] for url in page.requests if url.startswith("http")}
        assert origins == {f"127.0.0.1:{client.port}"}
    assert page.faults == []


def test_model_without_a_template_continues_texts(page: Browser) -> None:
    with served(writes(" is an inlay."), template=None) as client:
        page.open(f"http://127.0.0.1:{client.port}/")
        page.wait("document.querySelector('#status')?.className === 'ok'")
        page.type("Intarsia")
        page.wait("document.querySelector('.answer > div')?.textContent === ' is an inlay.'")
        assert list(client.engine.submitted[-1].prompt) == list(b"Intarsia")


def test_stop_ends_the_stream(page: Browser) -> None:
    with served(writes("la ", ends=False)) as client:
        page.open(f"http://127.0.0.1:{client.port}/")
        page.wait("document.querySelector('#status')?.className === 'ok'")
        page.type("Sing")
        page.wait("document.querySelector('.answer > div')?.textContent.length > 20")
        page.wait("document.querySelector('#running').textContent === '1'")
        picture(page, "running")
        page.run("document.querySelector('#stop').click()")
        page.wait("document.querySelector('.answer .note').textContent === 'stopped'")
        client.wait(client.is_idle)
        assert client.engine.cancelled == [1]


def test_page_asks_for_a_key_and_shows_errors(page: Browser) -> None:
    keys = Keys([("sk-good-key", Key("alice", {}))])
    with served(writes("Hello"), keys=keys, context=16) as client:
        page.open(f"http://127.0.0.1:{client.port}/", dark=True)
        page.wait("document.querySelector('#ask-key')?.hidden === false")
        page.run("document.querySelector('#key').value = 'sk-good-key'; document.querySelector('#use-key').click()")
        page.wait("document.querySelector('#status').className === 'ok'")
        page.run("document.querySelector('#text').focus()")
        page.type("A message that is longer than the context")
        page.wait("document.querySelector('.answer .note.bad')?.textContent.includes('context')")
        picture(page, "error-dark")
