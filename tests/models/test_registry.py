"""From a checkpoint's JSON files to its spec: spellings of configs, precedence of ids, what is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.golden.checkpoints import served_copy
from tests.infos import model_info
from unmask.checkpoints.directory import open_checkpoint
from unmask.errors import InvalidCheckpointError, InvalidValueError, UnknownArchitectureError
from unmask.models import gemma_generation
from unmask.models.registry import FAMILIES, describe
from unmask.models.spec import ExpertShape
from unmask.params import GenerationParams
from unmask.resolve import resolve

DENSE = {
    "vocab_size": 151936,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
}
MINI = {
    "architectures": ["LLaDA2MoeModelLM"],
    "vocab_size": 157184,
    "hidden_size": 2048,
    "num_hidden_layers": 20,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 5120,
    "moe_intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "n_group": 8,
    "topk_group": 4,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
}


@pytest.fixture
def spec_of(tmp_path):
    """The spec of a directory with these JSON files, and weights that nobody opens."""
    (tmp_path / "model.safetensors").touch()

    def described(config, *, generation=None, tokens=None, tokenizer_config=None, **options):
        files = {
            "config.json": config,
            "generation_config.json": generation,
            "tokenizer.json": None if tokens is None else {"added_tokens": tokens},
            "tokenizer_config.json": tokenizer_config,
        }
        for name, content in files.items():
            (tmp_path / name).unlink(missing_ok=True)
            if content is not None:
                (tmp_path / name).write_text(json.dumps(content))
        return describe(open_checkpoint(str(tmp_path)), **options)

    return described


def dream(**changes):
    return {"architectures": ["DreamModel"], "mask_token_id": 5} | DENSE | changes


def added(ids):
    return [{"content": text, "id": index} for text, index in ids.items()]


def test_describing_needs_no_torch():
    code = "import sys, unmask.models.registry; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_row_for_each_architecture():
    assert set(FAMILIES) == {
        "LLaDAModelLM",
        "LLaDAMoEModelLM",
        "LLaDA2MoeModelLM",
        "DreamModel",
        "SDARForCausalLM",
        "SDARMoeForCausalLM",
        "Fast_dLLM_QwenForCausalLM",
        "RND1",
        "RND1LM",
        "DiffusionGemmaForBlockDiffusion",
    }


@pytest.mark.parametrize("family", ["llada", "llada_moe", "llada2", "dream", "sdar", "fast_dllm_v2"])
def test_fixtures(golden, tmp_path, family):
    spec = describe(open_checkpoint(str(served_copy(golden / family / "ckpt", tmp_path))))
    assert spec.family == family
    assert spec.mask_id == 255
    assert spec.shape.vocab == 256
    assert spec.shifted == (family in ("dream", "fast_dllm_v2"))
    assert spec.shape.sliding_window == 0


def test_llada2_as_published(spec_of):
    spec = spec_of(MINI, tokens=added({"<|mask|>": 156895, "<|endoftext|>": 156892, "<|role_end|>": 156891}))
    assert (spec.mask_id, spec.end_ids) == (156895, (156892, 156891))
    assert (spec.shape.rotary_size, spec.shape.rope_theta, spec.shape.head_size) == (64, 600000.0, 128)
    assert spec.shape.expert_layers == frozenset(range(1, 20))
    assert spec.shape.experts == ExpertShape(
        experts=256,
        used=8,
        intermediate=512,
        shared_intermediate=512,
        score="sigmoid",
        bias="selection",
        normalized=True,
        scale=2.5,
        groups=8,
        groups_used=4,
    )
    assert spec.shape.cache_width == 2 * 20 * 4 * 128
    assert (spec.attention, spec.anchor, spec.block_length) == ("block_causal", "start", 32)
    assert spec.defaults == {"threshold": 0.95}
    assert spec.rules[0] == "dynamic"
    assert "joint_threshold" in spec.rules


def test_llada_moe_as_published(spec_of):
    config = DENSE | {"architectures": ["LLaDAMoEModelLM"], "model_type": "llada", "vocab_size": 157184}
    del config["intermediate_size"]
    spec = spec_of(config)
    assert spec.family == "llada_moe"
    assert spec.mask_id == 156895
    assert spec.shape.experts == ExpertShape(experts=64, used=8, intermediate=1024)
    assert spec.shape.expert_layers == {0, 1}
    assert spec.shape.qk_norm
    assert (spec.shape.rope_theta, spec.shape.norm_eps, spec.shape.context_length) == (50000.0, 1e-5, 8192)
    assert (spec.rules[0], spec.caches[0], spec.max_tokens) == ("threshold", "none", 128)


@pytest.mark.parametrize("architecture", ["SDARMoeForCausalLM", "RND1", "RND1LM"])
def test_qwen3_moe(spec_of, architecture):
    config = DENSE | {
        "architectures": [architecture],
        "head_dim": 32,
        "num_experts": 16,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 24,
        "mlp_only_layers": [1],
        "rope_scaling": False,
        "sliding_window": False,
    }
    spec = spec_of(config)
    assert spec.shape.experts == ExpertShape(experts=16, used=4, intermediate=24, normalized=True)
    assert spec.shape.expert_layers == {0}
    assert spec.shape.head_size == 32
    assert spec.shifted == (spec.family == "rnd1")
    assert spec.mask_id == 151669


def test_fast_dllm_v2_and_sdar_know_their_blocks(spec_of):
    fast = spec_of(DENSE | {"architectures": ["Fast_dLLM_QwenForCausalLM"], "bd_size": 16, "block_size": 3})
    assert (fast.denoiser, fast.block_length, fast.mask_id) == ("sub_block", 16, 151665)
    assert fast.defaults == {"threshold": 0.95, "early_exit": True}
    sdar = DENSE | {"architectures": ["SDARForCausalLM"]}
    assert (spec_of(sdar).block_length, spec_of(sdar).shape.head_size) == (4, 128)
    assert spec_of(sdar | {"block_size": 64}).block_length == 64


@pytest.mark.parametrize(
    ("spelling", "theta"),
    [
        ({}, 1e6),
        ({"rope_theta": 5e4}, 5e4),
        ({"rope_theta": 5e4, "rope_scaling": None}, 5e4),
        ({"rope_theta": 5e4, "rope_scaling": {"rope_type": "default"}}, 5e4),
        ({"rope_theta": 5e4, "rope_scaling": {"type": "default"}}, 5e4),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e4}}, 5e4),
        ({"rope_parameters": {"rope_theta": None}, "rope_theta": 5e4}, 5e4),
    ],
)
def test_spellings_of_rope(spec_of, spelling, theta):
    assert spec_of(dream(**spelling)).shape.rope_theta == theta


@pytest.mark.parametrize(
    "change",
    [
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_scaling": "yarn"},
        {"rope_parameters": {"full_attention": {"rope_type": "default"}}},
        {"rope_parameters": {"rope_type": "llama3"}},
        {"rope_theta": "big"},
        {"partial_rotary_factor": 1.5},
        {"partial_rotary_factor": 0.01},
        {"hidden_act": "gelu"},
        {"use_sliding_window": True},
        {"layer_types": ["full_attention", "sliding_attention"]},
        {"attention_bias": True},
        {"tie_word_embeddings": "no"},
        {"num_key_value_heads": 3},
        {"num_attention_heads": 5},
        {"head_dim": 15},
    ],
    ids=str,
)
def test_refused_of_a_dense_model(spec_of, change):
    with pytest.raises(InvalidCheckpointError):
        spec_of(dream(**change))


def test_harmless_keys_of_a_dense_model(spec_of):
    harmless = {
        "use_sliding_window": False,
        "sliding_window": 4096,
        "layer_types": ["full_attention"] * 2,
        "hidden_act": "silu",
        "attention_bias": None,
        "dtype": "bfloat16",
        "tie_word_embeddings": True,
        "head_dim": 32,
    }
    shape = spec_of(dream(**harmless)).shape
    assert shape.tied
    assert shape.head_size == shape.rotary_size == 32
    assert shape.qkv_bias
    assert not shape.qk_norm


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"score_function": "softmax"}, "score_function"),
        ({"use_bias": True}, "use_bias"),
        ({"rotary_dim": 128}, "rotary_dim"),
        ({"router_dtype": "bf16"}, "router_dtype"),
        ({"n_group": 7}, "7 groups"),
        ({"n_group": 256}, "256 groups"),
        ({"topk_group": 9}, "8 groups"),
        ({"num_experts_per_tok": 200}, "200 of 128"),
        ({"num_shared_experts": -1}, "num_shared_experts"),
        ({"norm_topk_prob": 1}, "norm_topk_prob"),
    ],
)
def test_refused_of_llada2(spec_of, change, named):
    with pytest.raises(InvalidCheckpointError, match=named):
        spec_of(MINI | change)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"moe_layer_freq": [1]}, "moe_layer_freq"),
        ({"moe_layer_freq": "all"}, "moe_layer_freq"),
        ({"norm_topk_prob": True}, "norm_topk_prob"),
        ({"moe_router_score_function": "sigmoid"}, "score_function"),
        ({"clip_qkv": 8}, "clip_qkv"),
    ],
)
def test_refused_of_llada_moe(spec_of, change, named):
    with pytest.raises(InvalidCheckpointError, match=named):
        spec_of(DENSE | {"architectures": ["LLaDAMoEModelLM"], "vocab_size": 157184} | change)


def test_unknown_architectures_are_told_the_known_ones(spec_of):
    with pytest.raises(UnknownArchitectureError, match="SDARMoeForCausalLM"):
        spec_of(DENSE | {"architectures": ["NobodyKnowsLM"]})


def test_precedence_of_the_mask(spec_of):
    """The config, the tokenizer's own word, a token known by its text, what the published models have."""
    config = dream()
    tokens = added({"<|mask|>": 11, "<|MASK|>": 12})
    named = {"mask_token": {"content": "<|MASK|>"}}
    assert spec_of(config, tokens=tokens, tokenizer_config=named).mask_id == 5
    del config["mask_token_id"]
    assert spec_of(config, tokens=tokens, tokenizer_config=named).mask_id == 12
    assert spec_of(config, tokens=tokens, tokenizer_config={"mask_token": "<|mask|>"}).mask_id == 11
    assert spec_of(config, tokens=tokens, tokenizer_config={"mask_token": None}).mask_id == 11
    assert spec_of(config, tokens=tokens).mask_id == 11
    assert spec_of(config, tokens=[], tokenizer_config=named).mask_id == 151666
    assert spec_of(config).mask_id == 151666
    with pytest.raises(InvalidCheckpointError, match="which token is the mask") as caught:
        spec_of(config | {"vocab_size": 1000})
    assert "mask_token_id" in caught.value.hint


