"""DiffusionGemma's sizes, from configs of every spelling, and from broken ones."""

from __future__ import annotations

import copy
import json

import pytest

from unmask.errors import InvalidCheckpointError
from unmask.models.config import Config
from unmask.models.gemma_spec import LayerKind
from unmask.models.gemma_spec import shape as shape_of

PUBLISHED = {
    "architectures": ["DiffusionGemmaForBlockDiffusion"],
    "canvas_length": 256,
    "model_type": "diffusion_gemma",
    "text_config": {
        "global_head_dim": 512,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 2816,
        "intermediate_size": 2112,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 5,
        "max_position_embeddings": 262144,
        "moe_intermediate_size": 704,
        "num_attention_heads": 16,
        "num_experts": 128,
        "num_global_key_value_heads": 2,
        "num_hidden_layers": 30,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
        },
        "sliding_window": 1024,
        "top_k_experts": 8,
        "use_bidirectional_attention": "vision",
        "vocab_size": 262144,
    },
    "tie_word_embeddings": True,
}
DEFAULTED = (
    "global_head_dim",
    "head_dim",
    "hidden_activation",
    "layer_types",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_parameters",
    "use_bidirectional_attention",
)


def shape(config):
    return shape_of(Config(config, "config.json"))


def published(**changes):
    """The published config with keys of its text_config changed."""
    config = copy.deepcopy(PUBLISHED)
    config["text_config"] |= changes
    return config


def test_published():
    sizes = shape(PUBLISHED)
    assert sizes.layer_kinds[:6] == (LayerKind(True, 8, 256, 1e4, 128),) * 5 + (LayerKind(False, 2, 512, 1e6, 64),)
    assert sizes.layer_kinds == sizes.layer_kinds[:6] * 5
    assert (sizes.vocab, sizes.hidden, sizes.context_length, sizes.canvas_length) == (262144, 2816, 262144, 256)
    assert (sizes.experts.experts, sizes.experts.used, sizes.experts.intermediate) == (128, 8, 704)
    assert (sizes.sliding_window, sizes.softcap, sizes.norm_eps) == (1024, 30.0, 1e-6)
    assert sizes.cache_width == 25 * 2 * 8 * 256 + 5 * 2 * 2 * 512 + 2816


def test_fixture(golden):
    sizes = shape(json.loads((golden / "diffusion_gemma" / "ckpt" / "config.json").read_text()))
    assert [kind.sliding for kind in sizes.layer_kinds] == [True, True, False]
    assert sizes.layer_kinds[-1] == LayerKind(False, 1, 32, 1e6, 4)


def test_defaults_are_the_published_values():
    config = copy.deepcopy(PUBLISHED)
    del config["canvas_length"], config["tie_word_embeddings"]
    for key in DEFAULTED:
        del config["text_config"][key]
    assert shape(config) == shape(PUBLISHED)
    assert shape(published(**dict.fromkeys(DEFAULTED))) == shape(PUBLISHED)


@pytest.mark.parametrize("key", sorted(PUBLISHED["text_config"].keys() - {*DEFAULTED, "num_global_key_value_heads"}))
def test_other_sizes_must_be_there(key):
    config = copy.deepcopy(PUBLISHED)
    del config["text_config"][key]
    with pytest.raises(InvalidCheckpointError, match=key):
        shape(config)


def test_sizes_per_layer():
    """As transformers from 5.15 on writes them."""
    config = published()
    del config["text_config"]["global_head_dim"], config["text_config"]["num_global_key_value_heads"]
    own = {"head_dim": 512, "num_key_value_heads": 2}
    config["text_config"]["per_layer_config"] = {str(n): own for n in range(5, 30, 6)}
    assert shape(config) == shape(PUBLISHED)


def test_rope_in_two_keys():
    config = published(rope_parameters=None, rope_theta=5e5, rope_local_base_freq=2e4)
    kinds = shape(config).layer_kinds
    assert kinds[0] == LayerKind(True, 8, 256, 2e4, 128)
    assert kinds[5] == LayerKind(False, 2, 512, 5e5, 64)


def test_full_layers_without_own_heads_have_those_of_all():
    assert shape(published(num_global_key_value_heads=None)).layer_kinds[5].kv_heads == 8


def test_the_last_layer_is_never_sliding():
    kinds = shape(published(num_hidden_layers=8, layer_types=None)).layer_kinds
    assert [kind.sliding for kind in kinds] == [True] * 5 + [False, True, False]


