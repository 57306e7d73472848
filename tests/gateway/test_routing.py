"""Where each kind of file goes, and what is said of one that goes nowhere. No engine runs here."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tests.foreign_models import FOREIGN, IMAGE_ARCHITECTURES, gguf_file, hugging_face, tiny_copy
from tests.gateway.known import (
    ALL,
    DECODES,
    FORK,
    LISTS_ALL,
    LLAMA_CPP,
    OWN,
    REMOTE,
    SGLANG,
    USUAL,
    VLLM,
    WORKER,
    lane,
    missing,
)  # fmt: skip
from tests.gguf_files import convert
from tests.golden.checkpoints import served_copy
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.gateway.routing import Route, route
from unmask.models.card import inspect_model
from unmask.refusal import Refusal

DECODER = {"llama__block_count": 1}
AWQ, MLX = {"quantization_config": {"quant_method": "awq"}}, {"quantization": {"bits": 4}}


def card_of(tmp_path, build):
    return inspect_model(str(build(tmp_path / "model")))


def foreign(kind):
    return FOREIGN[kind][2]


def refused(found, code):
    assert isinstance(found, Refusal), found
    assert found.code == code
    assert found.message
    assert found.remedy
    error = found.error()
    assert error.code == code
    assert error.status in (400, 404, 501)
    return f"{found.message} {found.remedy}"


# Every kind of container: how to make one, the lane it goes to or the code of the refusal, and words of that.
KINDS = {
    # GGUF files of diffusion models, by name, by key, or by what their attention is
    **{
        f"gguf {name}": (gguf_file(name), "invalid_checkpoint", "model.gguf")  # no sizes
        for name in ("llada", "llada-moe", "llada2", "dream", "rnd1", "diffusion-gemma", "diffusiongemma")
    },
    "gguf diffusion-something": (gguf_file("diffusion-new"), "no_lane", "'diffusion-new'"),
    "gguf dream of a name": (gguf_file("sdar"), "no_lane", "unknown model architecture"),
    "gguf with diffusion keys": (foreign("gguf-diffusion-llama"), "no_lane", "key 'diffusion.shift_logits'"),
    "gguf bidirectional with a mask": (foreign("gguf-bidirectional"), "no_lane", "attention.causal is false"),
    # GGUF files of others
    "gguf suspect": (foreign("gguf-suspect"), "llama.cpp", "mask token"),
    "gguf decoder": (gguf_file("llama", **DECODER), "llama.cpp", ""),
    "gguf decoder of tomorrow": (foreign("gguf-new"), "no_lane", "'novel'"),
    "gguf encoder": (foreign("gguf-encoder"), "not_a_text_model", "encoder"),
    "gguf embedder": (foreign("gguf-embedder"), "not_a_text_model", "encoder"),
    "gguf encoder with a mask": (
        gguf_file("bert", bert__attention__causal=False, tokenizer__ggml__mask_token_id=3), "not_a_text_model", "bert"
    ),
    **{f"gguf image {name}": (gguf_file(name), "not_a_text_model", name) for name in IMAGE_ARCHITECTURES},
    "gguf like an image": (gguf_file("fluxus"), "no_lane", "'fluxus'"),  # names of images are no parts of others
    "gguf without keys": (foreign("gguf-no-keys"), "not_a_text_model", "image"),
    "gguf projector": (foreign("gguf-clip"), "sidecar_not_model", "projector"),
    "gguf projector by type": (foreign("gguf-mmproj"), "sidecar_not_model", "mmproj"),
    "gguf projector by name": (foreign("gguf-mmproj-name"), "sidecar_not_model", "projector"),
    "gguf predictor by name": (foreign("gguf-mtp-name"), "sidecar_not_model", "predictor"),
    "gguf adapter": (foreign("gguf-adapter"), "adapter_not_model", "adapter"),
    "gguf vocabulary": (foreign("gguf-vocabulary"), "sidecar_not_model", "vocabulary"),
    "gguf importance matrix": (foreign("gguf-imatrix"), "sidecar_not_model", "imatrix"),
    # directories of Hugging Face
    "directory of diffusion": (tiny_copy, "unmask", ""),
    "directory of new diffusion": (foreign("unknown-diffusion"), "no_lane", "NemotronLabsDiffusionModel"),
    "directory by model_type": (
        hugging_face(architectures=["NovelModel"], model_type="nemotron_labs_diffusion"), "no_lane", "model_type"
    ),
    "directory of another fork": (foreign("other-fork"), "no_lane", "FastDLLMForCausalLM"),
    "directory by a mask": (
        hugging_face(architectures=["LlamaForCausalLM"], mask_token_id=3), "no_lane", "key 'mask_token_id'"
    ),
    "directory of a decoder": (foreign("llama"), "no_lane", "SGLang and vLLM"),
    "directory with code": (foreign("remote-code"), "unknown_architecture", "never runs code"),
    "directory of something": (foreign("unknown"), "unknown_architecture", "BertModel"),
    # pipelines, single files, adapters, pickles
    "pipeline of images": (foreign("pipeline"), "not_a_text_model", "FluxPipeline"),
    "pipeline of both": (foreign("mixed-pipeline"), "not_a_text_model", "UniLLaDaPipeline"),
    "pipeline of text": (foreign("text-pipeline"), "invalid_checkpoint", "language model"),
    "part of a pipeline": (foreign("pipeline-part"), "not_a_text_model", "FluxTransformer2DModel"),
    "weights of images": (foreign("image-file"), "not_a_text_model", "image"),
    "weights of an image checkpoint": (foreign("image-checkpoint"), "not_a_text_model", "image"),
    "weights of an adapter": (foreign("adapter-file"), "adapter_not_model", "LoRA"),
    "weights alone": (foreign("weights-file"), "invalid_checkpoint", "directory"),
    "adapter": (foreign("adapter"), "adapter_not_model", "GSAI-ML/LLaDA-8B-Base"),
    "pickle": (foreign("pickle-zip"), "pickle_refused", "never"),
    "pickled directory": (foreign("pickle-only"), "pickle_refused", "pytorch_model.bin"),
    # packed weights
    "mlx of diffusion": (foreign("mlx"), "no_lane", "MLX alone"),
    "mlx of a decoder": (hugging_face(architectures=["LlamaForCausalLM"], **MLX), "no_lane", "MLX alone"),
    "awq of diffusion": (foreign("awq"), "no_lane", "SGLang and vLLM alone"),
    "gptq of diffusion": (foreign("gptq"), "no_lane", "packed by gptq"),
    "fp8 of diffusion": (foreign("fp8"), "no_lane", "packed by fp8"),
    "awq of a decoder": (foreign("awq-llama"), "no_lane", "packed by awq"),
    # nothing
    "nothing": (foreign("nothing"), "checkpoint_not_found", "no model"),
    "an empty directory": (foreign("empty-directory"), "checkpoint_not_found", "config.json"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_container(tmp_path, kind):
    build, expected, words = KINDS[kind]
    found = route(card_of(tmp_path, build), USUAL)
    if isinstance(found, Route):
        assert found.lane.name == expected
        assert words in " ".join(found.warnings)
        assert bool(found.warnings) == bool(words)
    else:
        assert words in refused(found, expected)


@pytest.mark.parametrize("family", ["llada", "llada_moe", "llada2", "dream", "sdar", "fast_dllm_v2", "diffusion_gemma"])
def test_whole_diffusion_models_go_to_our_own_engine_in_either_container(golden, tmp_path, family):
    directory = inspect_model(str(served_copy(golden / family / "ckpt", tmp_path / "hf", tokenizer=True)))
    for lanes in (USUAL, ALL, ALL[::-1]):
        assert route(directory, lanes).lane is OWN
    if family in ("sdar", "fast_dllm_v2"):  # which no converter of GGUF knows
        return
    file = inspect_model(str(convert(golden / family / "ckpt", tmp_path / "model.gguf")))
    for lanes in (USUAL, ALL, ALL[::-1]):
        assert route(file, lanes).lane is OWN
    for wanted in ("llama.cpp", "lists-all"):
        text = refused(route(file, ALL, wanted), "paradigm_mismatch")
        assert f"'{file.architecture}'" in text
        assert "out of the command: unmask serves the diffusion architecture" in text


@pytest.mark.parametrize("build", [foreign("gguf-sdar"), foreign("gguf-bidirectional")])
def test_a_diffusion_model_goes_to_an_engine_that_decodes_it_and_to_no_other(tmp_path, build):
    card = card_of(tmp_path, build)
    assert card.paradigm == "diffusion"
    assert route(card, (OWN, LISTS_ALL, LLAMA_CPP, DECODES)).lane is DECODES
    text = refused(route(card, (OWN, LISTS_ALL, LLAMA_CPP)), "no_lane")
    assert "lists-all knows the architecture as autoregressive only" in text
    assert refused(route(card, ALL, "lists-all"), "paradigm_mismatch")


def test_who_gives_logits_alone_needs_our_own_engine_to_decode_them(golden, tmp_path):
    file = inspect_model(str(convert(golden / "diffusion_gemma" / "ckpt", tmp_path / "gemma.gguf")))
    assert route(file, (OWN, WORKER)).lane is route(file, (WORKER, OWN)).lane is OWN
    assert route(file, (OWN, WORKER), "worker").lane is WORKER
    assert "install worker" in refused(route(file, (OWN, missing(WORKER)), "worker"), "lane_missing")
    novel = card_of(tmp_path, foreign("gguf-sdar"))
    assert "gives logits only, and Unmask cannot decode" in refused(route(novel, (OWN, WORKER)), "no_lane")


def test_the_first_of_those_that_fit_is_taken(tmp_path):
    decoder = card_of(tmp_path, gguf_file("llama", **DECODER))
    assert route(decoder, (OWN, LISTS_ALL, LLAMA_CPP)).lane is LISTS_ALL
    assert route(decoder, (OWN, LLAMA_CPP, LISTS_ALL)).lane is LLAMA_CPP
    assert route(decoder, (OWN, LISTS_ALL, LLAMA_CPP), "llama.cpp").lane is LLAMA_CPP
    directory = inspect_model(str(foreign("llama")(tmp_path / "directory")))
    assert route(directory, ALL).lane is SGLANG
    assert route(directory, (OWN, LLAMA_CPP, REMOTE, VLLM)).lane is REMOTE


def test_packed_directories_go_to_the_engines_made_for_them(tmp_path):
    packed = card_of(tmp_path, foreign("awq-llama"))
    assert route(packed, (OWN, REMOTE, VLLM, SGLANG)).lane is VLLM
    assert "cannot compute with weights packed by awq" in refused(route(packed, ALL, "other-host"), "no_lane")
    fp8 = inspect_model(str(foreign("fp8")(tmp_path / "fp8")))
    assert route(fp8, ALL).lane is SGLANG
    assert "fp8" in refused(route(fp8, ALL, "unmask"), "unsupported_quantization")
    mlx = inspect_model(str(hugging_face(architectures=["LlamaForCausalLM"], **MLX)(tmp_path / "mlx")))
    assert "MLX alone" in refused(route(mlx, ALL), "no_lane")


def test_our_own_engine_is_never_given_another_kind(tmp_path):
    decoder = card_of(tmp_path, gguf_file("llama", **DECODER))
    liar = lane("unmask", "unmask", "gguf", autoregressive="llama")
    assert "'llama'" in refused(route(decoder, (liar,)), "no_lane")
    text = refused(route(decoder, USUAL, "unmask"), "paradigm_mismatch")
    assert "llama.cpp serves the autoregressive architecture 'llama'" in text
    assert "garbage" in text


def test_an_engine_that_is_missing_is_named_with_its_remedy(tmp_path):
    decoder = card_of(tmp_path, gguf_file("llama", **DECODER))
    gone = missing(LLAMA_CPP)
    for lanes, wanted in (((OWN, gone), None), ((OWN, gone), "llama.cpp"), ((OWN, gone, SGLANG), None)):
        text = refused(route(decoder, lanes, wanted), "lane_missing")
        assert "llama.cpp is not installed" in text
        assert "install llama.cpp" in text
        assert "sglang" not in text
    assert route(decoder, (OWN, gone, LISTS_ALL)).lane is LISTS_ALL
    novel = inspect_model(str(foreign("gguf-new")(tmp_path / "novel")))
    assert "install llama.cpp" not in refused(route(novel, (OWN, gone)), "no_lane")  # it would not help


def test_a_name_that_no_engine_has(tmp_path):
    decoder = card_of(tmp_path, gguf_file("llama", **DECODER))
    assert "Engines known here: llama.cpp, unmask." in refused(route(decoder, USUAL, "llama"), "unknown_lane")
    assert refused(route(decoder, (), "x" * 5000), "unknown_lane")


def test_what_is_known_of_a_model_decides_and_not_what_was_asked_for(tmp_path):
    """A broken file is that for every engine."""
    file = gguf_file("llama", **DECODER)(tmp_path / "model")
    file.write_bytes(file.read_bytes()[:-1])
    broken = inspect_model(str(file))
    for wanted in (None, "llama.cpp", "unmask", "nobody"):
        assert "truncated" in refused(route(broken, ALL, wanted), "invalid_checkpoint")


def test_files_of_other_engines_are_looked_at_as_closely(tmp_path):
    path = foreign("llama")(tmp_path / "model")
    assert route(inspect_model(str(path)), ALL).lane is SGLANG
    whole = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(whole[:-1])
    assert "safetensors" in refused(route(inspect_model(str(path)), ALL), "invalid_checkpoint")
    (path / "model.safetensors").unlink()
    assert "lacks its weights" in refused(route(inspect_model(str(path)), ALL), "invalid_checkpoint")
    (path / "pytorch_model.bin").write_bytes(b"\x80\x02}q.")
    assert refused(route(inspect_model(str(path)), ALL), "pickle_refused")


@pytest.mark.parametrize("name", ["diffusion-gemma", "diffusiongemma", "llada2"])
def test_unmerged_work_is_named(tmp_path, name):
    """E01, E02, E05: one refusal before any engine is started, with code, architecture, paradigm and remedy."""
    card = whole(card_of(tmp_path, gguf_file(name)))
    text = refused(route(card, (LLAMA_CPP,)), "no_lane")
    for words in (f"'{name}'", "diffusion", "github.com/ggml-org/llama.cpp/pull/", "unmask engine add"):
        assert words in text
    assert "unknown model architecture" in text
    text = refused(route(card, USUAL, "llama.cpp"), "paradigm_mismatch")
    assert "unmask serves" in text


def whole(card):
    """The card, had the file all its keys and tensors."""
    return replace(card, served=True, refusal=None)


@pytest.mark.parametrize("name", ["llada", "llada-moe", "dream", "rnd1"])
def test_models_that_llama_cpp_loads_and_then_fails(tmp_path, name):
    """E07."""
    card = whole(card_of(tmp_path, gguf_file(name)))
    text = refused(route(card, ALL, "llama.cpp"), "paradigm_mismatch")
    for words in ("healthy", "HTTP 500", "does not support logits computation", f"'{name}'", "diffusion"):
        assert words in text


def test_relabelled_models_would_be_answered_with_garbage(tmp_path):
    text = refused(route(card_of(tmp_path, foreign("gguf-diffusion-llama")), USUAL, "llama.cpp"), "paradigm_mismatch")
    assert "answers with garbage and HTTP 200" in text


def test_an_engine_that_knows_less_after_an_update(tmp_path):
    """E03, E04: the same model, another table."""
    card = card_of(tmp_path, gguf_file("mllama"))
    knew = lane("llama.cpp", "llama.cpp", "gguf", autoregressive="llama mllama")
    assert route(card, (OWN, knew)).lane is knew
    text = refused(route(card, USUAL), "no_lane")
    for words in ("'mllama'", "llama.cpp does not know the architecture", "--upgrade", "unmask engine add"):
        assert words in text


def test_directories_with_and_without_a_known_type(tmp_path):
    """E06, E08."""
    text = refused(route(card_of(tmp_path, hugging_face(model_type="novelty")), ALL), "unknown_architecture")
    assert "'novelty'" in text
    assert route(inspect_model(str(tiny_copy(tmp_path / "llada"))), ALL).lane is OWN


@pytest.mark.parametrize("name", ["sd3", "hidream"])
def test_images_are_refused_whatever_is_asked_for(tmp_path, name):
    """E09, E10."""
    card = card_of(tmp_path, gguf_file(name))
    for wanted in (None, "llama.cpp", "unmask"):
        assert name in refused(route(card, ALL, wanted), "not_a_text_model")


def test_an_ambiguous_file_has_one_decision(tmp_path):
    """E11: not one engine after the other."""
    card = card_of(tmp_path, foreign("gguf-suspect"))
    assert {route(card, ALL).lane.name for _ in range(3)} == {"llama.cpp"}
    assert "mask token" in route(card, ALL).warnings[0]
    other = inspect_model(str(gguf_file("lumina2")(tmp_path / "other")))  # of images and of their text encoder
    assert refused(route(other, ALL), "not_a_text_model")


def test_each_container_is_judged_on_its_own(tmp_path):
    """E12: the same model as a directory and as a file."""
    directory = card_of(tmp_path, hugging_face(architectures=["GPT2LMHeadModel"], model_type="gpt2"))
    file = inspect_model(str(gguf_file("gpt2")(tmp_path / "file")))
    assert route(directory, ALL).lane is VLLM
    assert route(file, (OWN, VLLM)).code == "no_lane"
    assert route(file, ALL).lane is LLAMA_CPP
    assert route(directory, USUAL).code == "no_lane"


def test_a_fault_that_can_be_mended_is_what_a_refusal_is_about(tmp_path):
    path = tiny_copy(tmp_path / "model")
    (path / "tokenizer.json").unlink()
    card = inspect_model(str(path))
    assert "no tokenizer" in refused(route(card, USUAL), "invalid_checkpoint")
    assert route(card, ALL).lane is SGLANG  # which may bring one along
    shutil.rmtree(path)
    assert refused(route(inspect_model(str(path)), ALL), "checkpoint_not_found")


def test_the_embedded_model():
    card = inspect_model(EMBEDDED_MODEL)
    assert route(card, USUAL) == Route(OWN)
    assert route(card, (missing(OWN), LLAMA_CPP)).code == "lane_missing"
    assert route(card, (missing(OWN), SGLANG)).lane is SGLANG
    assert "there is none" in route(card, ()).message
    assert FORK.name in refused(route(card, (OWN, FORK), "my-fork"), "no_lane")
