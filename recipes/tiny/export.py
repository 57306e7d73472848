"""Write the folder that ships: ``python -m recipes.tiny.export runs/tiny --to src/unmask/models/tiny``."""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from .evaluate import held_out, load
from .model import Shape
from .tasks import TASKS

CHAT_TEMPLATE = """\
{{- '<|startoftext|>' -}}
{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{{- '<|assistant|>' + message['content'] + '<|eot|>' -}}
{%- elif message['role'] == 'user' -%}
{{- '<|user|>' + message['content'] -}}
{%- elif message['role'] == 'system' -%}
{{- '<|system|>' + message['content'] -}}
{%- else -%}
{{- raise_exception('this model knows the roles system, user and assistant') -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|assistant|>' -}}
{%- endif -%}
"""


def config(shape: Shape) -> dict[str, Any]:
    """``config.json``: a LLaDA model, plus how its attention is cut into blocks."""
    return {
        "architectures": ["LLaDAModelLM"],
        "model_type": "llada",
        "d_model": shape.d_model,
        "n_heads": shape.n_heads,
        "n_kv_heads": shape.n_heads,
        "n_layers": shape.n_layers,
        "mlp_hidden_size": shape.mlp_hidden_size,
        "vocab_size": shape.vocab_size,
        "embedding_size": shape.vocab_size,
        "mask_token_id": 6,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "rope": True,
        "rope_theta": shape.rope_theta,
        "rms_norm_eps": shape.rms_norm_eps,
        "max_sequence_length": shape.max_sequence_length,
        "block_type": "llama",
        "layer_norm_type": "rms",
        "activation_type": "silu",
        "weight_tying": False,
        "include_bias": False,
        "include_qkv_bias": False,
        "attention_dropout": 0.0,
        "residual_dropout": 0.0,
        "torch_dtype": "float32",
        "attention": "block_causal",
        "grid_anchor": "prompt_end",
        "block_size": 16,
    }


TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<|startoftext|>",
    "eos_token": "<|endoftext|>",
    "pad_token": "<|endoftext|>",
    "mask_token": "<|mdm_mask|>",
    "model_max_length": 1024,
    "clean_up_tokenization_spaces": False,
}


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Indented, with a line end."""
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_held_out(path: Path, n: int, seed: int) -> None:
    """Held-out conversations and their answers, one a line."""
    with path.open("w") as file:
        for sample in held_out(n, seed, list(TASKS)):
            line = {"kind": sample.kind, "messages": sample.messages(), "answer": sample.answer}
            file.write(json.dumps(line) + "\n")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the run")
    parser.add_argument("--to", type=Path, required=True, help="the folder to write")
    parser.add_argument("--held-out", type=Path, default=Path(__file__).with_name("heldout.jsonl"))
    parser.add_argument("--n", type=int, default=100, help="held-out prompts per task")
    args = parser.parse_args()
    model, _ = load(args.folder)
    args.to.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().contiguous() for name, tensor in model.named_parameters()}
    save_file(weights, args.to / "model.safetensors", metadata={"format": "pt"})
    (args.to / "model.safetensors").chmod(0o644)
    shutil.copyfile(args.folder / "tokenizer.json", args.to / "tokenizer.json")
    write_json(args.to / "config.json", config(model.shape))
    write_json(args.to / "tokenizer_config.json", TOKENIZER_CONFIG)
    (args.to / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    write_held_out(args.held_out, args.n, seed=1)


if __name__ == "__main__":
    main()
