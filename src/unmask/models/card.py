"""What a model is and whether our own engine serves it, from the headers of its files. No tensors here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from unmask.checkpoints.directory import Checkpoint, find_checkpoint, refuse_kind, require_weights
from unmask.checkpoints.paradigm import Paradigm, Verdict
from unmask.checkpoints.safetensors_header import HeadersTooLargeError
from unmask.checkpoints.tokenizer_files import COPY_TOKENIZER, TokenizerFiles
from unmask.errors import AutoregressiveModelError, InvalidCheckpointError, UnmaskError, UnsupportedQuantizationError
from unmask.models.footprint import (
    Stored,
    context_length,
    kv_bytes_per_token,
    most_used,
    quantization,
    stored,
    sums,
)
from unmask.models.registry import describe
from unmask.models.spec import ModelSpec, TransformerShape
from unmask.params import Attention
from unmask.refusal import Refusal

_DTYPE_BYTES = {"float32": 4, "bfloat16": 2}
_HOW = (
    "native: float32 on CPUs, because not all of them compute in bfloat16; on GPUs bfloat16 for checkpoints of 16 bits "
    "or fewer, else float32"
)
# What the error of a path that is no checkpoint says of it; a checkpoint knows its paradigm itself.
_PARADIGMS: dict[str, Paradigm] = {"adapter_not_model": "adapter", "not_a_text_model": "image"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """All that can be told of a model without reading its tensors; ``None`` is what could not be found out.

    ``how`` it is ``served`` by our own engine, or the ``refusal``: what that engine has against it. ``intact``: it is a
    model of text whose files are all there and fit together, so that an engine of another kind may serve it.
    ``evidence`` are the signs by which the paradigm was told, and ``suspect`` warns that they may mislead.

    ``stored_as`` counts parameters by the name of their type in the file, ``weight_bytes`` the bytes of all tensors (or
    files, of a directory with very many tensors). ``quantization`` is "awq", "fp8", "mlx" or whatever packed the
    directory, or the type of most weights of a GGUF file, "Q4_K" for one.

    ``memory_bytes``: by dtype, what serving one request of a whole context takes, namely (parameters + context_length *
    numbers that a position keeps in the key/value cache) * bytes of a number; activations and logits come on top. Of an
    autoregressive GGUF model, weight_bytes + context_length * ``kv_bytes_per_token``. ``rules`` and ``caches`` are
    those a request may choose, the default first.
    """

    model: str
    served: bool
    how: str | None = None
    refusal: Refusal | None = None
    intact: bool = False
    name: str | None = None
    path: str | None = None
    format: str | None = None
    architecture: str | None = None
    family: str | None = None
    paradigm: Paradigm = "unknown"
    evidence: tuple[str, ...] = ()
    suspect: str | None = None
    parameters: int | None = None
    stored_as: dict[str, int] = field(default_factory=dict)
    quantization: str | None = None
    weight_bytes: int | None = None
    kv_bytes_per_token: int | None = None
    memory_bytes: dict[str, int] = field(default_factory=dict)
    context_length: int | None = None
    block_length: int | None = None
    attention: Attention | None = None
    mask_id: int | None = None
    end_ids: tuple[int, ...] = ()
    rules: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    tokenizer: bool = False
    chat_template: bool = False


def inspect_model(model: str) -> ModelCard:
    """The card of ``model``, which may be anything that ``open_checkpoint`` is given; nothing is downloaded.

    Raises nothing of the catalogue: an error is the card's ``refusal``, and what was found before it is on the card.
    """
    facts: dict[str, Any] = {"model": model}
    try:
        for found in _facts(model):
            facts |= found
    except UnmaskError as error:
        facts.setdefault("paradigm", _PARADIGMS.get(error.code, "unknown"))
        refusal = Refusal(error.code, _printable(error.message), _printable(error.hint))
        return ModelCard(served=False, refusal=refusal, **facts)
    return ModelCard(served=True, how=_HOW, **facts)


def _facts(model: str) -> Iterator[dict[str, Any]]:
    """One group of the card's fields after the other. Raises as soon as something bars the model from being served."""
    checkpoint = find_checkpoint(model, download=False)
    verdict = checkpoint.verdict
    yield _identity(checkpoint, verdict)
    if checkpoint.header is not None:
        yield sums(checkpoint.header.tensors)
    objection = _objection(checkpoint)
    require_weights(checkpoint)
    if objection is not None:
        yield _size(checkpoint, verdict, _tensors_unless_many(checkpoint)) | {"intact": True}
        raise objection
    tensors = stored(checkpoint)
    size = _size(checkpoint, verdict, tensors)
    yield size | {"intact": True}
    yield from _own_facts(checkpoint, tensors, size["parameters"])


