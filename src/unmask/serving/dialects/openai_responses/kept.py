"""Responses that are kept: found again, gone on from, and forgotten."""

from __future__ import annotations

from typing import Literal

import msgspec
from fastapi import Request
from msgspec.structs import replace

from unmask.errors import InvalidValueError, PreviousResponseNotFoundError, ResponseNotFoundError
from unmask.serving.dialects.openai_responses.items import Item, Message, OutputItem, OutputText
from unmask.serving.dialects.openai_responses.wire import ItemsQuery
from unmask.serving.response_store import KeptResponse, ResponseStore
from unmask.serving.tenant import tenant_of
from unmask.shown import shown

_MOST_BYTES = 4 * 2**20  # of a conversation that is gone on with: each request reads all of it


class ItemList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the items of an input."""

    object: Literal["list"] = "list"
    data: list[Item]
    first_id: str
    last_id: str
    has_more: bool


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """A response is forgotten."""

    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


class _Answered(msgspec.Struct, frozen=True):
    """What of a response is needed to go on from it."""

    output: list[OutputItem]


class Kept:
    """The responses that the sender of ``request`` may know of: those of the same API key."""

    def __init__(self, store: ResponseStore, request: Request) -> None:
        self.store = store
        self.owner = tenant_of(request, None)

    async def find(self, response_id: str) -> KeptResponse:
        """The response of that id. Raises ``ResponseNotFoundError`` and ``StoreError``."""
        found = await self.store.find(self.owner, response_id)
        if found is None:
            raise _not_found(response_id)
        return found

    async def conversation(self, response_id: str | None) -> list[Item]:
        """All items up to the end of the response of that id.

        Raises ``PreviousResponseNotFoundError``, and ``InvalidValueError`` for very large ones: templates may leave out
        what a conversation holds, so that contexts do not bound it.
        """
        if response_id is None:
            return []
        found = await self.store.find(self.owner, response_id)
        if found is None:
            raise PreviousResponseNotFoundError(
                f"Previous response with id {shown(response_id)} not found.",
                hint="Send the whole conversation as 'input'.",
                param="previous_response_id",
            )
        if len(found.input) > _MOST_BYTES:
            raise InvalidValueError(
                f"The conversation that 'previous_response_id' names is larger than {_MOST_BYTES >> 20} MiB.",
                hint="Begin a new one.",
                param="previous_response_id",
            )
        answer = msgspec.json.decode(found.body, type=_Answered).output
        return [*_items(found), *(_as_input(item) for item in answer)]

    async def delete(self, response_id: str) -> Deletion:
        """Forget a response. Raises ``ResponseNotFoundError``."""
        if not await self.store.delete(self.owner, response_id):
            raise _not_found(response_id)
        return Deletion(id=response_id)


def page(found: KeptResponse, query: ItemsQuery) -> ItemList:
    """The items of its input that ``query`` asks for. Raises ``InvalidValueError`` for one that is not there."""
    items = _items(found)
    if query.order == "desc":
        items.reverse()
    start = 0
    if query.after is not None:
        place = next((place for place, item in enumerate(items) if item.id == query.after), None)
        if place is None:
            raise InvalidValueError(f"'after': the input has no item {shown(query.after)}.", param="after")
        start = place + 1
    data = items[start : start + query.limit]
    return ItemList(
        data=data,
        first_id=data[0].id if data else "",
        last_id=data[-1].id if data else "",
        has_more=start + query.limit < len(items),
    )


def _as_input(item: OutputItem) -> Item:
    """``item`` without log-probabilities, which tell nothing of what was said."""
    if not isinstance(item, Message):
        return item
    return replace(item, content=[OutputText(part.text) for part in item.content])


def _items(found: KeptResponse) -> list[Item]:
    return msgspec.json.decode(found.input, type=list[Item])


def _not_found(response_id: str) -> ResponseNotFoundError:
    return ResponseNotFoundError(
        f"Response with id {shown(response_id)} not found.",
        hint="It may be too old, have been created with 'store': false, or belong to another API key.",
        param="response_id",
    )