def test_end_tokens_come_from_everywhere_once(spec_of):
    tokens = added({"<|im_end|>": 9, "<|im_start|>": 8})
    spec = spec_of(dream(eos_token_id=7), generation={"eos_token_id": [7, 6]}, tokens=tokens)
    assert spec.end_ids == (7, 6, 9)
    assert spec_of(dream()).end_ids == ()


@pytest.mark.parametrize("broken", [[{"content": "<|im_end|>", "id": "9"}], [{"id": 9}], ["<|im_end|>"], {}], ids=str)
def test_broken_added_tokens(spec_of, broken):
    with pytest.raises(InvalidCheckpointError, match=r"tokenizer\.json"):
        spec_of(dream(), tokens=broken)


@pytest.mark.parametrize(
    "change", [{"mask_token_id": 151936}, {"eos_token_id": [7, 151936]}, {"eos_token_id": -1}], ids=str
)
def test_ids_beyond_the_vocabulary(spec_of, change):
    with pytest.raises(InvalidCheckpointError, match="token id"):
        spec_of(dream(**change))


@pytest.mark.parametrize("value", ["</s>", True, [7, "</s>"], [[7]], 7.0, {}], ids=str)
def test_ids_that_are_none(spec_of, value):
    """An end token that is passed over makes a model that never stops."""
    with pytest.raises(InvalidCheckpointError, match=r"^config\.json: 'eos_token_id'"):
        spec_of(dream(eos_token_id=value))
    with pytest.raises(InvalidCheckpointError, match=r"^text_config of config\.json: 'eos_token_id'"):
        spec_of(dream(text_config={"eos_token_id": value}))
    with pytest.raises(InvalidCheckpointError, match=r"^generation_config\.json: 'eos_token_id'"):
        spec_of(dream(), generation={"eos_token_id": value})
    with pytest.raises(InvalidCheckpointError, match="mask_token_id"):
        spec_of(dream(mask_token_id=value))


