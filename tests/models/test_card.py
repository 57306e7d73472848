"""Cards of models: true to the files, from their headers alone, within 100 ms and 32 MiB whatever the files hold."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.foreign_models import FOREIGN, gguf_file, tiny_copy
from tests.golden.checkpoints import served_copy
from tests.timing import within
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint
from unmask.errors import UnmaskError
from unmask.models.card import inspect_model
from unmask.models.load import load_model
from unmask.models.registry import describe

MIB = 2**20
PARADIGMS = {
    "autoregressive_model": {"autoregressive"},
    "adapter_not_model": {"adapter"},
    "sidecar_not_model": {"sidecar"},
    "not_a_text_model": {"image", "encoder"},
    "unsupported_quantization": {"diffusion"},
}
GOLDEN = ("llada", "llada_moe", "llada2", "dream", "sdar", "fast_dllm_v2", "diffusion_gemma")


def refusal(model):
    card = inspect_model(str(model))
    assert not card.served
    assert card.how is None
    assert card.refusal.remedy
    return card.refusal


def test_the_embedded_model():
    card = inspect_model(EMBEDDED_MODEL)
    assert card.served
    assert card.how.startswith("native: float32 on CPUs")
    assert (card.intact, card.suspect) == (True, None)
    assert card.evidence == ("architecture 'LLaDAModelLM'", "model_type 'llada'", "key 'mask_token_id'")
    assert card.refusal is None
    assert (card.format, card.architecture, card.family) == ("safetensors", "LLaDAModelLM", "llada")
    assert (card.paradigm, card.attention, card.tokenizer, card.chat_template) == (
        "diffusion", "block_causal", True, True,
    )  # fmt: skip
    model = load_model(EMBEDDED_MODEL, device="cpu")
    assert card.parameters == model.parameters
    assert card.stored_as == {"F32": model.parameters}
    assert card.weight_bytes == 4 * model.parameters
    cache = model.new_cache(card.context_length)
    cache_bytes = sum(layer.numel() * layer.element_size() for layer in cache.layers)
    assert card.memory_bytes == {
        "float32": 4 * model.parameters + cache_bytes,
        "bfloat16": 2 * model.parameters + cache_bytes // 2,
    }


@pytest.mark.parametrize("family", GOLDEN)
def test_a_card_says_what_the_spec_says(golden, tmp_path, family):
    path = served_copy(golden / family / "ckpt", tmp_path, tokenizer=True)
    card = inspect_model(str(path))
    spec = describe(open_checkpoint(str(path)))
    assert card.served
    assert card.paradigm == "diffusion"
    for name in ("family", "attention", "block_length", "mask_id", "end_ids", "rules", "caches"):
        assert getattr(card, name) == getattr(spec, name)
    assert card.context_length == spec.shape.context_length
    tensors = load_file(path / "model.safetensors")
    assert card.parameters == sum(tensor.size for tensor in tensors.values())
    assert card.weight_bytes == sum(tensor.nbytes for tensor in tensors.values())


@pytest.mark.parametrize("family", ["llada_moe", "llada2", "fast_dllm_v2"])
def test_a_checkpoint_that_nowhere_names_its_mask(golden, family):
    problem = refusal(golden / family / "ckpt")
    assert problem.code == "invalid_checkpoint"
    assert "mask_token_id" in problem.remedy


def test_a_model_without_a_tokenizer_has_a_full_card_and_is_not_served(golden):
    problem = refusal(golden / "llada" / "ckpt")
    assert (problem.code, "no tokenizer" in problem.message) == ("invalid_checkpoint", True)
    card = inspect_model(str(golden / "llada" / "ckpt"))
    assert card.memory_bytes["float32"] > card.weight_bytes > 0


@pytest.mark.parametrize("name", ["dream-f32", "dream-q8_0", "dream-q4_0"])
def test_gguf_models(golden, name):
    card = inspect_model(str(golden / "gguf" / f"{name}.gguf"))
    assert (card.served, card.format, card.name, card.architecture) == (True, "gguf", name, "dream")
    assert (card.family, card.mask_id, card.tokenizer, card.chat_template) == ("dream", 255, True, False)
    assert set(card.stored_as) <= {"F32", "Q8_0", "Q4_0"}
    assert card.memory_bytes["float32"] > card.weight_bytes


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_models_have_the_error_of_serving_them(tmp_path, kind):
    code, _, build = FOREIGN[kind]
    model = str(build(tmp_path / "model"))
    card = inspect_model(model)
    assert not card.served
    assert card.refusal.code == code
    with pytest.raises(UnmaskError) as caught:
        load_model(model, device="cpu")
    assert (card.refusal.message, card.refusal.remedy) == (caught.value.message, caught.value.hint)
    assert card.paradigm in PARADIGMS.get(code, {card.paradigm})


def test_what_is_known_of_a_refused_model_is_on_its_card(tmp_path):
    card = inspect_model(str(gguf_file("llama", name="my-llama.gguf")(tmp_path / "model")))
    assert (card.name, card.format, card.architecture) == ("my-llama", "gguf", "llama")
    assert (card.paradigm, card.parameters, card.weight_bytes) == ("autoregressive", 128, 512)


def test_a_tensor_of_unknown_type_leaves_the_size_unknown(tmp_path):
    name = b"token_embd.weight"
    pair = struct.pack("<Q", 20) + b"general.architecture" + struct.pack("<IQ", 8, 5) + b"llama"
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + pair
    head += struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 32, 222, 0)
    (tmp_path / "new.gguf").write_bytes(head + bytes(-len(head) % 32 + 128))
    card = inspect_model(str(tmp_path / "new.gguf"))
    assert (card.stored_as, card.weight_bytes) == ({"type 222": 32}, None)


def change(path, **tensors):
    """Replace tensors of the copied model; ``None`` takes one away. ``__`` in a name stands for a dot."""
    held = load_file(path / "model.safetensors")
    for name, tensor in tensors.items():
        held[name.replace("__", ".")] = tensor
    save_file({name: tensor for name, tensor in held.items() if tensor is not None}, path / "model.safetensors")


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"model__transformer__wte__weight": None}, "lack 'model.transformer.wte.weight'"),
        ({"model__transformer__wte__weight": np.zeros((8, 128), np.float32)}, "[8, 128] instead of [1024, 128]"),
        ({"model__transformer__blocks__5__attn_norm__weight": None}, "blocks.5"),
        ({"model__transformer__blocks__6__attn_norm__weight": np.zeros(128, np.float32)}, "more than 6 layers"),
    ],
)
def test_weights_that_contradict_the_config(tmp_path, tensors, words):
    path = tiny_copy(tmp_path / "model")
    change(path, **tensors)
    problem = refusal(path)
    assert (problem.code, words in problem.message) == ("invalid_checkpoint", True)
    with pytest.raises(UnmaskError) as caught:
        load_model(str(path), device="cpu")
    assert caught.value.code == problem.code


def test_missing_and_broken_shards(tmp_path):
    path = tiny_copy(tmp_path / "model")
    whole = (path / "model.safetensors").read_bytes()
    for size in (0, 1, 8, 100, len(whole) // 2, len(whole) - 1):
        (path / "model.safetensors").write_bytes(whole[:size])
        assert refusal(path).code == "invalid_checkpoint"
    (path / "model.safetensors").unlink()
    assert "lacks its weights" in refusal(path).message
    (path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-00002-of-00002.safetensors"}}')
    assert "model-00002-of-00002.safetensors" in refusal(path).message


def test_names_that_are_not_text(tmp_path):
    """File names and JSON may hold what no output can."""
    path = tiny_copy(tmp_path / os.fsdecode(b"\xff-model"), architectures=["\ud800ForCausalLM"])
    card = inspect_model(str(path))
    for text in (card.name, card.path, card.refusal.message, card.refusal.remedy):
        assert text.encode()
    assert card.architecture is None
    file = gguf_file("llama", name="a.gguf")(tmp_path / "model")
    card = inspect_model(str(file.rename(file.with_name(os.fsdecode(b"\xff.gguf")))))
    assert card.refusal.code == "autoregressive_model"
    assert card.path.encode()


def test_no_torch_and_nothing_else_that_is_slow():
    code = (
        "import sys; from unmask.models.card import inspect_model; assert inspect_model('unmask-tiny').served;"
        "print({'torch', 'numpy', 'huggingface_hub', 'tokenizers', 'transformers'} & set(sys.modules) or '')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def replaced(name, content):
    """The embedded model with another content of one file, which is made when it is needed."""

    def build(path):
        tiny_copy(path)
        (path / name).write_bytes(content())
        return path

    return build


def header(raw, data=0):
    return struct.pack("<Q", len(raw)) + raw + bytes(data)


def gguf_of_strings(count, architecture=b"llama"):
    """A vocabulary of so many empty tokens."""

    def build(path):
        pairs = (
            struct.pack("<Q", 20) + b"general.architecture" + struct.pack("<IQ", 8, len(architecture)) + architecture
        )
        key = b"tokenizer.ggml.tokens"
        pairs += struct.pack("<Q", len(key)) + key + struct.pack("<IIQ", 9, 8, count) + bytes(8 * count)
        tensor = struct.pack("<Q", 1) + b"w" + struct.pack("<IQIQ", 1, 32, 0, 0)
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + pairs + tensor
        path.with_suffix(".gguf").write_bytes(head + bytes(-len(head) % 32 + 128))
        return path.with_suffix(".gguf")

    return build


def large_experts(path):
    """As many tensors as LLaDA2.0-flash has."""
    tiny_copy(path)
    size, tensors = 64, {}
    for number in range(31 * 256 * 3):
        place = [number * size, (number + 1) * size]
        name = f"model.layers.{number // 768}.mlp.experts.{number % 768}.gate_proj.weight"
        tensors[name] = {"dtype": "BF16", "shape": [4, 8], "data_offsets": place}
    raw = json.dumps(tensors).encode()
    (path / "model.safetensors").write_bytes(header(raw, len(tensors) * size))
    return path


def real_tokenizer(path):
    """A tokenizer.json as large as Gemma's."""
    tiny_copy(path)
    tokens = {f"token number {n} of the vocabulary": n for n in range(262144)}
    merges = [f"part-{n} other-part-{n}" for n in range(514906)]
    added = [{"id": n, "content": f"<unused{n}>", "special": True, "lstrip": False} for n in range(6400)]
    (path / "tokenizer.json").write_text(
        json.dumps({"added_tokens": added, "model": {"vocab": tokens, "merges": merges}})
    )
    return path


