# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders for what a run keeps between its steps, so that a run that was ended can go on."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .checks import parse_json
from .errors import InvalidArgumentError

#: The file that marks a folder as one of these, and the list of the files that were written into it.
MARK, JOURNAL = "intarsia.work", "intarsia.work-files"
#: The mark while it is written.
_NEW_MARK = f"{MARK}.new"
#: Files of this class in a folder, which are no part of a model.
OWN_FILES = (MARK, JOURNAL, _NEW_MARK)
VERSION = 1
#: Commands that write such folders, and what they leave there.
KINDS = {
    "quantize": "an unfinished quantization",
    "static": "an unfinished quantization with static inputs",
    "mixed": "an unfinished quantization with inputs in mixed precision",
    "choose": "an unfinished choice of precisions",
    "rotate": "a rotated model",
    "rotated": "a rotated model that is being quantized",
}
#: Seconds to wait for a tool that a killed run has started, and that still writes.
WAIT = 60.0

#: Names of incomplete files beside one that is written, which a killed process leaves: "x.<pid>-<number>.tmp", and
#: "x.<hash>.safetensors" of the weights of an artifact.
_INCOMPLETE = re.compile(r"(?P<whole>.+)\.\d+-\d+\.tmp")
_WAITING = re.compile(r"(?P<stem>.+)\.[0-9a-f]{16,64}(?P<ending>\.safetensors)")

#: Descriptors of the locks of this process, which the tools that it starts inherit: a folder stays locked while a tool
#: of a killed run writes into it.
locks: set[int] = set()


def check_apart(path: Path, **others: Path) -> None:
    """Refuse a folder that is, holds or lies in another one, which is named by what it is for."""
    whole = path.resolve()
    for what, other in others.items():
        one = other.resolve()
        if whole == one or whole in one.parents or one in whole.parents:
            raise InvalidArgumentError(
                f"{path}: is, holds or lies in the {what}, {other}; what is between steps needs a folder of its own",
                "invalid argument",
            )