def test_who_attends_how(spec_of):
    full, adapted = spec_of(dream()), spec_of(dream(), adapted=True)
    assert (full.attention, full.denoiser, full.caches) == ("full", "full", ("none", "prefix", "dual", "delayed"))
    assert "d2f" not in full.rules
    assert (adapted.attention, adapted.anchor, adapted.caches) == ("block_causal", "prompt_end", ("exact", "none"))
    assert adapted.rules[0] == "threshold"
    assert "d2f" in adapted.rules
    assert adapted.max_tokens == 512
    assert spec_of(dream(block_size=16)).attention == "block_causal"
    assert spec_of(dream(block_size=16)).block_length == 16
    assert spec_of(dream(), adapted=True, attention="full").attention == "full"
    assert spec_of(dream(attention="block_causal"), attention="full").attention == "full"
    assert spec_of(MINI, adapted=True).anchor == "start"
    assert spec_of(MINI, attention="block_causal").anchor == "start"
    for config, asked in ((MINI, "full"), (dream(), "causal_prompt"), (dream(attention={}), None)):
        with pytest.raises(InvalidValueError) as caught:
            spec_of(config, attention=asked)
        assert caught.value.param == "attention"
    with pytest.raises(InvalidCheckpointError, match="grid_anchor"):
        spec_of(MINI | {"grid_anchor": "prompt_end"})