def of_a_decoder(build):
    """The same, whose config names another engine's architecture."""

    def rebuilt(path):
        build(path)
        (path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
        return path

    return rebuilt


DENSE = b",".join([b"[]"] * 340_000)
HOSTILE = {
    "config of 5 MB": replaced("config.json", lambda: json.dumps({"architectures": ["A" * 5_000_000]}).encode()),
    "config of one name": replaced("config.json", lambda: json.dumps({"architectures": ["A" * 900_000]}).encode()),
    "config of lists": replaced("config.json", lambda: b'{"x":[' + DENSE + b"]}"),
    "config of objects": replaced("config.json", lambda: b'{"x":[' + b",".join([b'{"a":1}'] * 30_000) + b"]}"),
    "config of pairs": replaced("config.json", lambda: json.dumps({f"{n:x}": f"é{n}" for n in range(60_000)}).encode()),
    "deep config": replaced("config.json", lambda: b'{"x":' + b"[" * 60_000),
    "index of shards": replaced(
        "model.safetensors.index.json",
        lambda: json.dumps({"weight_map": {f"{n:x}": f"{n}" for n in range(400_000)}}).encode(),
    ),
    "index of a shard": replaced(
        "model.safetensors.index.json",
        lambda: json.dumps({"weight_map": {f"{n:x}": "a" for n in range(65_000)}}).encode(),
    ),
    "many added tokens": replaced(
        "tokenizer.json", lambda: b'{"added_tokens":[' + b'{"id":1,"content":"a"},' * 1_000_000 + b"0]}"
    ),
    "many added numbers": replaced("tokenizer.json", lambda: b'{"added_tokens":[' + b"1," * 10_000_000 + b"1]}"),
    "long added token": replaced(
        "tokenizer.json", lambda: b'{"added_tokens":[{"content":"' + b"x" * 40_000_000 + b'"}]}'
    ),
    "long template": replaced("tokenizer_config.json", lambda: b'{"chat_template":"' + b"x" * 4_000_000 + b'"}'),
    "template of lists": replaced("tokenizer_config.json", lambda: b'{"chat_template":[' + DENSE + b"]}"),
    "header of tensors": replaced(
        "model.safetensors",
        lambda: header(b"{" + b",".join(b'"%x":{"dtype":"U8","shape":[0]}' % n for n in range(100_000)) + b"}"),
    ),
    "header of dimensions": replaced(
        "model.safetensors", lambda: header(b'{"a":{"dtype":"U8","shape":[' + b"0," * 3_000_000 + b"0]}}")
    ),
    "header of remarks": replaced(
        "model.safetensors",
        lambda: header(b'{"__metadata__":{' + b",".join(b'"%x":"a"' % n for n in range(250_000)) + b"}}"),
    ),
    "header of spaces": replaced("model.safetensors", lambda: header(b"{" + b" " * 8_000_000 + b"}")),
    "large header": replaced("model.safetensors", lambda: header(b"{" + b" " * 50_000_000 + b"}")),
    "large tokenizer": real_tokenizer,
    "many experts": large_experts,
    "vocabulary of 500,000": gguf_of_strings(500_000),
    "vocabulary of 3,000,000": gguf_of_strings(3_000_000),
    "endless layers": lambda path: tiny_copy(path, n_layers=10**9),
    "endless context": lambda path: tiny_copy(path, max_sequence_length=2 * 10**9),
}

HOSTILE |= {
    f"{kind} of a decoder": of_a_decoder(HOSTILE[kind])
    for kind in (
        "index of shards",
        "long template",
        "template of lists",
        "header of tensors",
        "large header",
        "many experts",
    )
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_any_file_is_inspected_in_no_time_and_little_memory(tmp_path, kind):
    model = str(HOSTILE[kind](tmp_path / "model"))
    assert within(0.1, lambda: inspect_model(model))
    tracemalloc.start()
    card = inspect_model(model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 * MIB
    if card.refusal is not None:
        assert card.refusal.code in ("invalid_checkpoint", "unknown_architecture", "autoregressive_model")
        assert len(card.refusal.message) < 1000


def test_cards_are_values():
    card = inspect_model(EMBEDDED_MODEL)
    assert card == inspect_model(EMBEDDED_MODEL)
    assert replace(card, served=False) != card
