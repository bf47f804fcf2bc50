"""An answer's loss does not depend on how far its input is padded; the scores of the text are what they were."""

from __future__ import annotations

import pytest
import torch

from bertkit.checkpoint.encoders import head_class
from bertkit.errors import CheckpointError
from bertkit.tasks.question_answering.windows import mask_padding

pytestmark = pytest.mark.numeric


def test_padding_takes_no_part(encoder):
    encoder.num_labels = 2
    try:
        head = head_class("BertForQuestionAnswering", encoder, "here")
    except CheckpointError as error:
        pytest.skip(str(error))
    torch.manual_seed(0)
    model = head(encoder).eval()
    ids = torch.randint(5, 60, (2, 8))
    answers = {"start_positions": torch.tensor([3, 1]), "end_positions": torch.tensor([4, 1])}
    padded = torch.nn.functional.pad(ids, (0, 4), value=encoder.pad_token_id or 0)
    mask = torch.nn.functional.pad(torch.ones_like(ids), (0, 4))
    with torch.no_grad():
        before = model(input_ids=ids, attention_mask=torch.ones_like(ids), **answers)
        mask_padding(model)
        alone = model(input_ids=ids, attention_mask=torch.ones_like(ids), **answers)
        longer = model(input_ids=padded, attention_mask=mask, **answers)
    torch.testing.assert_close(alone.start_logits, before.start_logits)
    torch.testing.assert_close(longer.start_logits[:, :8], alone.start_logits, rtol=1e-4, atol=1e-5)
    assert longer.end_logits[:, 8:].max() < -1e30
    if model.base_model_prefix == "bert":  # other families' heads have losses of their own
        torch.testing.assert_close(longer.loss, alone.loss, rtol=1e-5, atol=1e-6)
