"""An admission around another one, for what only looks on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from unmask.answers.cells import Cells
from unmask.serving.admission import Admission


class WrappedAdmission(Admission):
    """All but ``next`` is that of ``inner``."""

    def __init__(self, inner: Admission) -> None:
        self._inner = inner

    @property
    def cells(self) -> Cells:
        """Those of ``inner``."""
        return self._inner.cells

    @property
    def prompt_tokens(self) -> int:
        """Those of ``inner``."""
        return self._inner.prompt_tokens

    @property
    def finished(self) -> bool:
        """As ``inner`` is."""
        return self._inner.finished

    @contextmanager
    def running(self) -> Iterator[None]:
        """As ``inner`` runs."""
        with self._inner.running():
            yield

    async def refused(self) -> bool:
        """As ``inner`` is."""
        return await self._inner.refused()
