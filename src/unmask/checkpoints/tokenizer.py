"""Text to token ids and back.

Special tokens in *content* are text: a user who writes ``<|mdm_mask|>`` means those characters, never the mask.
Only the chat template's own markers become special ids. ``TextGuard`` keeps the two apart while a template
renders: it hides every special literal inside content and brings it back before encoding.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tokenizers import Tokenizer as HfTokenizer
from tokenizers.decoders import DecodeStream

from unmask.checkpoints.byte_level import byte_of_symbol
from unmask.checkpoints.tokenizer_source import TokenizerSource
from unmask.errors import InvalidValueError
from unmask.shown import shown

_PRIVATE_USE = range(0xE000, 0xF8FF + 1)
_REPLACEMENT = "\ufffd"  # what undecodable bytes show as
_SPACE = "\u2581"  # at the start of a token that begins with a space
_BYTE_FALLBACK = re.compile("<0x([0-9A-F]{2})>")
_BYTE_OF_SYMBOL = byte_of_symbol()


class Tokenizer:
    """A checkpoint's tokenizer with its configuration. Safe to use from several threads.

    ``size`` is one more than the largest id; ``specials`` maps the text of special tokens to their ids. ``mask_id`` is
    ``None`` for a model without a mask token.
    """

    def __init__(self, source: TokenizerSource, mask_id: int | None) -> None:
        self._hf = source.tokenizer
        self._hf.encode_special_tokens = True
        self.config = source.config
        self.mask_id = mask_id
        self.size = 1 + max(self._hf.get_vocab(with_added_tokens=True).values(), default=-1)
        self.specials: dict[str, int] = {
            token.content: index for index, token in self._hf.get_added_tokens_decoder().items() if token.special
        }
        longest_first = sorted(self.specials, key=len, reverse=True)
        self._markers = re.compile("|".join(map(re.escape, longest_first)) if longest_first else r"(?!)")

    @property
    def backend(self) -> HfTokenizer:
        """The library's tokenizer, to look at."""
        return self._hf

    def special_text(self, name: str) -> str:
        """The text of the special token that the configuration calls ``name`` (``bos_token``, ...), or ''."""
        entry = self.config.get(name)
        text = entry.get("content") if isinstance(entry, dict) else entry
        return text if isinstance(text, str) else ""

    def encode_text(self, text: str, *, add_begin: bool = True) -> list[int]:
        """Ids of plain ``text``: special literals are text; the begin token is put first where the model wants it."""
        ids = self._encode_plain(text)
        bos = self.specials.get(self.special_text("bos_token"))
        begin = [bos] if add_begin and self.config.get("add_bos_token") and bos is not None else []
        return self._without_mask(begin + ids)

    def encode_rendered(self, rendered: str, guard: TextGuard) -> list[int]:
        """Ids of a rendered chat template: its markers become special ids, guarded literals stay text."""
        ids: list[int] = []
        position = 0
        for marker in self._markers.finditer(rendered):
            ids += self._encode_plain(guard.lift(rendered[position : marker.start()]))
            ids.append(self.specials[marker.group()])
            position = marker.end()
        return self._without_mask(ids + self._encode_plain(guard.lift(rendered[position:])))

    def check_ids(self, ids: list[int]) -> list[int]:
        """``ids`` as a prompt given by number. Raises ``InvalidValueError`` for an unknown id or the mask id."""
        for index in ids:
            if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < self.size:
                raise InvalidValueError(f"Token id {shown(index)} is outside 0 to {self.size - 1}.", param="prompt")
        return self._without_mask(ids)

    def decode(self, ids: list[int], *, keep_special: bool = False) -> str:
        """The text of ``ids``, special tokens left out unless ``keep_special``."""
        return self._hf.decode(ids, skip_special_tokens=not keep_special)

    def pieces(self, ids: list[int]) -> list[str]:
        """Each id's own text, for showing a canvas cell by cell; undecodable bytes show as U+FFFD."""
        return [self._hf.decode([index], skip_special_tokens=False) for index in ids]

    def spelling(self, token_id: int) -> tuple[str, bytes]:
        """A token's text by itself, and its bytes: a part of a character has no text (U+FFFD) but bytes."""
        token, text = self._hf.id_to_token(token_id) or "", self.pieces([token_id])[0]
        if token.startswith(_SPACE) and not text.startswith(" "):
            text = " " + text  # decoders of this kind leave out the first space of a text
        if _REPLACEMENT not in text or token in self.specials:
            return text, text.encode()
        if fallback := _BYTE_FALLBACK.fullmatch(token):
            return text, bytes([int(fallback[1], 16)])
        if all(symbol in _BYTE_OF_SYMBOL for symbol in token):
            return text, bytes(_BYTE_OF_SYMBOL[symbol] for symbol in token)
        return text, text.encode()

    def incremental_decoder(self, shown: Collection[str] = ()) -> IncrementalDecoder:
        """A fresh decoder for one growing sequence, which shows the special tokens whose texts are in ``shown``."""
        ids = {self.specials[text]: text for text in shown if text in self.specials}
        return IncrementalDecoder(self, self._hf, ids)

    def guard(self, contents: list[str]) -> TextGuard:
        """A guard for ``contents``. Raises ``InvalidValueError`` if they use up every private character."""
        used = set().union(*contents)
        fence = next((chr(code) for code in _PRIVATE_USE if chr(code) not in used), None)
        if fence is None:
            raise InvalidValueError(
                "The messages use every private-use character (U+E000 to U+F8FF).",
                hint="Leave one of them out.",
                param="messages",
            )
        return TextGuard(self.specials, self._markers, fence)

    def _without_mask(self, ids: list[int]) -> list[int]:
        if self.mask_id in ids:
            raise InvalidValueError(
                f"The prompt holds the mask token ({self.mask_id}), which marks positions to be generated.",
                hint="Take it out of the prompt.",
                param="prompt",
            )
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        # The batch form lets other threads run meanwhile; the plain form holds the interpreter's lock.
        try:
            return self._hf.encode_batch_fast([text], add_special_tokens=False)[0].ids if text else []
        except TypeError:
            raise InvalidValueError(
                "The text is not valid Unicode: it holds half a character.", param="prompt"
            ) from None