ROPES = PUBLISHED["text_config"]["rope_parameters"]
HUGE = 2**40


@pytest.mark.parametrize(
    ("named", "changes"),
    [
        ("hidden_activation", {"hidden_activation": "silu"}),
        ("attention_bias", {"attention_bias": True}),
        ("use_bidirectional_attention", {"use_bidirectional_attention": "all"}),
        ("tie_word_embeddings", {"tie_word_embeddings": False}),
        ("attn_logit_softcapping", {"attn_logit_softcapping": 50.0}),
        ("num_kv_shared_layers", {"num_kv_shared_layers": 4}),
        ("hidden_size_per_layer_input", {"hidden_size_per_layer_input": 256}),
        ("use_double_wide_mlp", {"use_double_wide_mlp": True}),
        ("rope_scaling", {"rope_scaling": {"factor": 2.0}}),
        ("final_logit_softcapping", {"final_logit_softcapping": None}),
        ("final_logit_softcapping", {"final_logit_softcapping": -1}),
        ("vocab_size", {"vocab_size": HUGE}),
        ("hidden_size", {"hidden_size": "2816"}),
        ("hidden_size", {"hidden_size": 2816.0}),
        ("num_attention_heads", {"num_attention_heads": 0}),
        ("head_dim", {"head_dim": True}),
        ("sliding_window", {"sliding_window": -1}),
        ("rms_norm_eps", {"rms_norm_eps": float("inf")}),
        ("num_hidden_layers", {"num_hidden_layers": 2**31 - 1, "layer_types": None}),
        ("layer_types", {"num_hidden_layers": 31}),
        ("layer_types", {"layer_types": "full_attention"}),
        ("layer_types", {"layer_types": ["full_attention"] * 29 + [["full_attention"]]}),
        ("layer_types", {"layer_types": ["chunked_attention"] * 30}),
        ("layer_types", {"layer_types": []}),
        ("sliding_window_pattern", {"layer_types": None, "sliding_window_pattern": 0}),
        ("per_layer_config", {"per_layer_config": []}),
        ("per_layer_config", {"per_layer_config": {"5": 512}}),
        ("layer 5", {"per_layer_config": {"5": {"sliding_window": 7}}}),
        ("head_dim", {"per_layer_config": {"0": {"head_dim": "x"}}}),
        ("rope_parameters", {"rope_parameters": 1e6}),
        ("full_attention", {"rope_parameters": {"full_attention": [1e6]}}),
        ("rope_type", {"rope_parameters": {**ROPES, "full_attention": {"rope_type": "yarn"}}}),
        ("rope_type", {"rope_parameters": {**ROPES, "sliding_attention": {"rope_type": "linear"}}}),
        ("factor", {"rope_parameters": {**ROPES, "full_attention": {"factor": 8.0}}}),
        ("partial_rotary_factor", {"rope_parameters": {**ROPES, "full_attention": {"partial_rotary_factor": 1.5}}}),
        ("partial_rotary_factor", {"rope_parameters": {**ROPES, "sliding_attention": {"partial_rotary_factor": 0.5}}}),
        ("rope_theta", {"rope_parameters": {**ROPES, "sliding_attention": {"rope_theta": 0}}}),
    ],
)
def test_refused_by_name(named, changes):
    with pytest.raises(InvalidCheckpointError, match=named):
        shape(published(**changes))


@pytest.mark.parametrize(
    ("named", "changes"),
    [
        ("16 heads", {"num_key_value_heads": 3}),
        ("16 heads", {"num_global_key_value_heads": 32}),
        ("head size 255", {"head_dim": 255}),
        ("head size 7", {"global_head_dim": 7}),
        ("129 of 128 experts", {"top_k_experts": 129}),
        ("leaves no room", {"max_position_embeddings": 256}),
    ],
)
def test_contradictions(named, changes):
    assert named in shape(published(**changes)).faults()[0]
    assert shape(PUBLISHED).faults() == []


@pytest.mark.parametrize(
    ("named", "changes"),
    [
        ("tie_word_embeddings", {"tie_word_embeddings": False}),
        ("canvas_length", {"canvas_length": 0}),
        ("canvas_length", {"canvas_length": "256"}),
        ("text_config", {"text_config": None}),
        ("text_config", {"text_config": [2816]}),
        ("vocab_size", {"text_config": {}}),
    ],
)
def test_refused_at_the_top(named, changes):
    with pytest.raises(InvalidCheckpointError, match=named):
        shape(PUBLISHED | changes)
