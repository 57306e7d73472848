"""DiffusionGemma's forward against the reference: prompt and canvas rows, in one step or in several."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from unmask.checkpoints.weights import WeightReader
from unmask.models.base import AttentionGroup, KeyValueCache, StepContext
from unmask.models.config import Config
from unmask.models.diffusion_gemma import DiffusionGemma
from unmask.models.gemma_spec import shape
from unmask.models.spec import ModelSpec

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
SLOTS = 128


def scattered(count: int) -> Tensor:
    """Cache slots in no order."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(count))


def load(checkpoint, dtype=torch.float32) -> DiffusionGemma:
    sizes = shape(Config(json.loads((checkpoint / "config.json").read_text()), "config.json"))
    spec = ModelSpec(
        family="diffusion_gemma",
        shape=sizes,
        names=None,
        attention="causal_prompt",
        denoiser="renoise",
        anchor="prompt_end",
        block_length=sizes.canvas_length,
        max_tokens=sizes.canvas_length,
        shifted=False,
        mask_id=None,
        end_ids=(1,),
        rules=("entropy_bound",),
        caches=("exact",),
    )
    files = (checkpoint / "model.safetensors",)
    with WeightReader(files, dtype=dtype, device=torch.device("cpu")) as weights:
        return DiffusionGemma(spec, weights)


@pytest.fixture(scope="module")
def model(golden):
    return load(golden / "diffusion_gemma" / "ckpt")


@pytest.fixture(scope="module")
def tensors(golden):
    return load_file(golden / "diffusion_gemma" / "logits.safetensors")


@dataclass
class Span:
    """Rows of one request in one step: text to encode, or a canvas; they see all slots up to their last."""

    ids: Tensor
    start: int
    slots: Tensor  # of the whole request, prompt and canvas
    canvas: bool = False
    conditioned: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.ids)

    def mask(self, window: int | None = None) -> Tensor:
        """[1, 1, Q, K]; with a ``window``, as sliding layers see it."""
        rows, keys = torch.arange(self.start, self.end)[:, None], torch.arange(self.end)[None]
        bound = torch.full_like(rows, self.end - 1) if self.canvas else rows
        oldest = torch.zeros_like(rows)
        if window is not None:
            oldest = torch.full_like(rows, self.start - window + 1) if self.canvas else rows - window + 1
        return ((keys <= bound) & (keys >= oldest))[None, None]


def step_of(model: DiffusionGemma, spans: list[Span]) -> StepContext:
    """A step of ``spans``, one attention group each."""
    groups, first = [], 0
    for span in spans:
        rows = slice(first, first + len(span.ids))
        keys = span.slots[: span.end]
        adjacent = torch.equal(keys, torch.arange(keys[0], keys[0] + len(keys)))
        where = slice(int(keys[0]), int(keys[0]) + len(keys)) if adjacent else keys[None]
        groups.append(AttentionGroup(rows, where, span.mask(), span.mask(model.shape.sliding_window)))
        first = rows.stop
    return StepContext(
        token_ids=torch.cat([span.ids for span in spans]),
        positions=torch.cat([torch.arange(span.start, span.end) for span in spans]),
        write_slots=torch.cat([span.slots[span.start : span.end] for span in spans]),
        groups=groups,
        canvas=flags(spans, "canvas"),
        conditioned=flags(spans, "conditioned"),
    )


def flags(spans: list[Span], name: str) -> Tensor:
    return torch.cat([torch.full((len(span.ids),), getattr(span, name)) for span in spans])


@torch.inference_mode()
def forward(model: DiffusionGemma, cache: KeyValueCache, *spans: Span) -> list[Tensor]:
    """Hidden rows of each span."""
    hidden = model.forward(step_of(model, list(spans)), cache)
    return list(hidden.split([len(span.ids) for span in spans]))


