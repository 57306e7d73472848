"""Models on engines of other kinds, whose ends come at the worst moment."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace
from urllib.parse import quote

import aiohttp
import pytest
import structlog
from yarl import URL

from tests.gateway.upstream.fake import BREAK, HI, Script, chat, chunk, endpoint, fake, stream
from tests.serving.fakes import serving, until
from unmask.errors import EngineCrashedError, ModelLoadFailedError
from unmask.gateway.upstream.upstream import Upstream
from unmask.metrics import Metrics
from unmask.serving.entry import Stay
from unmask.serving.house import House
from unmask.serving.lane_entry import LaneEntry
from unmask.serving.lane_model import LaneModel
from unmask.serving.listing import Listing
from unmask.terms import NO_TIMEOUTS

LISTING = Listing(name="m", created=0, lane="my-lane", paradigm="autoregressive", family="f")


def entry_at(url: str, listing: Listing = LISTING, **more) -> LaneEntry:
    async def connect():
        return endpoint(url), None

    return LaneEntry(listing, connect, capacity=8, **more)


async def connect_nowhere():
    return endpoint(kind="remote"), None


async def test_a_model_that_goes_while_its_canary_sings_has_no_verdict():
    """Its requests end with errors, which say nothing of it; it is asked again when it is loaded again."""
    async with fake(Script([60.0])) as server:
        entry = entry_at(server.url, canary=True)
        with structlog.testing.capture_logs() as log:
            resident = await entry.load(lambda share: None)
            await until(lambda: bool(server.bodies))
            await resident.close()
            async with asyncio.timeout(5):
                await entry._asking
        assert not resident.alive
        assert entry.listings[0].canary is None
        assert log == []
        server.scripts = [Script([stream(chunk(content="Paris is its name."), chunk("stop"))])]
        resident = await entry.load(lambda share: None)
        await until(lambda: entry.listings[0].canary is not None)
        await resident.close()


async def test_an_engines_last_words_are_waited_for_until_they_come():
    """Whoever waits for what comes next may be cancelled, as a stream is to send a sign of life, and ask again."""
    said = asyncio.Event()

    async def last_words():
        await said.wait()
        return ModelLoadFailedError("It had no memory left.")

    async with fake(Script([stream(chunk(content="Once"), done=False), BREAK])) as server:
        upstream = Upstream(endpoint(server.url))
        metrics = Metrics("m", "f", "autoregressive", lambda: model.stats())
        model = LaneModel("m", upstream, metrics, 8, NO_TIMEOUTS, last_words)
        admission = await model.admit_chat(chat(), "")
        with admission.running():
            await admission.next()
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(admission.next(), 0.2)
            said.set()
            with pytest.raises(ModelLoadFailedError):
                await asyncio.wait_for(admission.next(), 5)
        await upstream.close()


async def test_an_engine_elsewhere_has_no_last_words():
    async with fake(Script([BREAK])) as server:
        entry = entry_at(server.url)
        resident = await entry.load(lambda share: None)
        admission = await resident.model("m").admit_chat(chat(), "")
        with pytest.raises(EngineCrashedError, match="broke off"), admission.running():
            await admission.next()
        await resident.close()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"prompt": "Once"}),
        ("/tokenize", {"messages": HI}),
        ("/detokenize", {"tokens": [1]}),
        ("/tokenizer_info?model=", None),
        ("/v1/messages/count_tokens", {"messages": HI}),
    ],
)
async def test_what_an_engine_cannot_tell_is_refused(path, body):
    entry = LaneEntry(LISTING, connect_nowhere, capacity=8)
    async with serving(entry) as server, aiohttp.ClientSession(server.url) as http:

        def ask(name):
            return http.get(path + name) if body is None else http.post(path, json=body | {"model": name})

        async with ask("m") as response:
            assert (response.status, response.headers["x-should-retry"]) == (501, "false")
            assert "is not to be had for 'm': lane 'my-lane' serves it" in await response.text()
        async with ask("n") as response:
            assert response.status == 404


@pytest.mark.parametrize(
    "body", [{}, {"prompt": "Once", "messages": HI}, {"messages": HI, "add_special_tokens": True}], ids=str
)
async def test_no_model_is_loaded_for_what_is_wrong(body):
    async with (
        serving(entry_at("http://127.0.0.1:1/v1")) as server,
        aiohttp.ClientSession(server.url) as http,
        http.post("/tokenize", json=body | {"model": "m"}) as response,
    ):
        assert response.status == 400


async def test_who_asks_ollama_for_one_model_is_told_nothing_of_another():
    async with fake(Script([60.0])) as far, serving(entry_at(far.url)) as server:
        server.engine.running = False
        url, body = f"{server.url}/api/chat", {"model": "m", "messages": []}
        async with aiohttp.ClientSession() as http, http.post(url, json=body) as response:
            assert (response.status, (await response.json())["done_reason"]) == (200, "load")


async def test_a_model_that_has_gone_is_let_go():
    house = House([entry_at("http://127.0.0.1:1/v1", stay=Stay(idle_seconds=0))])
    async with house.hold("m"):
        loaded = weakref.ref(house.loaded("m"))
    await until(lambda: house.loaded("m") is None and house.states()[0].state == "absent")
    gc.collect()
    assert loaded() is None
    await house.close()


@pytest.mark.parametrize(("name", "found"), [("x:7b", "m"), ("x:7b:legal", "m:legal"), ("x", None), ("x:legal", None)])
def test_aliases_with_a_tag_of_their_own(name, found):
    entry = LaneEntry(LISTING, connect_nowhere, capacity=8, aliases=["x:7b"])
    entry.listings = [LISTING, replace(LISTING, name="m:legal")]
    listing = entry.find(name)
    assert (listing and listing.name) == found


@pytest.mark.parametrize(
    "name", ["org/model", "m:7b", "m/load", "m/log", "m?x=1#y", "50%25", "m\u00fc\u6a21", " m ", "../m"]
)
async def test_odd_names(name):
    entry = LaneEntry(replace(LISTING, name=name), connect_nowhere, capacity=8)
    async with serving(entry) as server, aiohttp.ClientSession() as http:

        async def get(method: str, path: str, **more):
            async with http.request(method, URL(server.url + path, encoded=True), **more) as response:
                return response.status, await response.json()

        quoted = quote(name, safe="")
        assert (await get("GET", f"/v1/models/{quoted}"))[1]["id"] == name
        assert (await get("GET", f"/v1/models/{quoted}", headers={"anthropic-version": "1"}))[1]["id"] == name
        assert (await get("POST", "/api/show", json={"model": name}))[1]["modelfile"] == f"FROM {name}"
        assert (await get("POST", f"/unmask/models/{quoted}/load"))[1]["name"] == name
        assert (await get("POST", f"/unmask/models/{quoted}/stop"))[1]["name"] == name
        status, told = await get("GET", f"/unmask/models/{quoted}/log")
        assert (status, told["error"]["code"]) == (404, "log_not_found")
        status, told = await get("POST", "/tokenize", json={"model": name, "prompt": "Once"})
        assert (status, told["error"]["code"]) == (501, "not_served")
