"""What each kind of lane is sent, and what is refused because it means nothing there."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from tests.gateway.upstream.fake import chat, endpoint
from unmask.answers.chat import Continuation, Length, template_call
from unmask.answers.syntax import HERMES, AnswerSyntax
from unmask.answers.tools import Tool, ToolChoice
from unmask.errors import InvalidValueError, UnmaskError, UnsupportedValueError
from unmask.gateway.upstream.request import ask_chat, ask_texts
from unmask.gateway.upstream.understood import HERE, KINDS, TAKEN
from unmask.params import GenerationParams

SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}}
F, G = Tool("f", "Does f.", SCHEMA, strict=True), Tool("g")
SAID = {
    "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 7, "seed": 3, "stop": ("x",), "ignore_eos": True,
    "min_tokens": 2, "logprobs": 1, "logit_bias": {3: -1.5}, "frames": True, "priority": "batch", "timeout_ms": 9,
    "regex": "a+", "choices": ("a", "b"), "json_schema": SCHEMA, "template": "x{a}", "holes": {"a": {}},
    "rule": "threshold", "cache": "exact", "score": "margin", "end_tokens": "last", "service_class": "gold",
    "early_exit": True, "min_p": 0.1, "presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.2,
}  # fmt: skip


def texts(*prompts, params=None, kind="vllm", **more):
    kept = "texts" if isinstance(prompts[0], str) else "ids"
    return ask_texts(
        Continuation(params=params or GenerationParams(), **{kept: list(prompts)}, **more), endpoint(kind=kind)
    )


def body(question=None, kind="vllm", **more):
    return json.loads(ask_chat(question or chat(), endpoint(kind=kind, **more))[0].body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [field.name for field in fields(GenerationParams)])
def test_every_parameter_is_sent_or_refused(name, kind):
    """Nothing is dropped: it stands in the body where the table says, is kept here, or is an error that names it."""
    value = SAID.get(name, 0.5 if "threshold" in name or "credit" in name else 1)
    question = chat(**{name: value})
    if name == "repeat_last_n":  # it belongs to a penalty
        assert body(question, kind) == body(kind=kind)
        if kind not in TAKEN["presence_penalty"]:
            return
        question = chat(**{name: value}, presence_penalty=1)
    sent = TAKEN.get(name, {}).get(kind)
    if sent is None:
        with pytest.raises(UnsupportedValueError, match="my-lane") as caught:
            ask_chat(question, endpoint(kind=kind))
        assert caught.value.param == name
        assert f"'{name}'" in caught.value.message
    elif sent == HERE:
        assert body(question, kind) == body(kind=kind)
    else:
        more = {"logprobs": {"top_logprobs"}, "repeat_last_n": {"presence_penalty"}}.get(name, set())
        assert {*body(question, kind)} - {*body(kind=kind)} == {sent} | more


@pytest.mark.parametrize("kind", KINDS)
def test_always_a_stream_with_its_usage(kind):
    sent = body(kind=kind)
    assert (sent["stream"], sent["stream_options"]["include_usage"], sent["model"]) == (True, True, "their-name")
    assert sent["messages"] == [{"role": "user", "content": "hi"}]


def test_what_asks_for_nothing_is_not_sent():
    plain = {"model", "messages", "stream", "stream_options"}
    assert {*body(chat(stop=None, ignore_eos=False, priority="interactive", logit_bias={}), "remote")} == plain


class TestSampling:
    @pytest.mark.parametrize(("kind", "off"), [("llama.cpp", 0), ("vllm", -1), ("sglang", -1), ("diffusion", 0)])
    def test_top_k_is_off_in_their_words(self, kind, off):
        assert [body(chat(top_k=k), kind)["top_k"] for k in (0, -1, 5)] == [off, off, 5]

    def test_what_asks_for_nothing_is_told_to_engines_with_defaults_of_their_own(self):
        question = chat(min_p=0, presence_penalty=0, frequency_penalty=0, repetition_penalty=1)
        assert {*body(question, "remote")} == {*body(kind="remote")}
        sent = body(question, "llama.cpp")
        told = [sent[name] for name in ("min_p", "presence_penalty", "frequency_penalty", "repeat_penalty")]
        assert told == [0, 0, 0, 1]
        assert ask_chat(question, endpoint(kind="vllm"))[0].applied == {
            "min_p": 0, "presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1,
        }  # fmt: skip

    def test_a_penalty_looks_no_further_than_the_context(self):
        questions = [chat(repetition_penalty=1.1, repeat_last_n=count) for count in (-1, 0, 64, 2**31 - 1)]
        told = [body(question, "llama.cpp", context_length=512)["repeat_last_n"] for question in questions]
        assert told == [512, 0, 64, 512]
        assert "repeat_last_n" not in body(questions[0], "vllm")
        with pytest.raises(UnsupportedValueError, match="repeat_last_n"):
            body(questions[2], "vllm")

    def test_each_copy_has_a_seed_of_its_own(self):
        asked = ask_chat(chat(seed=-1, copies=3), endpoint())
        seeds = [json.loads(one.body)["seed"] for one in asked]
        assert len({*seeds}) == 3
        assert all(0 <= seed < 2**32 - 1 for seed in seeds)
        assert [one.applied["seed"] for one in asked] == seeds
        assert json.loads(ask_chat(chat(copies=2), endpoint())[1].body).get("seed") is None

    def test_no_alternatives_are_one_to_llama_cpp(self):
        assert body(chat(logprobs=0), "llama.cpp")["top_logprobs"] == 1
        assert body(chat(logprobs=0), "vllm")["top_logprobs"] == 0

    @pytest.mark.parametrize(
        ("name", "value"),
        [("max_tokens", 0), ("temperature", float("nan")), ("temperature", True), ("top_p", 1.5), ("top_k", 1.5),
         ("seed", 2**63), ("logprobs", 21), ("logit_bias", {1: float("nan")}), ("logit_bias", {1: 101}),
         ("min_p", 1.1), ("presence_penalty", 3), ("frequency_penalty", -2.5), ("repetition_penalty", 0),
         ("timeout_ms", 0), ("choices", ()), ("choices", ("",)), ("min_tokens", -1)],
    )  # fmt: skip
    def test_values_out_of_range(self, name, value):
        with pytest.raises(InvalidValueError) as caught:
            ask_chat(chat(**{name: value}), endpoint(kind="vllm"))
        assert caught.value.param == name

    def test_applied_tells_what_was_said(self):
        asked = ask_chat(chat(max_tokens=5, regex="a", thinking=True), endpoint())[0]
        assert asked.applied == {"max_tokens": 5, "thinking": True, "constraint": "regex"}


class TestForms:
    def test_schemas(self):
        named = {"name": "answer", "schema": SCHEMA, "strict": True}
        assert body(chat(json_schema=SCHEMA))["response_format"] == {"type": "json_schema", "json_schema": named}
        assert body(chat(json_schema={"type": "object"}), "remote")["response_format"] == {"type": "json_object"}
        with pytest.raises(UnsupportedValueError, match="json_schema"):
            body(chat(json_schema=True))

    def test_choices(self):
        choices = chat(choices=('a"\\', "b\n[x]", "é"))
        assert body(choices, "llama.cpp")["grammar"] == 'root ::= "a\\"\\\\" | "b\\x0a[x]" | "é"'
        assert body(choices, "vllm")["structured_outputs"] == {"choice": ['a"\\', "b\n[x]", "é"]}
        assert body(choices, "sglang")["regex"] == 'a"\\\\|b\\\n\\[x\\]|é'

    def test_one_form_only(self):
        for question in (chat(regex="a", choices=("b",)), chat(regex="a", tools=[G], choice=ToolChoice("required"))):
            with pytest.raises(InvalidValueError, match="both"):
                body(question)


class TestTools:
    def test_as_openai_has_them(self):
        first, second = (tool["function"] for tool in body(chat(tools=[F, G]))["tools"])
        assert first == {"name": "f", "description": "Does f.", "parameters": SCHEMA, "strict": True}
        assert second == {"name": "g", "parameters": {"type": "object", "properties": {}}}

    def test_not_offered_they_are_not_sent(self):
        sent = body(chat(tools=[F], choice=ToolChoice("none")))
        assert "tools" not in sent
        assert "tool_choice" not in sent

    @pytest.mark.parametrize("kind", ["vllm", "sglang", "remote"])
    def test_demands(self, kind):
        assert "tool_choice" not in body(chat(tools=[F, G]), kind)
        assert body(chat(tools=[F, G], choice=ToolChoice("required")), kind)["tool_choice"] == "required"
        named = body(chat(tools=[F, G], choice=ToolChoice("named", "g")), kind)["tool_choice"]
        assert named == {"type": "function", "function": {"name": "g"}}

    def test_demands_of_llama_cpp_are_a_schema(self):
        sent = body(chat(tools=[F, G], choice=ToolChoice("named", "g")), "llama.cpp")
        assert (sent["tool_choice"], len(sent["tools"])) == ("none", 2)
        assert sent["response_format"]["json_schema"]["schema"]["properties"]["name"] == {"const": "g"}

    def test_one_call(self):
        assert body(chat(tools=[F], one_call=True))["parallel_tool_calls"] is False
        assert "parallel_tool_calls" not in body(chat(tools=[F]))
        assert body(chat(tools=[F]), "llama.cpp")["parallel_tool_calls"] is True

    def test_a_template_that_shows_none(self):
        """They are told of in plain text, as our own engine does it; a demand is a schema."""
        for kind in KINDS[:4]:
            sent = body(chat(tools=[G]), kind, tools=False)
            assert not sent.keys() & {"tools", "tool_choice", "parallel_tool_calls", "response_format"}
            assert '"name": "g"' in sent["messages"][0]["content"]
            demanded = body(chat(tools=[F, G], choice=ToolChoice("named", "g")), kind, tools=False)
            assert demanded["response_format"]["json_schema"]["schema"]["properties"]["name"] == {"const": "g"}
            assert "tools" not in demanded
        plain = body(chat(list(TestConversation.TURNS)), tools=False)["messages"]
        assert all({*turn} == {"role", "content"} for turn in plain)
        assert "<tool_response>\n1\n</tool_response>" in plain[3]["content"]
        assert len(body(chat(tools=[G], choice=ToolChoice("none")), tools=False)["messages"]) == 1
        for options in ({"tools": [F]}, {"tools": [G], "logprobs": 1}):
            with pytest.raises(UnsupportedValueError):
                body(chat(**options), tools=False)

    def test_a_server_for_diffusion_holds_nobody_to_a_demand(self):
        sent = body(chat(tools=[G], one_call=True), "diffusion", tools=False)
        assert not sent.keys() & {"tools", "tool_choice", "parallel_tool_calls", "response_format"}
        assert '"name": "g"' in sent["messages"][0]["content"]
        with pytest.raises(UnsupportedValueError) as caught:
            body(chat(tools=[G], choice=ToolChoice("required")), "diffusion", tools=False)
        assert caught.value.param == "tool_choice"

    def test_what_is_no_tool(self):
        with pytest.raises(InvalidValueError):
            body(chat(tools=[Tool("no name")]))


class TestConversation:
    TURNS = (
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hi", "name": "me"},
        {"role": "assistant", "content": "", "reasoning_content": "hm",
         "tool_calls": [template_call("", "f", {"é": 1}), template_call("b", "g", {}), template_call("", "f", {})]},
        {"role": "tool", "content": "1", "tool_call_id": "", "name": "f"},
        {"role": "tool", "content": "2", "tool_call_id": "b", "name": "g"},
        {"role": "tool", "content": "3", "tool_call_id": "", "name": "f"},
    )  # fmt: skip

    @pytest.mark.parametrize("kind", KINDS)
    def test_calls_and_their_results(self, kind):
        messages = body(chat(list(self.TURNS)), kind)["messages"]
        calls = messages[2]["tool_calls"]
        assert [call["function"]["arguments"] for call in calls] == ['{"é":1}', "{}", "{}"]
        ids = [call["id"] for call in calls]
        assert len({*ids}) == 3
        assert [turn["tool_call_id"] for turn in messages[3:]] == [ids[0], "b", ids[2]]

    def test_reasoning_and_names_are_for_engines(self):
        ours, theirs = (body(chat(list(self.TURNS)), kind)["messages"] for kind in ("vllm", "remote"))
        assert (ours[2]["reasoning_content"], ours[3]["name"]) == ("hm", "f")
        assert "reasoning_content" not in theirs[2]
        assert "name" not in theirs[3]
        assert ours[1]["name"] == theirs[1]["name"] == "me"

    def test_a_last_message_of_the_assistants(self):
        """llama.cpp goes on with it whatever it is told."""
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Sure, "}]
        assert body(chat(messages), "llama.cpp")["continue_final_message"]
        assert "continue_final_message" not in body(chat(messages), "vllm")
        called = [*messages[:1], {**messages[1], "tool_calls": [template_call("a", "f", {})]}]
        assert "continue_final_message" not in body(chat(called), "llama.cpp")

    def test_a_begun_answer(self):
        begun = {"role": "assistant", "content": "Sure, "}
        for kind in ("llama.cpp", "vllm", "sglang"):
            sent = body(chat(prefill="Sure, "), kind)
            assert sent["messages"][-1] == begun
            assert sent["continue_final_message"]
            assert sent.get("add_generation_prompt", True) == (kind == "sglang")
        with pytest.raises(UnsupportedValueError) as caught:
            body(chat(prefill="Sure, "), "remote")
        assert caught.value.param == "messages"
        with pytest.raises(UnsupportedValueError):
            body(chat(prefill="Sure, ", json_schema=SCHEMA), "llama.cpp")


class TestThinking:
    def test_engines_are_told_by_the_template(self):
        assert body(chat(thinking=False))["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}
        told = body(chat(thinking=True, effort="low"), "llama.cpp")["chat_template_kwargs"]
        assert told == {"enable_thinking": True, "thinking": True, "reasoning_effort": "low"}

    def test_others_by_an_effort(self):
        assert body(chat(thinking=True, effort="low"), "remote")["reasoning_effort"] == "low"
        assert body(chat(thinking=False), "remote")["reasoning_effort"] == "none"
        assert body(chat(thinking=False), "remote", snapshots=True)["reasoning_effort"] == "instant"
        with pytest.raises(UnsupportedValueError) as caught:
            body(chat(thinking=True), "remote")
        assert caught.value.param == "thinking"

    def test_a_server_for_diffusion_knows_no_such_thing(self):
        assert body(chat(thinking=False), "diffusion") == body(kind="diffusion")
        for options, param in (({"thinking": True}, "thinking"), ({"effort": "low"}, "effort")):
            with pytest.raises(UnsupportedValueError) as caught:
                body(chat(**options), "diffusion")
            assert caught.value.param == param

    def test_a_template_that_does_not_read_it(self):
        nothing = {"variables": frozenset(), "kind": "llama.cpp"}
        for options, param in (({"thinking": True}, "thinking"), ({"effort": "low"}, "effort")):
            with pytest.raises(UnsupportedValueError) as caught:
                body(chat(**options), **nothing)
            assert caught.value.param == param
        body(chat(thinking=False), **nothing)
        with pytest.raises(UnsupportedValueError):
            body(chat(thinking=False), opens_reasoning=True, **nothing)
        for known in ("enable_thinking", "thinking"):
            body(chat(thinking=True), kind="llama.cpp", variables=frozenset([known]))


class TestSnapshots:
    def test_are_asked_for_where_they_are_known(self):
        assert body(chat(frames=True), "remote", snapshots=True)["diffusing"] is True
        assert "diffusing" not in body(chat(), "remote", snapshots=True)
        with pytest.raises(UnsupportedValueError, match="canvas"):
            texts("x", params=GenerationParams(frames=True), kind="remote")


class TestTexts:
    def test_a_request_for_each_copy_of_each_prompt(self):
        asked = texts("a", "b", params=GenerationParams(seed=1, logprobs=2), copies=2)
        bodies = [json.loads(one.body) for one in asked]
        assert [(one["prompt"], one["seed"], one["logprobs"]) for one in bodies] == [
            ("a", 1, 2), ("a", 2, 2), ("b", 1, 2), ("b", 2, 2)]  # fmt: skip
        assert {one.path for one in asked} == {"/completions"}

    def test_token_ids_are_for_engines(self):
        assert json.loads(texts([1, 2])[0].body)["prompt"] == [1, 2]
        with pytest.raises(UnsupportedValueError) as caught:
            texts([1], kind="remote")
        assert caught.value.param == "prompt"

    @pytest.mark.parametrize("prompt", ["", []])
    def test_an_empty_prompt(self, prompt):
        with pytest.raises(InvalidValueError, match="empty"):
            texts(prompt)

    def test_schemas(self):
        params = GenerationParams(json_schema=SCHEMA)
        sent = {kind: json.loads(texts("x", params=params, kind=kind)[0].body) for kind in KINDS[:3]}
        assert sent["llama.cpp"]["json_schema"] == SCHEMA
        assert sent["vllm"]["structured_outputs"] == {"json": SCHEMA}
        assert json.loads(sent["sglang"]["json_schema"]) == SCHEMA
        with pytest.raises(UnsupportedValueError):
            texts("x", params=params, kind="remote")

    def test_an_echo_is_not_to_be_had(self):
        with pytest.raises(UnsupportedValueError) as caught:
            texts("x", echo=True)
        assert caught.value.param == "echo"

    def test_without_a_limit_there_is_none(self):
        assert json.loads(texts("x")[0].body)["max_tokens"] is None
        assert "max_tokens" not in json.loads(texts("x", kind="llama.cpp")[0].body)


class TestLength:
    def test_an_answer_that_may_be_cut_to_what_fits(self):
        asked = ask_chat(chat(max_tokens=99, length=Length()), endpoint())[0]
        limited, unlimited = json.loads(asked.body), json.loads(asked.unlimited)
        assert limited == unlimited | {"max_tokens": 99}
        assert "max_tokens" not in unlimited
        assert ask_chat(chat(max_tokens=99), endpoint())[0].unlimited is None
        assert ask_chat(chat(length=Length(all=True)), endpoint())[0].unlimited is None

    def test_a_context_of_the_clients_own(self):
        question = chat(length=Length(context=2048))
        for known in (None, 4096):
            with pytest.raises(UnsupportedValueError) as caught:
                ask_chat(question, endpoint(context_length=known))
            assert caught.value.param == "context"
        ask_chat(question, endpoint(context_length=2048))


def test_log_probabilities_need_parts_that_the_lane_tells_apart():
    with pytest.raises(UnmaskError) as caught:
        body(chat(logprobs=1), syntax=AnswerSyntax(tools=HERMES))
    assert caught.value.param == "logprobs"


def test_the_key_is_not_shown():
    where = endpoint(key="sk-secret")
    assert where.headers["Authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in repr(where)
    assert endpoint(key="k", key_header="api-key").headers["api-key"] == "k"
