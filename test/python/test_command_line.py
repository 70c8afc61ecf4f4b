# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line of language models, as a user calls it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import intarsia as package
import pytest
from intarsia.__main__ import main
from intarsia.commands.main import COMMANDS, Command

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "glossary"


@pytest.fixture(scope="module")
def artifact(tools, tmp_path_factory):
    path = tmp_path_factory.mktemp("command") / "glossary.itx"
    tools.compile(MODEL, "-o", path)
    return path


def intarsia(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "intarsia", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_generate(artifact):
    text = json.loads((ROOT / "test/EndToEnd/goldens/glossary.json").read_text())
    result = intarsia("generate", artifact, text["prompts"][0], "--max-tokens=8")
    assert result.returncode == 0, result.stderr
    given = intarsia("generate", artifact, text["prompts"][0], f"--tokenizer={MODEL}", "--max-tokens=8")
    assert given.stdout == result.stdout
    assert text["greedy_text"][0].startswith(result.stdout.rstrip("\n"))
    assert len(result.stdout) > 8
    drafted = intarsia(
        *("generate", artifact, text["prompts"][0], "--max-tokens=8", f"--draft={artifact}", "--draft-tokens=2")
    )
    assert drafted.stdout == result.stdout


def test_generate_from_token_ids(wordless_artifact, tools):
    result = intarsia("generate", wordless_artifact, "0 100 101", "--max-tokens=3")
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.split()) == 3
    without_python = tools.run("intarsia-run", wordless_artifact, "--ids=0,100,101", "--max-tokens=3")
    assert without_python.stdout.split() == result.stdout.split()


def test_generate_json(artifact, tmp_path):
    (tmp_path / "schema.json").write_text(
        '{"type": "array", "items": {"enum": ["a", 1]}, "minItems": 2, "maxItems": 3}'
    )
    common = ("generate", artifact, "run (verb):", f"--tokenizer={MODEL}", "--temperature=1", "--seed=1")
    result = intarsia(*common, f"--json-schema={tmp_path / 'schema.json'}")
    assert result.returncode == 0, result.stderr
    assert set(json.loads(result.stdout)) <= {"a", 1}
    assert intarsia(*common, "--regex=(yes|no)!").stdout in ("yes!\n", "no!\n")
    (tmp_path / "grammar.lark").write_text('start: "maybe" "?"')
    assert intarsia(*common, f"--grammar={tmp_path / 'grammar.lark'}").stdout == "maybe?\n"
    result = intarsia(*common, f"--json-schema={tmp_path / 'grammar.lark'}")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("error: json_schema: ")


def test_perplexity(artifact):
    arguments = ("perplexity", artifact, MODEL / "heldout.txt", "--lines", "--windows=20")
    result = intarsia(*arguments)
    assert result.returncode == 0, result.stderr
    golden = json.loads((ROOT / "test/EndToEnd/goldens/glossary.json").read_text())["window_losses"][:20]
    expected = 2.718281828459045 ** (sum(golden) / 20)
    assert float(result.stdout.split()[1]) == pytest.approx(expected, rel=1e-3)
    assert "over 20 windows of 192 tokens" in result.stdout


def test_bench(artifact):
    arguments = ("bench", "llm", artifact, "--prefill=40", "--decode=3", "--batch=2", "--rounds=1", "--threads=1")
    result = json.loads(intarsia(*arguments, "--json").stdout.splitlines()[-1])
    assert set(result) == {"prefill_tokens_per_second", "decode_tokens_per_second", "resident_bytes", "cache_bytes"}
    assert min(result.values()) > 0
    assert "tokens/s" in intarsia(*arguments).stdout


def test_errors(artifact, wordless_artifact, tmp_path):
    for arguments, message in (
        (("generate", tmp_path / "none.itx", "x"), "none.itx"),
        (("generate", wordless_artifact, "x"), "a text needs a tokenizer. "),
        (("generate", wordless_artifact, "1 x"), "give the model's folder, a tokenizer.json or a GGUF file"),
        (("perplexity", wordless_artifact, MODEL / "heldout.txt"), "a text needs a tokenizer. "),
        (("generate", artifact, "x", f"--tokenizer={tmp_path}"), "there is no such file"),
        (("generate", artifact, "a " * 2000, f"--tokenizer={MODEL}"), "the model's context 1024"),
        (("generate", artifact, "x", f"--tokenizer={MODEL}", "--draft=none.itx"), "none.itx"),
        (("perplexity", artifact, tmp_path / "none.txt", f"--tokenizer={MODEL}"), "none.txt"),
        (
            ("perplexity", artifact, MODEL / "config.json", f"--tokenizer={MODEL}", "--window=9999"),
            "a window needs 10000",
        ),
        (("bench", "llm", artifact, "--prefill=1000", "--decode=100", "--rounds=1"), "context of 1024"),
    ):
        result = intarsia(*arguments)
        assert result.returncode == 1, arguments
        assert result.stderr.startswith("error: "), result.stderr
        assert message in result.stderr
        assert "Traceback" not in result.stderr


