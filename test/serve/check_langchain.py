# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tests that LangChain has for chat models, with ChatOpenAI against random_server.py.

As for check_clients.py: ``pip install langchain-openai langchain-tests`` elsewhere, then
``SERVE_PORT=… SERVE_MODEL=hermes pytest --force-enable-socket -o asyncio_mode=auto -o
asyncio_default_test_loop_scope=session -c /dev/null check_langchain.py``. Tests that need a model that knows what it says
are expected to fail, each with its reason. With ``SERVE_RESPONSES=1`` the client speaks the Responses interface.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

URL = f"http://127.0.0.1:{os.environ.get('SERVE_PORT', '8000')}/v1"


class TestServer(ChatModelIntegrationTests):
    """LangChain's tests."""

    @property
    def chat_model_class(self) -> type[ChatOpenAI]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {
            "model": os.environ.get("SERVE_MODEL", "hermes"),
            "base_url": URL,
            "api_key": "none",
            "max_retries": 0,
            "stream_usage": True,
            "use_responses_api": "SERVE_RESPONSES" in os.environ,
        }

    @property
    def supports_json_mode(self) -> bool:
        return True

    @pytest.mark.xfail(
        reason="the one call must have the input 3: the form holds that it is a whole number, random tokens write another"
    )
    def test_tool_calling(self, model: Any) -> None:
        super().test_tool_calling(model)

    @pytest.mark.xfail(reason="as test_tool_calling")
    async def test_tool_calling_async(self, model: Any) -> None:
        await super().test_tool_calling_async(model)

    @pytest.mark.xfail(reason="there must be one call: parallel calls are allowed, and random tokens begin more")
    def test_tool_calling_with_no_arguments(self, model: Any) -> None:
        super().test_tool_calling_with_no_arguments(model)

    @pytest.mark.xfail(
        reason="the object must have the keys setup and punchline: this mode holds that it is an object, random tokens write other keys"
    )
    def test_json_mode(self, model: Any) -> None:
        super().test_json_mode(model)

    @pytest.mark.xfail(reason="the model must choose to call a tool: without a form, random tokens are a text")
    def test_agent_loop(self, model: Any) -> None:
        super().test_agent_loop(model)

    @pytest.mark.xfail(reason="the name must have letters of the question: the form holds that it is a text")
    def test_unicode_tool_call_integration(self, model: Any, **options: Any) -> None:
        super().test_unicode_tool_call_integration(model, **options)