def _own_facts(checkpoint: Checkpoint, tensors: Stored, parameters: int) -> Iterator[dict[str, Any]]:
    """What our own engine needs to know, as in ``_facts``."""
    text = _text(checkpoint)
    yield text
    spec = describe(checkpoint)
    yield _decoding(spec)
    numbers = parameters + spec.shape.context_length * spec.shape.cache_width
    yield {"memory_bytes": {dtype: size * numbers for dtype, size in _DTYPE_BYTES.items()}}
    if checkpoint.header is None:
        _check_outline(spec, tensors)
    if not text["tokenizer"]:
        raise InvalidCheckpointError(f"'{checkpoint.path}' has no tokenizer.", hint=COPY_TOKENIZER)
    if checkpoint.header is None and not (files := TokenizerFiles(checkpoint.path)).has_tokenizer_json:
        files.word_rule()


def _identity(checkpoint: Checkpoint, verdict: Verdict) -> dict[str, Any]:
    return {
        "name": _printable(checkpoint.name),
        "path": _printable(str(checkpoint.path)),
        "format": checkpoint.format,
        "architecture": checkpoint.architecture,
        "paradigm": verdict.paradigm,
        "evidence": verdict.evidence,
        "suspect": verdict.suspect,
    }


def _objection(checkpoint: Checkpoint) -> UnmaskError | None:
    """What our own engine has against a model of text that others may serve; raises what anybody would have."""
    try:
        refuse_kind(checkpoint)
    except (AutoregressiveModelError, UnsupportedQuantizationError) as error:
        return error
    return None


def _tensors_unless_many(checkpoint: Checkpoint) -> Stored | None:
    """The tensors; ``None`` for more of them than our own engine would read."""
    try:
        return stored(checkpoint)
    except HeadersTooLargeError:
        return None


def _size(checkpoint: Checkpoint, verdict: Verdict, tensors: Stored | None) -> dict[str, Any]:
    """What any engine would have to hold."""
    if tensors is None:
        size: dict[str, Any] = {"weight_bytes": sum(file.stat().st_size for file in checkpoint.weights)}
    else:
        size = sums(tensors)
    stored_as, weights = size.get("stored_as", {}), size["weight_bytes"]
    length = context_length(checkpoint)
    size |= {"quantization": quantization(checkpoint, stored_as), "context_length": length}
    if checkpoint.header is not None and verdict.paradigm == "autoregressive":
        per_token = kv_bytes_per_token(checkpoint.header)
        size["kv_bytes_per_token"] = per_token
        if weights is not None and length is not None and per_token is not None:
            size["memory_bytes"] = {most_used(stored_as): weights + length * per_token}
    return size


def _printable(text: str) -> str:
    """``text``, which may have parts of a file's name that is not UTF-8, for any output."""
    return text.encode(errors="backslashreplace").decode()


def _text(checkpoint: Checkpoint) -> dict[str, Any]:
    if checkpoint.header is not None:
        metadata = checkpoint.header.metadata
        return {
            "tokenizer": "tokenizer.ggml.tokens" in metadata,
            "chat_template": "tokenizer.chat_template" in metadata,
        }
    files = TokenizerFiles(checkpoint.path)
    return {"tokenizer": files.has_tokenizer, "chat_template": files.has_chat_template}


def _decoding(spec: ModelSpec) -> dict[str, Any]:
    names = ("family", "block_length", "attention", "mask_id", "end_ids", "rules", "caches")
    return {name: getattr(spec, name) for name in names} | {"context_length": spec.shape.context_length}


def _check_outline(spec: ModelSpec, tensors: Stored) -> None:
    """Raise ``InvalidCheckpointError`` if vocabulary, hidden size or number of layers are not those of the config.

    Every tensor is looked at when the model is loaded.
    """
    shape, names = spec.shape, spec.names
    if names is None or not isinstance(shape, TransformerShape):
        return
    embedding, norm = f"{names.embedding}.weight", f"{names.attention_norm}.weight"
    asked = {embedding: (shape.vocab, shape.hidden), norm.format(n=shape.layers - 1): (shape.hidden,)}
    faults = [f"they lack '{name}'" for name in asked if name not in tensors]
    faults += [
        f"'{name}' has shape {list(tensors[name].shape)} instead of {list(sizes)}"
        for name, sizes in asked.items()
        if name in tensors and tensors[name].shape != sizes
    ]
    if norm.format(n=shape.layers) in tensors:
        faults.append(f"they have more than {shape.layers} layers")
    if faults:
        raise InvalidCheckpointError(
            f"The weights are not those that config.json describes: {faults[0]}.", hint="Do the files belong together?"
        )
