"""Health, readiness, metrics and the tokenizer endpoints of a live server."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

OF_MODEL = {"model", "lane", "paradigm"}
LONG = {  # runs to its last token, and has text from early on, whatever the model would rather say
    "prompt": "one two three",
    "max_tokens": 600,
    "unmask": {"rule": "low_confidence", "cache": "none", "end_tokens": "never"},
}


async def scrape(http) -> dict[str, float]:
    """Every sample that has no labels but its model's, by name."""
    async with http.get("/metrics") as response:
        text = await response.text()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {sample.name: sample.value for sample in samples if not sample.labels.keys() - OF_MODEL}


async def post(http, path, body):
    async with http.post(path, json=body) as response:
        return response.status, await response.json()


async def test_ready(http):
    async with http.get("/ready") as response:
        assert response.status == 200
        assert (await response.json())["status"] == "ready"


async def test_concurrent_requests_share_forwards_and_keep_their_answers(http):
    questions = [f"What is {number} + 8?" for number in range(12)]

    async def ask(question):
        body = {"messages": [{"role": "user", "content": question}]}
        _, answer = await post(http, "/v1/chat/completions", body)
        return answer["choices"][0]["message"]["content"], answer["unmask"]["forwards"]

    alone = [await ask(question) for question in questions]
    before = await scrape(http)
    together = await asyncio.gather(*(ask(question) for question in questions))
    after = await scrape(http)
    assert together == alone
    steps = after["unmask_engine_steps_total"] - before["unmask_engine_steps_total"]
    assert steps < sum(forwards for _, forwards in alone)


async def test_metrics_count_what_was_answered(http):
    before = await scrape(http)
    _, answer = await post(http, "/v1/completions", {"prompt": "What is", "max_tokens": 40, "ignore_eos": True})
    after = await scrape(http)

    def grew(name):
        return after[name] - before[name]

    assert grew("unmask_request_seconds_count") == 1
    assert grew("unmask_time_to_first_block_seconds_count") == 1
    assert grew("unmask_forwards_total") == answer["unmask"]["forwards"]
    assert grew("unmask_blocks_committed_total") == answer["unmask"]["blocks"]
    assert grew("unmask_tokens_committed_total") >= 40
    assert grew("unmask_canvas_tokens_computed_total") == answer["unmask"]["canvas_tokens"]
    assert grew("unmask_tokens_discarded_total") == answer["unmask"]["discarded_tokens"]
    assert grew("unmask_tokens_discarded_total") == grew("unmask_tokens_committed_total") - 40
    assert grew("unmask_denoise_step_seconds_count") == grew("unmask_engine_steps_total")
    assert grew("unmask_block_latency_seconds_count") == 1
    assert after["unmask_requests_running"] == after["unmask_requests_waiting"] == 0
    assert after["unmask_kv_pages_in_use"] == 0
    assert after["unmask_load_seconds"] > 0


async def test_a_single_block_has_no_block_latency(http):
    before = await scrape(http)
    await post(http, "/v1/completions", {"prompt": "What is", "max_tokens": 8})
    after = await scrape(http)
    assert after["unmask_block_latency_seconds_count"] == before["unmask_block_latency_seconds_count"]


async def test_tokenize_and_back(http):
    text = "What is 7 + 8? Größe \u2603"
    status, tokens = await post(http, "/tokenize", {"prompt": text, "return_token_strs": True})
    assert status == 200
    assert tokens["count"] == len(tokens["tokens"]) == len(tokens["token_strs"])
    assert tokens["max_model_len"] == 1024
    assert (await post(http, "/detokenize", {"tokens": tokens["tokens"]}))[1] == {"prompt": text}


async def test_special_literals_tokenize_as_text(http):
    _, tokens = await post(http, "/tokenize", {"prompt": "<|mdm_mask|>", "add_special_tokens": False})
    assert tokens["count"] > 1
    assert 6 not in tokens["tokens"]
    _, text = await post(http, "/detokenize", {"tokens": [6]})
    assert text == {"prompt": "<|mdm_mask|>"}


async def test_tokenize_messages_as_chat_counts_them(http):
    messages = [{"role": "user", "content": "What is 7 + 8?"}]
    _, tokens = await post(http, "/tokenize", {"messages": messages})
    _, answer = await post(http, "/v1/chat/completions", {"messages": messages})
    assert tokens["count"] == answer["usage"]["prompt_tokens"]
    assert tokens["token_strs"] is None


async def test_tokenizer_endpoints_name_what_is_wrong(http):
    for path, body, param in [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": [{"role": "user", "content": "b"}]}, "prompt"),
        ("/tokenize", {"prompt": "a", "truncate": 1}, "truncate"),
        (
            "/tokenize",
            {"messages": [{"role": "user", "content": "b"}], "add_special_tokens": True},
            "add_special_tokens",
        ),
        ("/detokenize", {"tokens": [1, 10**6]}, "tokens[1]"),
        ("/detokenize", {"tokens": "hi"}, "tokens"),
    ]:
        status, body = await post(http, path, body)
        assert (status, body["error"]["param"]) == (400, param)


async def test_tokenizer_info(http):
    async with http.get("/tokenizer_info") as response:
        info = await response.json()
    assert info["tokenizer_class"]
    assert info["eos_token"] == "<|endoftext|>"
    assert "<|assistant|>" in info["chat_template"]
