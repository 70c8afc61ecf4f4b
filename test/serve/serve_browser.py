# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A headless Chromium, driven by its DevTools protocol over pipes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")


class Browser:
    """One page.

    Attributes
    ----------
    faults : list of str
        What scripts have thrown or written as errors, and what was asked for elsewhere.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = os.fdopen(reads, "rb", 0), os.fdopen(writes, "wb", 0)
        self._numbers, self._rest, self._session = 0, b"", ""
        self.faults: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        self._numbers += 1
        message = {"id": self._numbers, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._writes.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._numbers:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = self._reads.read(1 << 16)
            assert data, "the browser has ended"
            self._rest += data
        text, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.faults.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.faults.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return message

    def open(self, url: str, width: int = 1100, height: int = 720, dark: bool = False) -> None:
        """Show a page."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 10.0) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < deadline, (script, self.run("document.body.innerText"), self.faults)
            time.sleep(0.02)

    def type(self, text: str) -> None:
        """Write into what has the focus, and press Enter."""
        self.call("Input.insertText", text=text)
        for kind in ("rawKeyDown", "char", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", windowsVirtualKeyCode=13, text="\r")

    def screenshot(self, file: Path) -> None:
        """Write a picture of the page."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """Give a browser."""
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    assert program is not None, "no Chromium is installed; `make setup` installs chromium-headless-shell"
    their_reads, our_writes = os.pipe()
    our_reads, their_writes = os.pipe()

    def at_their_places() -> None:
        high = [os.dup2(descriptor, 100 + place) for place, descriptor in ((3, their_reads), (4, their_writes))]
        for place, descriptor in zip((3, 4), high, strict=True):
            os.dup2(descriptor, place)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        flags = ("--headless", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run")
        process = subprocess.Popen(
            [program, *flags, f"--user-data-dir={folder}"],
            close_fds=False,
            preexec_fn=at_their_places,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_reads)
        os.close(their_writes)
        try:
            yield Browser(our_reads, our_writes)
        finally:
            process.kill()
            process.wait()
