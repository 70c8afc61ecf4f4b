# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that run a model together, and arrays that they exchange."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import _runtime

_REDUCTIONS = ("sum", "max", "sum-int8")  # in the order of itx_reduction


def _reduction(name: str) -> int:
    if name not in _REDUCTIONS:
        raise ValueError(f"reduction is {name!r}, 'sum', 'max' and 'sum-int8' are possible")
    return _REDUCTIONS.index(name)


class World:
    """The world that this process is a rank of.

    Ranks are processes that were started by ``mpirun``, or with ``ITX_WORLD_SIZE``, ``ITX_WORLD_RANK`` and
    ``ITX_WORLD_ADDRESS`` in their environment, and ``ITX_WORLD_TOKEN_FILE`` if they are on several hosts. Loading a
    model that was compiled for several ranks joins the world by itself; this class is for programs that exchange data
    of their own. All ranks call the same methods in the same order. If a rank dies, hangs or does something else, all
    others get an error that names it.

    Parameters
    ----------
    size, rank, address : int, int, str
        Number of ranks, the one of this process, and ``local:NAME``, the same for all, or ``tcp:HOST:PORT``, where rank
        0 listens, for several hosts; size 0: as the environment says.
    deadline_s : float
        Seconds that a rank waits for another; 0: ``ITX_WORLD_DEADLINE_S``, or 300.
    token_file : str
        File with the same secret for all ranks of several hosts; empty: ``ITX_WORLD_TOKEN_FILE``.

    Examples
    --------
    >>> world = intarsia.World()
    >>> total = world.all_reduce(np.ones(4, np.float32) * world.rank)
    """

    def __init__(
        self, size: int = 0, rank: int = 0, address: str = "", deadline_s: float = 0, token_file: str = ""
    ) -> None:
        self._runtime = _runtime.World(size, rank, address, deadline_s, str(token_file))

    @property
    def rank(self) -> int:
        """Number of this process in the world or group; -1 if it is not in the group."""
        return self._runtime.rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._runtime.size

    def group(self, ranks: Sequence[int]) -> World:
        """Return a part of the world, whose ranks are numbered in this order. All ranks of the world call this."""
        group = World.__new__(World)
        group._runtime = self._runtime.group(list(ranks))
        return group

    def all_reduce(self, array: np.ndarray, reduction: str = "sum") -> np.ndarray:
        """Return the sum or the maximum ("max") of the ranks' arrays, which have one shape.

        The messages of "sum-int8" between hosts are rounded to 8 bits, with a scale for each 32 elements.
        """
        source = np.ascontiguousarray(array)
        target = np.empty_like(source)
        self._runtime.all_reduce(_reduction(reduction), target, source)
        return target

    def reduce_scatter(self, array: np.ndarray, reduction: str = "sum") -> np.ndarray:
        """Return this rank's part of the sum or the maximum ("max"): all have as many of the first indices."""
        source = np.ascontiguousarray(array)
        if source.ndim == 0 or len(source) % self.size != 0:
            raise ValueError(f"an array of shape {source.shape} has no equal parts for {self.size} ranks")
        target = np.empty((len(source) // self.size, *source.shape[1:]), source.dtype)
        self._runtime.reduce_scatter(_reduction(reduction), target, source)
        return target

    def all_to_all(self, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Send an array to each rank and return those that they send here; arrays may differ in their first size."""
        if len(parts) != self.size:
            raise ValueError(f"there are {len(parts)} parts for {self.size} ranks")
        sources = [np.ascontiguousarray(part) for part in parts]
        shape, dtype = sources[0].shape[1:], sources[0].dtype
        if any(part.ndim == 0 or part.shape[1:] != shape or part.dtype != dtype for part in sources):
            raise ValueError("the parts differ in more than their first size")
        ones = [1] * self.size
        rows = np.empty(self.size, np.int64)
        self._runtime.all_to_all(rows, ones, np.array([len(part) for part in sources], np.int64), ones)
        row = int(np.prod(shape, dtype=np.int64))
        target = np.empty((int(rows.sum()), *shape), dtype)
        received = [int(count) * row for count in rows]
        self._runtime.all_to_all(target, received, np.concatenate(sources), [part.size for part in sources])
        return np.split(target, np.cumsum(rows)[:-1])

    def all_gather(self, array: np.ndarray) -> np.ndarray:
        """Return the arrays of all ranks one after another; they may differ in their first size."""
        source = np.ascontiguousarray(array)
        rows = np.empty(self.size, np.int64)
        self._runtime.all_gather(rows, np.array([len(source)], np.int64), [1] * self.size)
        row = int(np.prod(source.shape[1:], dtype=np.int64))
        target = np.empty((int(rows.sum()), *source.shape[1:]), source.dtype)
        self._runtime.all_gather(target, source, [int(count) * row for count in rows])
        return target

    def broadcast(self, array: np.ndarray, root: int = 0) -> np.ndarray:
        """Return the array of one rank; those of the others say its shape and type."""
        data = np.array(array, order="C")
        self._runtime.broadcast(root, data)
        return data

    def send(self, array: np.ndarray) -> None:
        """Send an array to the other rank of a group of two, which calls `receive` with its shape and type."""
        self._runtime.send(np.ascontiguousarray(array))

    def receive(self, shape: Sequence[int], dtype: np.typing.DTypeLike) -> np.ndarray:
        """Return an array that the other rank of a group of two sends."""
        data = np.empty(shape, dtype)
        self._runtime.receive(data)
        return data

    def barrier(self) -> None:
        """Return when all ranks have come."""
        self._runtime.barrier()

    def __repr__(self) -> str:
        """Show the rank and the size."""
        return f"<intarsia rank {self.rank} of a world of {self.size}>"
