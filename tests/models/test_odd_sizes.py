"""Values that only odd files hold: each is refused by name, before anything is computed with it."""

from __future__ import annotations

import pytest
import torch

from unmask.checkpoints.gguf_weights import _unpermuted
from unmask.errors import InvalidCheckpointError
from unmask.models.config import Config


@pytest.mark.parametrize("share", [1.5, 1e308])
def test_no_more_than_a_whole_head_rotates(share):
    with pytest.raises(InvalidCheckpointError, match="partial_rotary_factor"):
        Config({"partial_rotary_factor": share}, "config.json").rope(10000.0)


def test_a_tensor_without_dimensions_has_no_heads():
    with pytest.raises(InvalidCheckpointError, match="q_proj"):
        _unpermuted(torch.tensor(1.0), 4, "q_proj")
