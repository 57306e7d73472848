"""Whether a constraint goes with the rest of a request, and can be met within it."""

from __future__ import annotations

from unmask.constraints.automaton import NEVER, Automaton
from unmask.errors import InvalidValueError, UnsupportedValueError
from unmask.params import CONSTRAINTS, Constraint, GenerationParams, ModelInfo


def check_constraint(
    params: GenerationParams, constraint: Constraint | None, model: ModelInfo, max_tokens: int, min_tokens: int
) -> None:
    """Raises an error naming the option that ``constraint``, made of ``params``, cannot be met beside."""
    if constraint is None:
        given = [name for name in CONSTRAINTS if getattr(params, name) is not None]
        assert not given, f"'{given}' must be compiled first"
        return
    if not model.end_ids:
        raise UnsupportedValueError(
            f"{model.name} has no end token, so no constrained answer of it could end.",
            hint="Leave the constraint out.",
            param=constraint.kind,
        )
    clashes = {
        "ignore_eos": params.ignore_eos,
        "end_tokens": params.end_tokens == "never",
        "stop": bool(params.stop),
    }
    for name, clash in clashes.items():
        if clash:
            raise InvalidValueError(
                f"'{name}' goes against '{constraint.kind}', which says where the answer ends.",
                hint="Leave one of them out.",
                param=name,
                beside=constraint.kind,
            )
    shortest = Automaton.from_bytes(constraint.automaton).shortest(min_tokens)
    if shortest == NEVER:
        raise InvalidValueError(
            f"No answer of at least {min_tokens} tokens fits '{constraint.kind}'.",
            hint="Lower 'min_tokens'.",
            param="min_tokens",
            beside=constraint.kind,
        )
    if shortest > max_tokens:
        raise InvalidValueError(
            f"'{constraint.kind}' cannot be met in {max_tokens} tokens: the shortest answer has {shortest}.",
            hint=f"Ask for 'max_tokens' of at least {shortest}.",
            param=constraint.kind,
            beside="max_tokens",
        )
