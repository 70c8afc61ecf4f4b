# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The memory of language models' sequences."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np

from .. import _runtime
from ..runtime.module import Module
from ..support.checks import INT64_MAX, token_ids, whole_number
from ..support.errors import InvalidArgumentError
from .device_rows import DeviceRow
from .sampling import DEVICE_ERROR, Likeliest


class Cache(_runtime.Cache):
    """The state of a language model for sequences of tokens, in pages. Sequences with a common beginning share pages.

    Calls may come from several threads and are executed one after another.

    Parameters
    ----------
    module : Module
        A language model.
    function : str
        Its step function.
    sequences : int
        The most sequences at a time.
    pages : int
        Pages of all sequences together; 0: as many as fit `memory`.
    memory : int
        The most bytes that the cache may take; 0: no limit, or half of the available memory if `pages` is 0.
    spill_memory : int
        Bytes of other memory for sequences that are evicted to make room (`Sequence.set_evictable`): they keep their
        state, and are moved back when they are used again.
    spill_folder : path, optional
        A folder for those that this memory does not hold. The files have no names: nothing is left of them.
    spill_files : int
        The most bytes of these files; 0: as many as the disk has. Without room the sequences that were used least
        recently are evicted; `check_spill` raises the reason.

    Raises
    ------
    Error
        The machine, or the cgroup, has less memory available; the folder cannot be written to.
    """

    def __init__(
        self,
        module: Module,
        function: str = "step",
        *,
        sequences: int = 1,
        pages: int = 0,
        memory: int = 0,
        spill_memory: int = 0,
        spill_folder: str | os.PathLike[str] | None = None,
        spill_files: int = 0,
    ) -> None:
        super().__init__(
            module._runtime,
            function,
            *_checked(sequences, pages, memory),
            spill_folder,
            whole_number("spill_memory", spill_memory, 0, INT64_MAX),
            whole_number("spill_files", spill_files, 0, INT64_MAX),
        )

    @staticmethod
    def bytes_needed(
        module: Module, function: str = "step", *, sequences: int = 1, pages: int = 0, memory: int = 0
    ) -> int:
        """Return the bytes that a cache takes, without making it."""
        return _runtime.cache_bytes_needed(module._runtime, function, *_checked(sequences, pages, memory))

    def step(self, chunks: Iterable[tuple[_runtime.Sequence, Sequence[int], int]]) -> np.ndarray:
        """Append tokens to sequences in one call.

        Parameters
        ----------
        chunks : iterable of (Sequence, token ids, int)
            Each sequence at most once; the number is that of its last tokens whose logits are wanted.

        Returns
        -------
        ndarray, float32 [sum of these counts, vocabulary]
            Logits in the order of the chunks.

        Raises
        ------
        InvalidArgumentError
            A token is not in the vocabulary, or a sequence gets longer than the model's context.
        CacheFullError
            No page is left. The sequences have the tokens that they had before.
        """
        logits = super().step([(sequence, token_ids(ids), outputs) for sequence, ids, outputs in chunks])
        return np.empty((0, self.info["vocabulary"]), np.float32) if logits is None else logits

    def start_step(self, chunks: Iterable[tuple[_runtime.Sequence, Sequence[int], int]]) -> _runtime.Step:
        """Append tokens as `step` does; the result's ``wait()`` returns the logits.

        Ranks that are stages of a pipeline compute different steps at the same time. Start as many as there are stages
        (``info["stages"]``), each of other sequences; start the next step of some sequences when you have waited for
        their last. All ranks do so in the same order. Elsewhere a step is computed at once.

        Parameters
        ----------
        chunks : iterable of (Sequence, token ids, int)
            As those of `step`.

        Raises
        ------
        Error
            What `step` raises; a rank that fails ends the world.
        """
        return super().start_step([(sequence, token_ids(ids), outputs) for sequence, ids, outputs in chunks])

    def step_on_device(
        self, chunks: Iterable[tuple[_runtime.Sequence, Sequence[int], int]], temperature: float
    ) -> list[DeviceRow]:
        """Append tokens as `step` does; logits stay on the device, and only the likeliest tokens come from there.

        Parameters
        ----------
        chunks : iterable of (Sequence, token ids, int)
            As those of `step`.
        temperature : float
            The sampler's temperature, above 0.

        Returns
        -------
        list of DeviceRow
            One for each row of the logits that `step` returns.

        Raises
        ------
        InvalidArgumentError
            Logits are in memory of the host (``info["candidates"]`` is 0), or what `step` refuses.
        """
        if not (0 < temperature < np.inf):
            raise InvalidArgumentError(f"temperature is {temperature}, must be above 0", "invalid argument")
        if not self.info["candidates"]:
            raise InvalidArgumentError(
                "logits are in memory of the host, or an older compiler made the artifact: use step", "invalid argument"
            )
        logits = super().step_on_device([(sequence, token_ids(ids), outputs) for sequence, ids, outputs in chunks])
        if logits is None:
            return []
        values, tokens, sums = self.candidates(logits, np.full(logits.shape[0], temperature, np.float32))
        vocabulary = self.info["vocabulary"]
        return [
            DeviceRow(
                logits, row, Likeliest(tokens[row], values[row], float(own), DEVICE_ERROR, vocabulary), float(total)
            )
            for row, (total, own) in enumerate(sums)
        ]


def _checked(sequences: int, pages: int, memory: int) -> tuple[int, int, int]:
    """Return the options of a cache, checked to fit the runtime's types."""
    return (
        whole_number("sequences", sequences, 0, INT64_MAX),
        whole_number("pages", pages, 0, INT64_MAX),
        whole_number("memory", memory, 0, INT64_MAX),
    )
