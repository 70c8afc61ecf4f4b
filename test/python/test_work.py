# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders of unfinished runs: what is deleted, and that a run goes on wherever it was killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia.quantization import quantize, rotate
from intarsia.quantization.choice import Budget
from intarsia.quantization.choose import choose
from intarsia.quantization.safetensors import read_tensors, write_tensors
from intarsia.support import work as work_module
from intarsia.support.work import JOURNAL, MARK, WorkFolder

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "glossary"
SEGMENTS, CALLS = 3, 1


@pytest.fixture
def tmp_path(tmp_path):
    """A folder in memory where there is one: hundreds of files are renamed, each of which may wait for a disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


class Run(quantize._Calibration):
    """A calibration whose segments are arithmetic: what one gives depends on all values that it takes."""

    def __init__(self, work: WorkFolder, key: str = "a") -> None:
        self.work, self.key, self.said = work, key, []
        self.progress = self.said.append

    def _digest(self) -> str:
        return self.key

    def _run_segment(self, number: int) -> int:
        total = np.zeros(4)
        for call in range(CALLS):
            for kind in ("exact", "quantized"):
                values = {"x": self._values(number, kind, call).get("x", np.full(4, call + len(kind))) * 1.5 + number}
                total += values["x"]
                if number + 1 < SEGMENTS:
                    write_tensors(self.work.file(f"{number + 1}/{kind}.{call}.safetensors"), values)
        write_tensors(self.work.file("moments.safetensors"), {"total": total})
        write_tensors(self.work.file(self.found.format(number)), {"total": total})
        return SEGMENTS


def quantized(work: Path, output: Path, key: str = "a") -> list[str]:
    """Do what a command does: segments, the output, the end of the folder. Return what the run said."""
    with WorkFolder(work, output=output) as folder:
        run = Run(folder, key)
        files = run.run()
        output.mkdir(exist_ok=True)
        (output / "new").write_bytes(b"".join(file.read_bytes() for file in files))
        (output / "new").replace(output / "model")
        folder.remove()
    return run.said


def in_a_child(action: Callable[[], object], killed_at: int) -> bool:
    """Run in a process that ends as if by SIGKILL before its n-th change of a file; return true if it ended before."""
    child = os.fork()
    if child == 0:
        seen = 0

        def ends(event: str, arguments: tuple) -> None:
            nonlocal seen
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if writes or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.truncate"):
                seen += 1
                if seen == killed_at:
                    os._exit(9)

        try:
            sys.addaudithook(ends)
            action()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 9)
    return os.waitstatus_to_exitcode(status) == 9


def test_a_run_goes_on_wherever_it_was_killed(tmp_path):
    """Before each change of a file. Behind the last segment nothing is left but to write the output."""
    quantized(tmp_path / "w", tmp_path / "whole")
    expected = (tmp_path / "whole" / "model").read_bytes()
    said = set()
    for point in range(1, 1000):
        work, output = tmp_path / f"{point}.work", tmp_path / f"{point}"
        if not in_a_child(lambda: quantized(work, output), point):  # noqa: B023
            break
        said.update(quantized(work, output)[:1])
        assert (output / "model").read_bytes() == expected
        assert not work.exists() or not any(work.iterdir())
    assert point > 40
    assert said == {f"going on behind {count} layers" for count in range(SEGMENTS + 1)}


def test_runs_that_are_killed_again_and_again(tmp_path):
    """Each ends after a few changes of files more than a segment takes."""
    quantized(tmp_path / "w", tmp_path / "whole")
    count = 0
    while in_a_child(lambda: quantized(tmp_path / "again.work", tmp_path / "again"), 32):
        count += 1
        assert count < 50
    assert count > 1
    assert (tmp_path / "again" / "model").read_bytes() == (tmp_path / "whole" / "model").read_bytes()
    assert not (tmp_path / "again.work").exists()


def killed(work: Path, output: Path, segments: int) -> None:
    """Leave what a run leaves that is killed behind some segments."""
    with WorkFolder(work, output=output) as folder:
        run = Run(folder)
        run._run_segment, last = lambda number: Run._run_segment(run, number) if number < segments else 1 / 0, segments
        with pytest.raises(ZeroDivisionError):
            run.run()
        assert folder.state["segments"] == last


@pytest.mark.parametrize("what", ["removed", "emptied", "changed", "another"])
@pytest.mark.parametrize("name", ["quantized-00000.safetensors", "2/exact.0.safetensors"])
def test_files_are_taken_by_what_they_are(tmp_path, capfd, name, what):
    quantized(tmp_path / "w", tmp_path / "whole")
    work, output = tmp_path / "q.work", tmp_path / "q"
    killed(work, output, 2)
    file = work / name
    if what == "removed":
        file.unlink()
    elif what == "emptied":
        file.write_bytes(b"")
    elif what == "changed":
        write_tensors(file, {key: array + 1 for key, array in read_tensors(file).items()})
    else:
        file.write_bytes((work / "quantized-00001.safetensors").read_bytes())
    assert quantized(work, output) == []
    assert (output / "model").read_bytes() == (tmp_path / "whole" / "model").read_bytes()
    expected = f"q.work has {'no' if what == 'removed' else 'another'} {name}"
    assert expected in capfd.readouterr().err
    assert not work.exists()


def test_folders_of_something_else_are_left_alone(tmp_path):
    """Whatever their files are called: those of other programs, and of runs of earlier versions."""
    work = tmp_path / "w"
    work.mkdir()
    (work / "thesis.tex").write_text("x")
    for name in ("state.json", "choice.state", "rotation.json", "model.safetensors", JOURNAL):
        (work / name).write_text('{"epoch": 3}')
        with pytest.raises(intarsia.InvalidArgumentError, match="has files of something else, such as"):
            quantized(work, tmp_path / "q")
        with pytest.raises(intarsia.InvalidArgumentError, match="has files of something else, such as"):
            rotate.rotate(EXAMPLE, work)
    assert (work / "thesis.tex").read_text() == "x"
    assert len(list(work.iterdir())) == 6


@pytest.mark.parametrize("key", ["a", "b"])
def test_other_files_of_a_folder_stay(tmp_path, capfd, key):
    """At the end of a run, and where one of another key begins anew."""
    work = tmp_path / "w"
    killed(work, tmp_path / "q", 1)
    others = ["thesis.tex", "1/notes", "quantized-00009.safetensors", "moments.safetensors.old", "decoded/notes"]
    for name in others:
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(name)
    (work / "moments.safetensors.4711-0.tmp").touch()  # of a killed process
    quantized(work, tmp_path / "q", key)
    assert {name: (work / name).read_text() for name in others} == {name: name for name in others}
    assert sorted(str(file.relative_to(work)) for file in work.rglob("*") if file.is_file()) == sorted(others)
    said = capfd.readouterr().err
    assert "stays: it has files that this run has not written, such as 1" in said
    assert ("is of a run with another model, text or format" in said) == (key == "b")


@pytest.mark.parametrize(
    ("owner", "what"),
    [
        ("rotate", "a rotated model"),
        ("choose", "an unfinished choice of precisions"),
        ("static", "an unfinished quantization with static inputs"),
    ],
)
def test_what_another_command_has_written_stays(tmp_path, owner, what):
    """A rotated model is a folder that a run marks, and commands have the same folder beside an output."""
    work = tmp_path / "w"
    with WorkFolder(work) as folder:
        folder.begin(owner, "a")
        folder.file("model").write_text("mine")
        folder.keep("model")
        folder.save()
    for key in ("a", "b"):
        with pytest.raises(
            intarsia.InvalidArgumentError,
            match=f"w: has {what}, not an unfinished quantization; give another folder, or delete this one",
        ):
            quantized(work, tmp_path / "q", key)
    assert (work / "model").read_text() == "mine"
    with WorkFolder(work) as folder:
        assert folder.begin(owner, "a")


def test_other_files_are_not_replaced(tmp_path):
    work = tmp_path / "w"
    killed(work, tmp_path / "q", 1)
    (work / "quantized-00001.safetensors").write_text("mine")
    with pytest.raises(intarsia.InvalidArgumentError, match=r"quantized-00001\.safetensors would be replaced, which"):
        quantized(work, tmp_path / "q")
    assert (work / "quantized-00001.safetensors").read_text() == "mine"


def test_names_that_lead_out_of_a_folder_are_not_deleted(tmp_path):
    work = tmp_path / "w"
    killed(work, tmp_path / "q", 1)
    (tmp_path / "mine").mkdir()
    for name in ("precious", "mine/notes"):
        (tmp_path / name).touch()
    (work / "link").symlink_to(tmp_path / "mine")
    with (work / JOURNAL).open("a") as file:
        file.writelines(json.dumps(name) + "\n" for name in ("../precious", str(tmp_path / "precious"), "link/notes"))
    quantized(work, tmp_path / "q")
    assert (tmp_path / "precious").exists()
    assert (tmp_path / "mine" / "notes").exists()


def test_a_folder_of_the_user_stays(tmp_path):
    (tmp_path / "w").mkdir()
    quantized(tmp_path / "w", tmp_path / "q")
    assert list((tmp_path / "w").iterdir()) == []


@pytest.mark.parametrize(
    ("work", "what"),
    [("q", "output"), (".", "output"), ("q/work", "output"), ("m", "model"), ("m/work", "model"), ("link", "output")],
)
@pytest.mark.parametrize("command", ["quantize", "auto", "fmpq", "8-static", "rotate"])
def test_folders_that_overlap_are_refused(tmp_path, monkeypatch, command, work, what):
    """The model has been read, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    Path("m").symlink_to(EXAMPLE)
    Path("link").symlink_to("q")
    Path("q").mkdir()
    ids = np.zeros((4, 8), np.int64)
    commands = {
        "quantize": lambda: intarsia.quantize("m", "q", "int4", ids, work=work),
        "auto": lambda: choose("m", "q", ids, Budget(bits=5), work=work),
        "fmpq": lambda: intarsia.quantize_mixed("m", "q", "int4", ids, work=work),
        "8-static": lambda: intarsia.quantize_static("m", "q", ids, work=work),
        "rotate": lambda: intarsia.quantize("m", "q", "int4", ids, work=work, rotations=["values"]),
    }
    message = f"^{re.escape(work)}: is, holds or lies in the {what}, .* needs a folder of its own$"
    with pytest.raises(intarsia.InvalidArgumentError, match=message):
        commands[command]()
    assert list(Path("q").iterdir()) == []


