"""The transformer of `model/src/models/transformer.rs` in plain PyTorch: `model.safetensors` loads into it
with `strict=True`, and in evaluation mode it forecasts the same to 1e-5."""

import torch
from torch import Tensor, nn


class Transformer(nn.Module):
    def __init__(
        self,
        *,
        features: int,
        lookback: int,
        horizon: int,
        targets: int,
        padding: str = "none",
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        feedforward: int = 256,
        dropout: float = 0.0,
        segments: int = 0,
        checkpoint: bool = False,
    ):
        super().__init__()
        self.padding, self.labels = padding, (horizon, targets)
        self.embed = nn.Linear(features, width)
        self.positions = nn.Embedding(lookback, width)
        if segments > 0:
            self.segments = nn.Embedding(segments, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, feedforward, dropout, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, horizon * targets)

    def forward(
        self, values: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """`values` [rows, lookback, features]; `lengths` [rows] where windows are padded; `segments`
        [rows, lookback] where there are any."""
        rows, lookback = values.shape[:2]
        last = torch.full((rows, 1), lookback - 1)
        first = torch.zeros_like(last)
        if self.padding == "right":
            last = lengths.long().view(-1, 1) - 1
        elif self.padding == "left":
            first = lookback - lengths.long().view(-1, 1)
        places = torch.arange(lookback).expand(rows, -1)
        padded = (places < first) | (places > last)
        # The last real row has the last position.
        positions = (places - last + self.positions.num_embeddings - 1).clamp(
            max=self.positions.num_embeddings - 1
        )
        x = self.embed(values.masked_fill(padded.unsqueeze(-1), 0.0)) + self.positions(positions)
        if segments is not None:
            x = x + self.segments(segments.long())
        mask = padded if self.padding != "none" else None
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=mask)
        x = self.norm(x[torch.arange(rows), last.squeeze(1)])
        return self.head(x).view(rows, *self.labels)
