"""Whose pages a browser may let talk to the server."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest

from tests.serving.fakes import serving

PAGE = "http://page.example:3000"
MODELS, TEXT = "/v1/models", "/v1/completions"


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as session:
        yield session


async def outcome(session, fake, headers, path=MODELS) -> tuple[int, str | None]:
    async with session.get(fake.url + path, headers=headers) as response:
        return response.status, (await response.json()).get("error", {}).get("code")


FINE, FOREIGN = (200, None), (403, "host_not_allowed")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "localhost.:8000", "a.localhost", "127.0.0.1", "127.8.9.1:5", "[::1]:8000"]
)
async def test_this_machine_by_any_of_its_names(session, host):
    async with serving() as fake:
        assert await outcome(session, fake, {"host": host}) == FINE


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:8000",
        "10.0.0.1",
        "0.0.0.0",
        "127.1",
        "localhost:80:80",
        "user@localhost",
        "localhost:port",
        "[::1",
        "[localhost]extra",
        "",
        "a" * 3000,
    ],
)
async def test_a_name_that_was_led_astray_is_refused_everywhere(session, host):
    async with serving() as fake:
        for path in (MODELS, "/health", "/metrics", "/nowhere"):
            assert await outcome(session, fake, {"host": host}, path) == FOREIGN


async def test_names_can_be_added_or_all_allowed(session):
    async with serving(allowed_hosts=("Unmask.example", "10.1.2.3")) as fake:
        for host in ("unmask.EXAMPLE:8000", "10.1.2.3"):
            assert await outcome(session, fake, {"host": host}) == FINE
        assert await outcome(session, fake, {"host": "x.unmask.example"}) == FOREIGN
    async with serving(allowed_hosts=("*",)) as fake:
        assert await outcome(session, fake, {"host": "any.example"}) == FINE


async def test_on_all_addresses_any_address_of_digits_will_do(session):
    for host in ("0.0.0.0", "::"):
        async with serving(host=host) as fake:
            for name in ("10.0.0.1:8000", "[fe80::1]", "192.168.1.9", "localhost", socket.gethostname()):
                assert await outcome(session, fake, {"host": name}) == FINE, name
            assert await outcome(session, fake, {"host": "evil.example"}) == FOREIGN
    async with serving(host="192.168.1.9") as fake:
        assert await outcome(session, fake, {"host": "192.168.1.9:8000"}) == FINE
        assert await outcome(session, fake, {"host": "192.168.1.8:8000"}) == FOREIGN


@pytest.mark.parametrize("origin", [PAGE, "null", "http://localhost:3000", "file://", "http://127.0.0.1", "nonsense"])
async def test_pages_of_other_sites_are_refused_before_anything_runs(session, origin):
    async with serving() as fake:
        fake.engine.answer([40])
        for method, body in (("POST", {"prompt": "a"}), ("OPTIONS", None)):
            headers = {"origin": origin, "access-control-request-method": "POST"}
            async with session.request(method, fake.url + TEXT, json=body, headers=headers) as response:
                answer = await response.json()
                assert (response.status, answer["error"]["code"]) == (403, "origin_not_allowed")
                assert "--allowed-origin" in answer["error"]["message"]
                assert not any(name.lower().startswith("access-control") for name in response.headers)
        assert not fake.engine.submitted


async def test_the_servers_own_pages_may(session):
    async with serving() as fake:
        fake.engine.answer([40])
        for origin in (fake.url, fake.url.upper().replace("HTTP", "http"), fake.url.replace("http", "https")):
            async with session.post(fake.url + TEXT, json={"prompt": "a"}, headers={"origin": origin}) as response:
                assert response.status == 200


@pytest.mark.parametrize("allowed", [PAGE, "*"])
async def test_allowed_pages_may_ask_and_read(session, allowed):
    async with serving(allowed_origins=(allowed,), api_key="s3cret") as fake:
        fake.engine.answer([40])
        asked = {
            "origin": PAGE,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        async with session.options(fake.url + TEXT, headers=asked) as response:  # browsers send no key here
            assert response.status == 200
            assert response.headers["access-control-allow-origin"] in (PAGE, "*")
            assert "POST" in response.headers["access-control-allow-methods"]
            assert {"authorization", "content-type"} <= set(
                response.headers["access-control-allow-headers"].lower().replace(" ", "").split(",")
            )
        for headers, status in (({"authorization": "Bearer s3cret"}, 200), ({}, 401)):
            sent = {"origin": PAGE, **headers}
            async with session.post(fake.url + TEXT, json={"prompt": "a"}, headers=sent) as response:
                assert response.status == status
                assert response.headers["access-control-allow-origin"] in (PAGE, "*")
                assert "x-request-id" in response.headers["access-control-expose-headers"]
                assert "access-control-allow-credentials" not in response.headers


async def test_only_the_listed_pages_may(session):
    async with serving(allowed_origins=(PAGE,)) as fake:
        for origin in ("http://page.example", "https://page.example:3000", "http://x.page.example:3000"):
            async with session.get(fake.url + MODELS, headers={"origin": origin}) as response:
                assert response.status == 403, origin


async def test_two_hosts_or_none(session):
    async with serving() as fake:
        port = int(fake.url.rpartition(":")[2])
        for hosts, status in ((b"host: localhost\r\nhost: evil.example\r\n", b"403"), (b"", b"200")):
            with socket.create_connection(("127.0.0.1", port)) as client:
                reader, writer = await asyncio.open_connection(sock=client.dup())
                writer.write(b"GET /health HTTP/1.0\r\n" + hosts + b"\r\n")
                assert (await reader.readline()).split()[1] == status
                writer.close()
