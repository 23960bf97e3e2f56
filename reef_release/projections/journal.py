"""Counts that can be told as of any position, without folding the log again.

A journal holds, for every single thing counted, the position at which it was counted and the cell
that it was counted in: 12 bytes. Before every 65,536th of them it keeps all sums, so that a
question about the past adds up fewer than 65,536 numbers (some 3 ms), however long the log is.
Positions never decrease, since a log is read in order.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

__all__ = ["Journal"]

_EVERY = 65_536


class Journal:
    """Counts by cell, a small number from 0; append-only."""

    __slots__ = ("_cells", "_counts", "_positions", "_sums")

    def __init__(self) -> None:
        self._positions = array("Q")
        self._cells = array("I")
        self._counts = array("I")
        self._sums: list[array[int]] = []

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def size_bytes(self) -> int:
        """The memory that it takes."""
        parts = [self._positions, self._cells, self._counts, *self._sums]
        return sum(part.itemsize * len(part) for part in parts)

    def add(self, position: int, cell: int) -> None:
        """Count one in *cell* at *position*, which is not before the last one."""
        counts = self._counts
        if len(self._cells) % _EVERY == 0:
            self._sums.append(counts[:])
        self._positions.append(position)
        self._cells.append(cell)
        if cell >= len(counts):
            _grow(counts, cell + 1)
        counts[cell] += 1

    def position(self, index: int) -> int:
        """The position at which the thing number *index*, from 0, was counted."""
        return self._positions[index]

    def length(self, at: int) -> int:
        """How many things are counted up to position *at*."""
        return bisect_right(self._positions, at)

    def counts(self, at: int | None = None) -> array[int]:
        """The counts by cell up to position *at*, by default all; cells of 0 at the end may lack.

        For reading only: without a position it is the journal's own.
        """
        length = len(self._cells) if at is None else self.length(at)
        if length == len(self._cells):
            return self._counts
        block = length // _EVERY
        counts = self._sums[block][:]
        _grow(counts, len(self._counts))
        for cell in self._cells[block * _EVERY : length]:
            counts[cell] += 1
        return counts


def _grow(counts: array[int], length: int) -> None:
    counts.frombytes(bytes(counts.itemsize * (length - len(counts))))
