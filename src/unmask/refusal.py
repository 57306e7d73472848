"""Why a model is not served."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unmask.errors import InsufficientMemoryError, ModelRefusedError, ParadigmMismatchError, UnmaskError
from unmask.shown import shown


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error's ``code`` and ``message``, and what to do."""

    code: str
    message: str
    remedy: str

    @classmethod
    def of(cls, error: UnmaskError) -> Refusal:
        """``error`` as the reason."""
        return cls(error.code, error.message, error.hint)

    def error(self) -> UnmaskError:
        """The error itself, for who starts a server with the model all the same."""
        return UnmaskError.from_code(self.code, self.message, self.remedy)

    def told(self) -> Refusal:
        """The same to clients, who are shown no folders of the server's."""
        return Refusal(self.code, without_folders(self.message), without_folders(self.remedy))

    def answer(self, name: str) -> UnmaskError:
        """What a client gets that asks for the model called ``name``: the fault is not its own. Too little
        memory, and a lane for models of another kind, have codes and statuses of their own.
        """
        told = self.told()
        if self.code in (InsufficientMemoryError.code, ParadigmMismatchError.code):
            return told.error()
        message = f"Model {shown(name)} is not served: {told.message} [{told.code}]"
        return ModelRefusedError(message, hint=told.remedy, param="model")


_FOLDERS = re.compile(
    r"(?<=')~?/[^'\n]*/(?=[^'/\n]+/?')"  # of a path in quotes, which may have spaces
    r"|(?<![\w:/.~'])~?/(?:[^\s/'\":,;()]+/)+"
)


def without_folders(text: str) -> str:
    """``text`` with the names of files alone, where it has their paths."""
    return _FOLDERS.sub("", text)