def request(tensors, i, slots, conditioned=False) -> tuple[Span, Span]:
    """Prompt ``i`` and its canvas."""
    prompt, canvas = tensors[f"prompt_{i}"], tensors[f"canvas_{i}"]
    return Span(prompt, 0, slots), Span(canvas, len(prompt), slots, canvas=True, conditioned=conditioned)


@pytest.fixture(params=["adjacent", "scattered"])
def slots(request):
    return torch.arange(7, SLOTS) if request.param == "adjacent" else scattered(SLOTS)


@pytest.mark.parametrize("i", range(3))
def test_prompt_and_canvas_in_one_forward(model, tensors, slots, i):
    prompt, canvas = request(tensors, i, slots)
    hidden, denoised = forward(model, model.new_cache(SLOTS), prompt, canvas)
    torch.testing.assert_close(hidden, tensors[f"encoder_hidden_{i}"], **CLOSE)
    logits = model.head(denoised)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, tensors[f"logits_nosc_{i}"], **CLOSE)


@pytest.mark.parametrize("i", range(3))
def test_prompt_first_then_canvas(model, tensors, slots, i):
    """The second step is told what the first one predicted; what lay in the cache before is not looked at."""
    prompt, canvas = request(tensors, i, slots)
    cache = model.new_cache(SLOTS)
    cache.predicted.fill_(torch.nan)
    (hidden,) = forward(model, cache, prompt)
    torch.testing.assert_close(hidden, tensors[f"encoder_hidden_{i}"], **CLOSE)
    (first,) = forward(model, cache, canvas)
    torch.testing.assert_close(model.head(first), tensors[f"logits_nosc_{i}"], **CLOSE)
    model.remember(cache, canvas.slots[canvas.start : canvas.end], tensors[f"logits_nosc_{i}"] / 0.7)
    canvas.conditioned = True
    (second,) = forward(model, cache, canvas)
    torch.testing.assert_close(model.head(second), tensors[f"logits_sc_{i}"], **CLOSE)


@pytest.mark.parametrize("i", range(3))
def test_self_conditioning_in_one_forward(model, tensors, slots, i):
    prompt, canvas = request(tensors, i, slots, conditioned=True)
    cache = model.new_cache(SLOTS)
    model.remember(cache, slots[canvas.start : canvas.end], tensors[f"logits_nosc_{i}"] / 0.7)
    hidden, denoised = forward(model, cache, prompt, canvas)
    torch.testing.assert_close(hidden, tensors[f"encoder_hidden_{i}"], **CLOSE)
    torch.testing.assert_close(model.head(denoised), tensors[f"logits_sc_{i}"], **CLOSE)


def test_every_layer(model, tensors, monkeypatch):
    outputs, run = [], model._layer
    monkeypatch.setattr(model, "_layer", lambda *arguments: outputs.append(run(*arguments)) or outputs[-1])
    prompt, canvas = request(tensors, 1, torch.arange(SLOTS))
    forward(model, model.new_cache(SLOTS), prompt, canvas)
    for number, output in enumerate(outputs):
        torch.testing.assert_close(output[: len(prompt.ids)], tensors[f"hidden_1_enc{number}"], **CLOSE)
        torch.testing.assert_close(output[len(prompt.ids) :], tensors[f"hidden_1_dec{number}"], **CLOSE)


@pytest.mark.parametrize("conditioned", [(), (1,), (0, 2), (0, 1, 2)], ids=str)
def test_three_requests_in_one_step(model, tensors, conditioned):
    lines = scattered(3 * SLOTS).view(3, SLOTS)
    cache = model.new_cache(3 * SLOTS)
    spans = [span for i in range(3) for span in request(tensors, i, lines[i], conditioned=i in conditioned)]
    for i in conditioned:
        canvas = spans[2 * i + 1]
        model.remember(cache, lines[i][canvas.start : canvas.end], tensors[f"logits_nosc_{i}"] / 0.7)
    hidden = forward(model, cache, *spans)
    for i in range(3):
        torch.testing.assert_close(hidden[2 * i], tensors[f"encoder_hidden_{i}"], **CLOSE)
        name = f"logits_sc_{i}" if i in conditioned else f"logits_nosc_{i}"
        torch.testing.assert_close(model.head(hidden[2 * i + 1]), tensors[name], **CLOSE)