def test_help_lists_the_commands_at_once():
    """What is listed is imported when it is used."""
    program = """
import sys
from intarsia.commands.main import main
try:
    main(["--help"])
except SystemExit as end:
    assert end.code == 0
    print([name for name in sys.modules if name.startswith(("numpy", "intarsia.")) and name.count(".") < 2])
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    *lines, modules = result.stdout.splitlines()
    listed = [line.split()[0] for line in lines[lines.index("commands:") + 1 :] if line.startswith("  ")]
    assert listed == list(COMMANDS)
    assert modules == "['intarsia.commands', 'intarsia.support']"
    assert intarsia("--version").stdout == f"intarsia {package.__version__}\n"


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if command.module])
def test_help_of_commands(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: intarsia {name} ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a COMMAND"),
        (("",), "give a COMMAND"),
        (("compil", "x"), "there is no command 'compil'"),
        (("--threads=2", "generate"), "unrecognized arguments: --threads=2"),
        (("bench",), "the following arguments are required: KIND"),
    ],
)
def test_no_such_command(arguments, message):
    result = intarsia(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_programs_are_commands(tools, tmp_path, monkeypatch, capsys):
    """`intarsia compile` becomes the process of intarsia-compile."""
    for name, command in COMMANDS.items():
        if command.tool:
            assert tools.path(command.tool).is_file()
            if name != "lsp-server":
                assert intarsia(name, "--version").stdout == tools.run(command.tool, "--version").stdout
    assert intarsia("run", "--help").stdout == tools.run("intarsia-run", "--help").stdout
    program = tmp_path / "run"
    program.write_text("#!/bin/sh\necho $$\ngrep SigIgn /proc/self/status\nprintf '<%s>' \"$@\"\nexit 7\n")
    program.chmod(0o755)
    command = [sys.executable, "-m", "intarsia", "run", "--a b", "", "--threads=", "--", "*", "é"]
    environment = {**os.environ, "INTARSIA_RUN": str(program)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        shown, _ = process.communicate(timeout=30)
    number, ignored, arguments = shown.splitlines()
    assert process.returncode == 7
    assert int(number) == process.pid
    assert arguments == "<--a b><><--threads=><--><*><é>"
    assert not int(ignored.split()[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)
    monkeypatch.setenv("INTARSIA_RUN", str(tmp_path / "none"))
    assert main(["run", "m.itx"]) == 1
    assert capsys.readouterr().err == f"error: cannot run {tmp_path / 'none'}: No such file or directory\n"
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN, "this process goes on"
    monkeypatch.setitem(COMMANDS, "none", Command("nothing", tool="intarsia-none"))
    assert main(["none"]) == 1
    assert capsys.readouterr().err.startswith("error: intarsia-none is neither beside the package (")


def test_flags_without_a_value(capsys):
    for flag in ("--tokenizer=", "--seed=", "--stop=", "--draft="):
        with pytest.raises(SystemExit, match="2"):
            main(["generate", "none.itx", "x", flag, "--max-tokens=8"])
        assert f"'{flag}' has no value behind '='" in capsys.readouterr().err
    # A value may end in '=', and so may a text behind '--'.
    assert main(["generate", "none.itx", "--stop=a=", "--", "-x="]) == 1
    assert "none.itx" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "x", "--max-tokens=0"),
        ("generate", "x", "--draft-tokens=-1"),
        ("generate", "x", "--seed=two"),
        ("perplexity", "x", "--window=0"),
        ("perplexity", "x", "--windows=-1"),
        ("bench", "llm", "--prefill=0"),
        ("bench", "llm", "--decode=0"),
        ("bench", "llm", "--batch=0"),
        ("bench", "llm", "--rounds=0"),
        ("bench", "llm", "--threads=-1"),
        ("bench", "llm", "--batch=two"),
    ],
)
def test_numbers_without_a_meaning(artifact, arguments):
    command = arguments[:2] if arguments[0] == "bench" else arguments[:1]
    result = intarsia(*command, artifact, *arguments[len(command) :])
    assert result.returncode == 2
    flag, value = arguments[-1].split("=")
    assert re.search(
        rf"error: argument {flag}: (invalid number value: 'two'|{value}, must be at least [01])$", result.stderr.strip()
    )


def test_files_that_are_not_text(artifact, tmp_path):
    (tmp_path / "file").write_bytes(b"\xac\xed")
    for arguments in (
        ("perplexity", artifact, tmp_path / "file"),
        ("generate", artifact, "x", f"--grammar={tmp_path / 'file'}"),
    ):
        result = intarsia(*arguments)
        assert result.returncode == 1
        assert f"error: {tmp_path / 'file'}: is not UTF-8: " in result.stderr


def test_interrupt_ends_cleanly(artifact, interruptible):
    command = [sys.executable, "-m", "intarsia", "generate", str(artifact), "run (verb):", f"--tokenizer={MODEL}"]
    # Sampling at a high temperature seldom ends a text.
    command += ["--max-tokens=900", "--temperature=5", "--seed=1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, **interruptible) as process:
        assert process.stdout.read(1)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert rest.endswith("\n")
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("perplexity", "MODEL", MODEL / "heldout.txt", f"--tokenizer={MODEL}", "--lines"), r"\r\d+/\d+ windows"),
        (("bench", "llm", "MODEL", "--prefill=200", "--decode=50", "--rounds=1000"), r"\rround \d+/1000"),
        (("bench", "llm", "MODEL", "--prefill=200", "--decode=50", "--rounds=1000", "--json"), r"\rround \d+/1000"),
    ],
)
def test_interrupted_measurements_end_cleanly(artifact, arguments, shown, interruptible):
    """Progress is shown on a terminal; its line ends, and nothing that looks like a result is printed."""
    command = [sys.executable, "-m", "intarsia", *(str(artifact if a == "MODEL" else a) for a in arguments)]
    master, terminal = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, text=True, **interruptible) as process:
        os.close(terminal)
        errors = ""
        while not re.search(shown, errors):
            errors += os.read(master, 4096).decode()
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # what reading from a terminal without a program raises
            while data := os.read(master, 4096):
                errors += data.decode()
        rest, _ = process.communicate(timeout=30)
    os.close(master)
    assert process.returncode == 130, errors
    assert rest == ""
    assert errors.endswith("\r\n")
    assert "Traceback" not in errors