class TextGuard:
    """Hides special literals inside content from the marker search, and brings them back.

    A literal becomes its id between two ``fence`` characters, which occur nowhere in the content.
    """

    def __init__(self, specials: dict[str, int], markers: re.Pattern[str], fence: str) -> None:
        self._specials, self._markers, self._fence = specials, markers, fence
        self._literals = {str(index): literal for literal, index in specials.items()}
        self._hidden = re.compile(f"{fence}([0-9]+){fence}")

    def hide(self, text: str) -> str:
        """``text`` without special literals."""
        return self._markers.sub(lambda found: f"{self._fence}{self._specials[found.group()]}{self._fence}", text)

    def lift(self, text: str) -> str:
        """The text as it was before ``hide``."""
        return self._hidden.sub(lambda found: self._literals.get(found.group(1), ""), text)


class IncrementalDecoder:
    """Feeds on final token ids, one at a time, and gives the text that can no longer change.

    Bytes of an unfinished character are held back. ``flush`` gives what is left, so that all pieces together
    equal ``Tokenizer.decode`` of all ids. Special tokens have no text but those of ``shown``, at which the text is cut
    and each side is decoded by itself.
    """

    def __init__(self, tokenizer: Tokenizer, hf: HfTokenizer, shown: dict[int, str]) -> None:
        self._tokenizer, self._hf, self._shown = tokenizer, hf, shown
        self._begin()

    def _begin(self) -> None:
        self._stream = DecodeStream(skip_special_tokens=True)
        self._ids: list[int] = []
        self._given = 0

    def step(self, token_id: int) -> str:
        """The text that became certain with ``token_id``; often empty."""
        if token_id in self._shown:
            rest = self.flush()
            self._begin()
            return rest + self._shown[token_id]
        self._ids.append(token_id)
        piece = self._stream.step(self._hf, token_id) or ""
        self._given += len(piece)
        return piece

    def flush(self) -> str:
        """The rest of the text, now that no more ids will come."""
        return self._tokenizer.decode(self._ids)[self._given :]
