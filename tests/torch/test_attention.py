"""PyTorch's fused attention for inference: nn.MultiheadAttention and nn.TransformerEncoderLayer in eval mode, with every kind of mask."""
import itertools

import pytest
import torch
import torch.nn as nn

from nn_compare import check

pytestmark = pytest.mark.usefixtures("no_fallback")
PADDING = torch.tensor([[False] * 5, [False, False, True, True, True]])
LATER = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)


def both(module, *inputs, **masks):
    torch.manual_seed(0)
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(0, 0.3)
        want = module.eval()(*inputs, **masks)
        got = module.to("tiny")(*(x.to("tiny") for x in inputs), **{k: v.to("tiny") if isinstance(v, torch.Tensor) else v
                                                                  for k, v in masks.items()})
    for g, w in zip(*(([x] if isinstance(x, torch.Tensor) else x) for x in (got, want))):
        assert (g is None) == (w is None)
        if w is not None:
            check(g, w)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masks", [{}, {"src_key_padding_mask": PADDING}, {"src_mask": LATER}, {"src_key_padding_mask": PADDING, "src_mask": LATER}],
                         ids=["none", "padding", "later", "both"])
def test_encoder_layer(masks, activation, norm_first):
    both(nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation, batch_first=True, norm_first=norm_first), torch.randn(2, 5, 8), **masks)


@pytest.mark.parametrize("need_weights,average", list(itertools.product([False, True], repeat=2)))
def test_multihead_attention(need_weights, average):
    x = torch.randn(2, 5, 8)
    for masks in ({}, {"key_padding_mask": PADDING}, {"attn_mask": LATER}, {"key_padding_mask": PADDING, "attn_mask": LATER}):
        both(nn.MultiheadAttention(8, 2, batch_first=True), x, x, x, need_weights=need_weights, average_attn_weights=average, **masks)


def test_attention_to_others():
    both(nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(2, 5, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8))
    both(nn.MultiheadAttention(8, 2, batch_first=True, kdim=6, vdim=4), torch.randn(2, 5, 8), torch.randn(2, 7, 6), torch.randn(2, 7, 4))


def test_fused_path_is_taken():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval().to("tiny")
    with torch.no_grad(), torch.profiler.profile() as profile:
        layer(torch.randn(2, 5, 8, device="tiny"))
    assert any("_transformer_encoder_layer_fwd" in e.key for e in profile.key_averages())


def test_empty_batch():
    both(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(0, 5, 8))
