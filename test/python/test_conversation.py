# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``intarsia chat``, with and without a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import intarsia
import pytest

MODEL = Path(__file__).resolve().parents[2] / "examples" / "glossary"
# Every message is a line; the model goes on after the last.
TEMPLATE = "{% for m in messages %}{{ m.content }}{% if not loop.last %}\n{% endif %}{% endfor %}{{ tail }}"
ENDLESS = ("--temperature=5", "--seed=1", "--max-tokens=900")


@pytest.fixture(scope="module")
def command(glossary_artifact, tmp_path_factory) -> list[str]:
    template = tmp_path_factory.mktemp("chat") / "template.jinja"
    template.write_text(TEMPLATE)
    arguments = ["chat", glossary_artifact, f"--tokenizer={MODEL}", f"--chat-template={template}"]
    return [sys.executable, "-m", "intarsia", *map(str, arguments)]


@pytest.fixture(scope="module")
def answers(glossary_artifact):
    """Return what the model answers to messages, and the history with it."""
    generator = intarsia.Generator(glossary_artifact, tokenizer=MODEL, chat_template=TEMPLATE)

    def answer(history: list[dict], text: str, **variables: str) -> tuple[str, list[dict]]:
        messages = [*history, {"role": "user", "content": text}]
        said = generator.chat(messages, 24, template_variables=variables).text
        return said, [*messages, {"role": "assistant", "content": said}]

    return answer


def talk(command: list[str], *lines: str, arguments: tuple = ()) -> subprocess.CompletedProcess[str]:
    greedy = ("--temperature=0", "--max-tokens=24", *arguments)
    text = "".join(f"{line}\n" for line in lines)
    return subprocess.run([*command, *greedy], input=text, capture_output=True, text=True, timeout=60)


def test_history(command, answers):
    first, history = answers([], "violin (noun):")
    second, _ = answers(history, "run (verb):")
    fresh, _ = answers([], "run (verb):")
    assert second != fresh
    result = talk(command, "violin (noun):", "", "run (verb):", "/reset", "run (verb):")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{first}\n{second}\n{fresh}\n"
    assert set(result.stderr.splitlines()) <= {"the answer is cut: --max-tokens is 24, the model's context 1024"}


def test_system_message_and_template_variables(command, answers):
    system = [{"role": "system", "content": "wood (noun): a tree"}]
    said, history = answers(system, "oak (noun)", tail=":")
    after, _ = answers(history, "x", tail=":")
    again, _ = answers(system, "x", tail=":")
    without, _ = answers([], "x", tail=":")
    arguments = (f"--system={system[0]['content']}", "--template-variable=tail=:")
    lines = ("oak (noun)", "x", "/reset", "x", "/system", "x", f"/system {system[0]['content']}", "x", "/exit", "never")
    result = talk(command, *lines, arguments=arguments)
    assert result.stdout == "".join(f"{text}\n" for text in (said, after, again, without, again))
    assert result.returncode == 0


def test_lines_that_go_on_and_slashes(command, answers):
    (two, _), (slash, _) = answers([], "violin\n(noun):"), answers([], "/x (noun):")
    assert talk(command, "violin\\", "(noun):", "/reset", "//x (noun):").stdout == f"{two}\n{slash}\n"


def test_commands(command):
    result = talk(command, "/speed", "violin (noun):", "/speed", "/help", "/dance")
    lines = result.stdout.splitlines()
    assert lines[0] == "there is no answer yet"
    assert re.fullmatch(r"\d+ tokens of prompt in \d+\.\d\d s, \d+ tokens of answer at \d+\.\d tokens/s", lines[-6])
    assert lines[-5].startswith("/system TEXT")
    assert "there is no command /dance; /help lists" in result.stderr


def test_a_conversation_beyond_the_context(command):
    result = talk(command, "a", "word " * 2000, "/reset", "violin (noun):")
    assert result.returncode == 0
    assert re.search(r"error: a prompt has \d+ tokens, the model's context 1024: .*\n/reset begins anew", result.stderr)
    assert len(result.stdout.splitlines()) == 2


def test_models_that_are_none_for_chats(command, glossary_artifact, wordless_artifact):
    plain = [word for word in command if not word.startswith("--chat-template")]
    result = talk(plain)
    assert result.returncode == 1
    assert "glossary.itx: its tokenizer comes without a chat template, it is no model for chats" in result.stderr
    assert "`intarsia generate` continues texts" in result.stderr
    words = [word for word in plain if not word.startswith("--tokenizer")]
    assert "its tokenizer comes without a chat template" in talk(words).stderr
    result = talk([str(wordless_artifact) if word == str(glossary_artifact) else word for word in words])
    assert result.returncode == 1
    assert "a chat needs a tokenizer. " in result.stderr
    assert "no tokenizer.json lies beside it: give the model's folder" in result.stderr


def test_interrupts_without_a_terminal(command, interruptible):
    """The first one stops the answer, the next one ends."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, *ENDLESS], **pipes, text=True, **interruptible) as process:
        process.stdin.write("violin (noun):\n")
        process.stdin.flush()
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        process.stdin.write("/speed\n")
        process.stdin.flush()
        while "tokens of answer" not in (line := process.stdout.readline()):
            assert line
        assert int(re.search(r"(\d+) tokens of answer", line)[1]) < 900
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert (rest, errors) == ("", "")


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, command: list[str]) -> None:
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # also where the tests run with nohup
            os.execve(command[0], command, {**os.environ, "TERM": "dumb"})
        self.shown = ""

    def wait_for(self, pattern: str) -> str:
        """Return what was shown since the last call, up to what matches."""
        deadline = time.monotonic() + 30
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < deadline, self.shown
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.shown += os.read(self.terminal, 4096).decode(errors="replace")
        seen, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return seen

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def end(self) -> tuple[str, int]:
        """Return what is shown until the program ends, and its exit code."""
        deadline = time.monotonic() + 30
        with contextlib.suppress(OSError):  # what reading from a terminal without a program raises
            while True:
                assert time.monotonic() < deadline, self.shown
                if select.select([self.terminal], [], [], 0.1)[0]:
                    if not (data := os.read(self.terminal, 4096)):
                        break
                    self.shown += data.decode(errors="replace")
        return self.shown, os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


@pytest.fixture
def terminal(command) -> Iterator[Terminal]:
    program = Terminal([*command, *ENDLESS])
    yield program
    os.close(program.terminal)


def test_terminal(terminal):
    assert "Ctrl-D ends." in terminal.wait_for("> ")
    terminal.type("violin (noun):\n")
    terminal.wait_for(r"violin \(noun\):\r\n.{5}")
    terminal.type("\x03")
    terminal.wait_for("> $")
    terminal.type("/speed\n")
    # The key is one only once the prompt is there: before, the terminal would take it as the end of a line.
    terminal.wait_for(r"tokens/s\s+> $")
    time.sleep(0.5)
    terminal.type("\x04")
    shown, code = terminal.end()
    assert code == 0
    assert "Traceback" not in shown


def test_interrupt_at_the_prompt_of_a_terminal(terminal):
    terminal.wait_for("> $")
    time.sleep(0.5)  # input() sees a signal at once only when it waits for a key, which is after the prompt is shown
    terminal.type("\x03")
    shown, code = terminal.end()
    assert code == 130
    assert "Traceback" not in shown
