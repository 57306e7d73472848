"""The playground's files over HTTP: cached, closed to everything foreign, open without a key."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

import unmask.serving.playground.routes as playground
from tests.serving.fakes import serving

STATIC = Path(playground.__file__).parent / "static"
FILES = [path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.*")]
BROWSER = {"accept": "text/html,*/*;q=0.8"}  # "/" is the page for those who ask for one
SERVED = [name for name in FILES if Path(name).suffix in playground._TYPES]


async def test_the_page_and_all_that_it_names(http):
    async with http.get("/", headers=BROWSER) as response:
        assert response.status == 200
        assert response.content_type == "text/html"
        page = await response.text()
    named = re.findall(r'(?:src|href)="(/[^"]+)"', page)
    for name in SERVED:
        text = (STATIC / name).read_text()
        folder = Path("/playground") / Path(name).parent
        named += [str(folder / other).replace("/./", "/") for other in re.findall(r'from "\./([^"]+)"', text)]
    assert len(named) > 10
    for path in named:
        async with http.get(path) as response:
            assert response.status == 200, path
            assert (response.content_type == "text/javascript") == path.endswith(".js")
    assert {f"/playground/{name}" for name in SERVED if name.endswith(".js")} <= set(named)


@pytest.mark.parametrize("path", ["/", "/playground/app.js"])
async def test_nothing_is_sent_twice(http, path):
    async with http.get(path, headers=BROWSER) as response:
        etag = response.headers["etag"]
        assert response.headers["cache-control"] == "no-cache"
        assert await response.read()
    for known in (etag, f"W/{etag}", f'"other", {etag}'):
        async with http.get(path, headers=BROWSER | {"if-none-match": known}) as response:
            assert (response.status, await response.read()) == (304, b"")
            assert response.headers["etag"] == etag
    async with http.get(path, headers=BROWSER | {"if-none-match": '"other"'}) as response:
        assert response.status == 200
    async with http.head(path, headers=BROWSER) as response:
        assert (response.status, await response.read()) == (200, b"")


@pytest.mark.parametrize("path", ["/", "/playground/style.css"])
async def test_the_page_may_load_nothing_from_elsewhere(http, path):
    async with http.get(path, headers=BROWSER) as response:
        assert response.headers["vary"] == "accept"
        policy = response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_no_file_of_ours_names_another_host_or_runs_inline():
    for name in SERVED:
        text = (STATIC / name).read_text()
        if name.startswith("vendor/"):
            continue
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        assert not re.search(r"\son\w+=\"|<script>|style=\"|innerHTML|eval\(", text), name


@pytest.mark.parametrize(
    "path",
    [
        "/playground/",
        "/playground/no.js",
        "/playground/vendor/README.md",
        "/playground/../app.py",
        "/playground/%2e%2e/x",
    ],
)
async def test_what_is_no_file_of_the_page_is_not_found(http, server, path):
    async with http.get(URL(server.url + path, encoded=True)) as response:
        assert response.status == 404
        assert (await response.json())["error"]["code"] == "not_found"


async def test_the_page_needs_no_key_and_the_api_does():
    async with serving(api_key="secret") as fake, aiohttp.ClientSession(fake.url) as session:
        for path, status in [("/", 200), ("/playground/app.js", 200), ("/v1/models", 401), ("/playground", 401)]:
            async with session.get(path, allow_redirects=False) as response:
                assert response.status == status, path
        async with session.get(URL(f"{fake.url}/playground/../v1/models", encoded=True)) as response:
            assert response.status == 404


async def test_models_tell_which_options_each_rule_reads(http):
    async with http.get("/v1/models") as response:
        (card,) = (await response.json())["data"]
    told = card["unmask"]
    assert list(told["rule_options"]) == told["rules"]
    body = {"messages": [{"role": "user", "content": "What is 7 + 8?"}], "max_tokens": 8}
    for rule in ("threshold", "low_confidence"):
        for option, value in [("threshold", 0.5), ("steps", 4)]:
            async with http.post(
                "/v1/chat/completions", json={**body, "unmask": {"rule": rule, option: value}}
            ) as response:
                assert (response.status == 200) == (option in told["rule_options"][rule])