def test_rotated_folders_that_overlap_are_refused(tmp_path):
    """The rotated model lies in a folder beside the output, which may be the model's."""
    model = tmp_path / "q.rotated"
    model.symlink_to(EXAMPLE)
    with pytest.raises(intarsia.InvalidArgumentError, match=r"q\.rotated: is, holds or lies in the model"):
        intarsia.quantize(model, tmp_path / "q", "int4", rotations=["values"])


BODY = {"key": "a", "was_there": False, "state": {}, "kept": {}}
WITHOUT_A_KIND = json.dumps({"intarsia_work": work_module.VERSION, "sha256": work_module._hash_of(BODY), "body": BODY})


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "[" * 100000,
        WITHOUT_A_KIND,
        '{"intarsia_work": 1, "sha256": "", "body": {"state": {"segments": "x"}}}',
        "\xff",
    ],
)
def test_damaged_marks(tmp_path, text):
    killed(tmp_path / "w", tmp_path / "q", 1)
    (tmp_path / "w" / MARK).write_text(text, encoding="latin-1")
    with pytest.raises(
        intarsia.InvalidArgumentError, match=r"intarsia\.work: is damaged, or of another version; delete"
    ):
        quantized(tmp_path / "w", tmp_path / "q")


def test_one_run_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(work_module, "WAIT", 0.1)
    with WorkFolder(tmp_path / "w") as folder:
        folder.begin("quantize", "a")
        with pytest.raises(intarsia.InvalidArgumentError, match="another run works in this folder"):
            quantized(tmp_path / "w", tmp_path / "q")
        # A tool that the run has started may be at work when the run is killed.
        tool = subprocess.Popen(["sleep", "60"], pass_fds=tuple(work_module.locks))
    assert not work_module.locks
    with pytest.raises(intarsia.InvalidArgumentError, match="another run works in this folder"):
        quantized(tmp_path / "w", tmp_path / "q")
    tool.kill()
    tool.wait()
    quantized(tmp_path / "w", tmp_path / "q")


def test_a_refused_run_leaves_nothing(tmp_path):
    with pytest.raises(intarsia.InvalidArgumentError, match="'keys' is nothing to rotate"):
        rotate.rotate(EXAMPLE, tmp_path / "r", ["keys"])
    assert list(tmp_path.iterdir()) == []
