"""On a GPU: every attention kernel that is installed gives what the written-out attention gives; bf16 stays near."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bertkit import BertForPreTraining

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def batch(device: str) -> dict[str, torch.Tensor]:
    """Three sequences of 16, 11 and 5 tokens, padded to 16; P = 2."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([16, 11, 5])
    inputs = {
        "input_ids": torch.randint(5, 99, (3, 16), generator=generator),
        "attention_mask": (torch.arange(16) < lengths[:, None]).long(),
        "token_type_ids": torch.randint(0, 2, (3, 16), generator=generator),
        "masked_positions": torch.tensor([[1, 9], [2, 3], [4, 0]]),
        "labels": torch.tensor([[7, 8], [9, 10], [11, -100]]),
        "next_sentence_label": torch.tensor([0, 1, 1]),
    }
    return {name: value.to(device) for name, value in inputs.items()}


@pytest.mark.parametrize(
    ("kernel", "dtype", "tolerance"),
    [
        ("sdpa", torch.float32, 1e-5),
        ("flex_attention", torch.float32, 1e-4),
        ("sdpa", torch.bfloat16, 5e-2),
        ("flash_attention_2", torch.bfloat16, 5e-2),
    ],
)
def test_kernels_agree(tiny_config: Any, kernel: str, dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    # flex attention takes heads of 16 and more
    tiny_config.hidden_size, tiny_config.num_attention_heads = 64, 4
    model = BertForPreTraining(tiny_config).eval().cuda()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(**batch("cuda"))
        try:
            model.set_attn_implementation(kernel)
        except ImportError as error:
            pytest.skip(f"{kernel} is not installed: {error}")
        outputs = model.to(dtype)(**batch("cuda"))
    assert abs(outputs.loss.item() - expected.loss.item()) <= tolerance
    torch.testing.assert_close(
        outputs.seq_relationship_logits.float(), expected.seq_relationship_logits, atol=tolerance, rtol=tolerance
    )