@torch.inference_mode()
def test_canvases_in_one_group(model, tensors):
    """Three canvases of one size over prompts of three lengths, attended together: shorter key lines are padded."""
    lines = scattered(3 * SLOTS).view(3, SLOTS)
    cache = model.new_cache(3 * SLOTS)
    pairs = [request(tensors, i, lines[i]) for i in range(3)]
    forward(model, cache, *[prompt for prompt, _ in pairs])
    canvases = [canvas for _, canvas in pairs]
    step = step_of(model, canvases)
    longest = max(canvas.end for canvas in canvases)
    keys = [torch.where(torch.arange(longest) < span.end, span.slots[:longest], span.slots[0]) for span in canvases]
    masks = [
        torch.cat([F.pad(span.mask(window), (0, longest - span.end)) for span in canvases])
        for window in (None, model.shape.sliding_window)
    ]
    step.groups = [AttentionGroup(slice(0, 48), torch.stack(keys), *masks)]
    logits = model.head(model.forward(step, cache))
    torch.testing.assert_close(logits, torch.cat([tensors[f"logits_nosc_{i}"] for i in range(3)]), **CLOSE)


def test_a_finished_canvas_is_encoded_over_what_it_left(model, tensors):
    """Its slots hold what the canvas pass wrote; after the encoder pass they are as if it had never been."""
    slots = torch.arange(SLOTS)
    prompt, canvas = request(tensors, 2, slots)
    cache, fresh = model.new_cache(SLOTS), model.new_cache(SLOTS)
    forward(model, cache, prompt, canvas)
    (continued,) = forward(model, cache, Span(canvas.ids, canvas.start, slots))
    (whole,) = forward(model, fresh, Span(torch.cat((prompt.ids, canvas.ids)), 0, slots))
    torch.testing.assert_close(continued, whole[canvas.start :], **CLOSE)
    for ours, expected in zip(cache.layers, fresh.layers, strict=True):
        torch.testing.assert_close(ours, expected, **CLOSE)


def test_sizes(model, golden):
    stored = load_file(golden / "diffusion_gemma" / "ckpt" / "model.safetensors")
    text = [tensor.numel() for name, tensor in stored.items() if "vision" not in name]
    assert model.parameters == sum(text)
    cache = model.new_cache(5)
    kept = sum(layer[0].numel() for layer in cache.layers) + cache.predicted[0].numel()
    assert model.spec.shape.cache_width == kept
    assert [tuple(layer.shape) for layer in cache.layers] == [(5, 4, 16), (5, 4, 16), (5, 2, 32)]


def test_linears_are_named_as_in_the_checkpoint(model, golden):
    stored = load_file(golden / "diffusion_gemma" / "ckpt" / "model.safetensors")
    parts = [part for linear in model.linears() for part in linear.parts]
    assert len(parts) == len(set(parts)) == 2 * 7 + 6 + 3
    for name, size in parts:
        assert stored[f"{name}.weight"].shape[0] == size


def test_bfloat16_follows_float32(golden, model, tensors):
    half = load(golden / "diffusion_gemma" / "ckpt", torch.bfloat16)
    cache = half.new_cache(SLOTS)
    prompt, canvas = request(tensors, 2, torch.arange(SLOTS))
    hidden, denoised = forward(half, cache, prompt, canvas)
    assert hidden.dtype == half.dtype == cache.predicted.dtype == torch.bfloat16
    logits, expected = half.head(denoised), tensors["logits_nosc_2"]
    assert logits.dtype == torch.float32
    half.remember(cache, torch.arange(16), logits)
    correlation = torch.corrcoef(torch.stack((logits.flatten(), expected.flatten())))[0, 1]
    assert correlation > 0.98