def test_temperatures_of_a_silent_file_are_those_of_requests():
    params = resolve(GenerationParams(), model_info("renoise", defaults={}), 1)
    assert (params.t_min, params.t_max) == (gemma_generation._COMMON_T_MIN, gemma_generation._COMMON_T_MAX)


def test_blocks_longer_than_the_context(spec_of):
    with pytest.raises(InvalidCheckpointError, match="block_size"):
        spec_of(dream(block_size=4096, max_position_embeddings=2048))
    assert spec_of(dream(max_position_embeddings=20)).block_length == 20


def test_diffusion_gemma(golden, tmp_path, spec_of):
    spec = describe(open_checkpoint(str(served_copy(golden / "diffusion_gemma" / "ckpt", tmp_path))))
    assert (spec.family, spec.attention, spec.denoiser) == ("diffusion_gemma", "causal_prompt", "renoise")
    assert (spec.mask_id, spec.end_ids, spec.block_length, spec.shape.sliding_window) == (None, (1,), 16, 8)
    assert spec.names is None
    assert (spec.rules, spec.caches) == (("entropy_bound",), ("exact",))
    assert spec.defaults == {"temperature": 1.0}
    config = json.loads((golden / "diffusion_gemma" / "ckpt" / "config.json").read_text())
    generation = {
        "eos_token_id": [1, 106],
        "max_denoising_steps": 20,
        "t_max": 0.9,
        "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.3},
    }
    spec = spec_of(config, generation=generation)
    assert spec.end_ids == (1, 106)
    assert spec.defaults == {"temperature": 1.0, "steps": 20, "entropy_bound": 0.3, "t_max": 0.9}
    with pytest.raises(InvalidCheckpointError, match="leaves no room"):
        spec_of(config | {"canvas_length": 2**20})


def test_what_a_file_may_say_of_renoising_is_what_a_request_may():
    """The limits are those of ``resolve``: there beyond is refused, here too."""
    most = {"steps" if key == "max_denoising_steps" else key: value for key, value in gemma_generation._MOST.items()}
    least = {"t_min": gemma_generation._LEAST_TEMPERATURE, "t_max": gemma_generation._LEAST_TEMPERATURE, "steps": 1}
    for name, value in most.items():
        sound, beyond = ({name: value * factor} for factor in (1, 2))
        if name == "t_min":
            sound, beyond = ({"t_max": 100.0} | params for params in (sound, beyond))
        resolve(GenerationParams(**sound), model_info("renoise"), 1)
        with pytest.raises(InvalidValueError):
            resolve(GenerationParams(**beyond), model_info("renoise"), 1)
    for name, value in least.items():
        others = {"t_min": value} if name == "t_max" else {}
        resolve(GenerationParams(**others | {name: value}), model_info("renoise"), 1)
        with pytest.raises(InvalidValueError):
            resolve(GenerationParams(**{name: value - (1 if name == "steps" else value)}), model_info("renoise"), 1)


@pytest.mark.parametrize(
    "generation",
    [
        {"sampler_config": 0.1},
        {"sampler_config": {"_cls_name": "BlockRefinementSamplerConfig"}},
        {"sampler_config": {"entropy_bound": -1}},
        {"max_denoising_steps": "many"},
        {"t_min": True},
        {"t_min": 0.9},
        {"t_max": 0.3},
        {"t_min": 0.7, "t_max": 0.6},
        {"max_denoising_steps": 100_000},
        {"max_denoising_steps": 0},
        {"stability_threshold": 1025},
        {"t_max": 1e30},
        {"t_min": 1e-9},
        {"confidence_threshold": 1e7},
        {"sampler_config": {"entropy_bound": 1e7}},
    ],
    ids=str,
)
def test_refused_of_diffusion_gemmas_generation_config(golden, spec_of, generation):
    config = json.loads((golden / "diffusion_gemma" / "ckpt" / "config.json").read_text())
    with pytest.raises(InvalidCheckpointError, match="generation_config"):
        spec_of(config, generation=generation)
