"""What files are that are no models to serve, and engines that do not serve them."""

from __future__ import annotations

from unmask.errors.base import UnmaskError


class CheckpointNotFoundError(UnmaskError):
    """The model path does not exist, or holds no checkpoint."""

    code = "checkpoint_not_found"
    status = 404


class InvalidCheckpointError(UnmaskError):
    """The checkpoint is there, but a file in it is missing, malformed or contradicts another."""

    code = "invalid_checkpoint"
    status = 400


class UnknownArchitectureError(UnmaskError):
    """The checkpoint's architecture is none that this engine serves."""

    code = "unknown_architecture"
    status = 400


class NotATextModelError(UnmaskError):
    """The model makes no text: it makes images, video or sound, or vectors of text."""

    code = "not_a_text_model"
    status = 400


class AutoregressiveModelError(UnmaskError):
    """The model writes one token after another; as a diffusion model it would answer with garbage."""

    code = "autoregressive_model"
    status = 400


class AdapterNotModelError(UnmaskError):
    """An adapter was given for a model: it changes a base model and is none itself."""

    code = "adapter_not_model"
    status = 400


class SidecarNotModelError(UnmaskError):
    """The file accompanies a model and is none: a projector of images, an importance matrix, a vocabulary."""

    code = "sidecar_not_model"
    status = 400


class PickleRefusedError(UnmaskError):
    """The weights are pickled; to read them is to run the code in them, which Unmask never does."""

    code = "pickle_refused"
    status = 400


class UnsupportedQuantizationError(UnmaskError):
    """The weights are packed (AWQ, GPTQ, FP8, MLX, ...) in a way that Unmask cannot compute with."""

    code = "unsupported_quantization"
    status = 400


class ParadigmMismatchError(UnmaskError):
    """The engine asked for serves models of the other paradigm; it would fail, or answer with garbage."""

    code = "paradigm_mismatch"
    status = 400


class NoLaneError(UnmaskError):
    """No engine known here serves the model, or not the one that was asked for."""

    code = "no_lane"
    status = 400


class LaneMissingError(UnmaskError):
    """An engine would serve the model, and cannot be used here: it is not installed, or does not run."""

    code = "lane_missing"
    status = 501


class UnknownLaneError(UnmaskError):
    """No engine known here has the name that was asked for."""

    code = "unknown_lane"
    status = 400