class WorkFolder:
    """A folder that a run writes files into, and which it empties at its end.

    The file ``intarsia.work`` marks it. It has whose run it is and what that is about (`begin`), what the run keeps in
    `state`, and the sizes and hashes of files that were finished (`keep`): a later run goes on only with the same
    contents. Names of files are in ``intarsia.work-files`` before the files are written, and only these are ever
    deleted.

    A context manager: inside, no other process works in the folder.

    Parameters
    ----------
    path : path
        The folder. It is made if it does not exist; one that has files already must have been marked.
    others : path
        Folders that this one must not overlap with, by what they are: ``model=…, output=…``.

    Raises
    ------
    InvalidArgumentError
        The folder overlaps with another, has files of something else, or another run works in it.
    """

    def __init__(self, path: str | os.PathLike[str], **others: Path) -> None:
        self.path = Path(path)
        check_apart(self.path, **others)
        self.state: dict[str, Any] = {}
        self._kind = self._key = ""
        self._kept: dict[str, list[Any]] = {}  # bytes and SHA-256
        self._names: set[str] = set()
        self._was_there = True
        self._journal = -1

    def __enter__(self) -> WorkFolder:
        self._was_there = self.path.exists()
        if self._was_there:
            if not self.path.is_dir():
                raise self._error("is no folder")
            # Files of this class alone are what a run leaves that is killed before the mark is there, or behind it.
            if not (self.path / MARK).exists() and (other := self._foreign()):
                raise self._error(f"has files of something else, such as {other}; give another folder")
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock()
        try:
            if (self.path / MARK).exists():
                self._read_names()
            else:
                os.ftruncate(self._journal, 0)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not (self.path / MARK).exists():  # nothing was begun
            (self.path / JOURNAL).unlink(missing_ok=True)
            if not self._was_there and self.path.is_dir() and not any(self.path.iterdir()):
                self.path.rmdir()
        locks.discard(self._journal)
        os.close(self._journal)
        self._journal = -1

    def begin(self, kind: str, key: str) -> bool:
        """Return true if the folder has what an earlier run of this key has kept; otherwise empty it.

        A file that was kept and is not as it was is a reason to begin anew too: what follows was computed from it.

        Parameters
        ----------
        kind : str
            One of `KINDS`: whose run it is. What another command has written is not deleted.
        key : str
            What the run is about.

        Raises
        ------
        InvalidArgumentError
            The folder has what a run of another kind has written, or its mark is damaged.
        """
        found = self._read_mark()
        why = ""
        if found and found["key"] and found["kind"] != kind:
            raise self._error(
                f"has {KINDS.get(found['kind'], 'what another command has written')}, not {KINDS[kind]}; give another "
                "folder, or delete this one if nothing in it is of value"
            )
        self._kind = kind
        if found and found["key"]:  # without a key it was being emptied
            self.state, self._kept = found["state"], found["kept"]
            changed = [name for name, what in self._kept.items() if _described(self.path / name) != what]
            if found["key"] != key:
                why = "is of a run with another model, text or format"
            elif changed:
                exists = (self.path / changed[0]).exists()
                why = f"has {'another' if exists else 'no'} {changed[0]} {'than' if exists else 'as'} the run wrote"
            else:
                self._key = key
                return True
        if why and (self.state or self._kept):
            print(
                f"warning: {self.path} {why}; what it has of that run is removed, and this run begins anew",
                file=sys.stderr,
            )
        if found:
            self._empty()
        self._key = key
        self.save()
        return False

    def file(self, name: str) -> Path:
        """Return the path of a file that is about to be written. Folders in its name are made."""
        path = self.path / name
        if folder := name.rpartition("/")[0]:
            self.folder(folder)
        self._add(name)
        return path

    def artifact(self, name: str) -> Path:
        """Return the path of an artifact that is about to be written, with its weights beside it."""
        self._add(f"{name.removesuffix('.itx')}.safetensors")
        return self.file(name)

    def folder(self, name: str) -> Path:
        """Return the path of a folder, which is made."""
        if outer := name.rpartition("/")[0]:
            self.folder(outer)
        self._add(f"{name}/")
        (self.path / name).mkdir(exist_ok=True)
        return self.path / name

    def written(self, folder: str) -> list[str]:
        """Return the names of the files that are in one of the folders."""
        return sorted(
            name for name in self._names
            if name.startswith(f"{folder}/") and not name.endswith("/") and (self.path / name).is_file()
        )  # fmt: skip

    def keep(self, *names: str) -> None:
        """Note the contents of finished files, for later runs; `save` writes it."""
        for name in names:
            described = _described(self.path / name)
            if described is None:
                raise self._error(f"{name} was written and is not there: does another program remove files here?")
            self._kept[name] = described

    def is_kept(self, name: str) -> bool:
        """Return true if the contents of a file are noted."""
        return name in self._kept

    def forget(self, folder: str) -> None:
        """Drop the notes on files in one of the folders."""
        self._kept = {name: what for name, what in self._kept.items() if not name.startswith(f"{folder}/")}

    def save(self) -> None:
        """Write the state and what is kept; a process that is killed here leaves the old mark or the new one."""
        body = {
            "kind": self._kind,
            "key": self._key,
            "was_there": self._was_there,
            "state": self.state,
            "kept": self._kept,
        }
        text = json.dumps({"intarsia_work": VERSION, "sha256": _hash_of(body), "body": body})
        (self.path / _NEW_MARK).write_text(text, encoding="utf-8")
        (self.path / _NEW_MARK).replace(self.path / MARK)

    def delete(self, folder: str) -> None:
        """Delete one of the folders, with the files that were written into it."""
        self._delete_own(folder)

    def remove(self) -> None:
        """Delete what was written, and the folder, unless it was there before or has other files."""
        self._empty()
        for name in (MARK, _NEW_MARK):
            (self.path / name).unlink(missing_ok=True)
        if left := self._foreign():
            print(
                f"note: {self.path} stays: it has files that this run has not written, such as {left}", file=sys.stderr
            )

    # -- Own files -----------------------------------------------------------------------------------------------------

    def _add(self, name: str) -> None:
        """Note a file (or a folder: "name/") before it is written."""
        if name in self._names:
            return
        path = self.path / name.rstrip("/")
        if path.is_symlink() or path.exists():
            raise self._error(f"{name} would be replaced, which this run has not written; give another folder")
        os.write(self._journal, json.dumps(name).encode() + b"\n")
        self._names.add(name)

    def _read_names(self) -> None:
        data = (self.path / JOURNAL).read_bytes()
        for line in data.split(b"\n")[:-1]:  # a last line without an end was not finished, nor its file begun
            with contextlib.suppress(ValueError, RecursionError):
                name = json.loads(line)
                if isinstance(name, str) and name and ".." not in name.split("/") and not name.startswith("/"):
                    self._names.add(name)
        if not data.endswith(b"\n"):
            os.write(self._journal, b"\n")

    def _is_own(self, name: str) -> bool:
        if name in self._names:
            return True
        if found := _INCOMPLETE.fullmatch(name):
            return self._is_own(found["whole"])
        return bool(found := _WAITING.fullmatch(name)) and found["stem"] + found["ending"] in self._names

    def _empty(self) -> None:
        """Delete what was written. A run that is killed here leaves a mark that says so."""
        self.state, self._kept, self._key = {}, {}, ""
        self.save()
        self._delete_own("")

    def _delete_own(self, folder: str) -> None:
        """Delete what was written into a folder, and the folder if nothing else is in it."""
        whole = self.path / folder
        if whole.is_symlink() or not whole.is_dir():
            return
        before = f"{folder}/" if folder else ""
        if folder and (whole / MARK).exists() and before + MARK not in self._names:  # of a run within this one
            with WorkFolder(whole) as inner:
                inner._read_mark()
                inner.remove()
        with os.scandir(whole) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        for name, is_folder in found:
            if is_folder and f"{before}{name}/" in self._names:
                self._delete_own(before + name)
            elif not is_folder and self._is_own(before + name):
                (whole / name).unlink()
        if folder:
            with contextlib.suppress(OSError):  # has files of somebody else
                whole.rmdir()

    def _foreign(self) -> str | None:
        """Return the name of an entry that is no file of this class, if there is one."""
        return next((name for name in sorted(os.listdir(self.path)) if name not in OWN_FILES), None)

    # -- The mark and the lock -----------------------------------------------------------------------------------------

    def _read_mark(self) -> dict[str, Any] | None:
        mark = self.path / MARK
        if not mark.exists():
            return None
        try:
            read = parse_json(str(mark), mark.read_text(encoding="utf-8"))
            body = read["body"]
            if read["intarsia_work"] != VERSION or read["sha256"] != _hash_of(body) or "kind" not in body:
                raise KeyError
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentError(
                f"{mark}: is damaged, or of another version; delete {self.path} if nothing in it is of value, or give "
                "another folder",
                "invalid argument",
            ) from error
        self._was_there = body["was_there"]
        return body

    def _lock(self) -> None:
        end = time.monotonic() + WAIT
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._journal = os.open(self.path / JOURNAL, flags, 0o666)
            try:
                fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._journal)
                if time.monotonic() > end:
                    raise self._error(
                        "another run works in this folder, or a tool that a killed run has started; wait for its end, "
                        "or give another folder"
                    ) from None
                time.sleep(0.05)
                continue
            except OSError:  # a file system without locks
                pass
            if os.fstat(self._journal).st_nlink:  # otherwise a run that has just ended has removed it
                locks.add(self._journal)
                return
            os.close(self._journal)
            self.path.mkdir(parents=True, exist_ok=True)

    def _error(self, message: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self.path}: {message}", "invalid argument")


def _described(path: Path) -> list[Any] | None:
    """Return the size and the hash of a file, or None if there is none."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
            return [file.tell(), digest.hexdigest()]
    except FileNotFoundError:
        return None


def _hash_of(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def work_folder(path: str | os.PathLike[str] | None, model: Path, output: Path) -> Iterator[WorkFolder]:
    """Give the folder of a command, by default ``<output>.work``."""
    with WorkFolder(path if path is not None else f"{output}.work", model=model, output=output) as folder:
        yield folder
