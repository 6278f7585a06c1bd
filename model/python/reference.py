"""millstream's models in PyTorch: a small module each, under the names that our weights have.

    model = reference.load("runs/latest/checkpoints/best")      # strict=True, in eval mode
    forecast = model(values)                                    # scaled, as the trainer sees them

A folder to load holds what a checkpoint does:

    schema.json           features, targets, lookback, horizon, padding, target_kind, and the model: its
                          kind (the name of its file in src/models), all of its options, and heads,
                          what its outputs stand for, where they are not forecasts
    scaler.json           if there: "missing": "mask" doubles the values of an input row
    model.safetensors     the weights

    reference.py FOLDER…

compares forecasts. Each folder holds besides

    example.safetensors   values [rows, lookback, inputs] and our forecast [rows, horizon, targets],
                          with quantiles [rows, horizon, targets, heads];
                          where windows are padded lengths [rows] and mask [rows, lookback], where
                          segments are read segments [rows, lookback], all as f32

and it ends with 1 if a model has no reference here, its weights do not fit, or forecasts differ by more
than 1e-5. `model/tests/parity.rs` writes such folders for every model of the list.

To add a model: a class below and its line in MODELS. It is made of a Shape and of its options by name,
and called with (values, lengths, mask, segments), of which the last three may be None.
"""

import dataclasses
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

TOLERANCE = 1e-5


@dataclasses.dataclass
class Shape:
    """What a model is between, as in model.rs."""

    lookback: int
    inputs: int
    horizon: int
    targets: int
    padding: str  # none, left or right
    own_inputs: list  # by target: which input is its own column, or None
    has_level: bool  # whether the forecasts are values of the columns, and not changes
    heads: int = 1  # outputs of each step of each target

    @property
    def outputs(self):
        return self.horizon * self.targets * self.heads

    @property
    def forecast(self):
        """The shape of what a model makes; one head is no dimension."""
        return (-1, self.horizon, self.targets, self.heads)[: 4 if self.heads > 1 else 3]


class Recurrent(nn.Module):
    """`layers` of a cell, and a head on the hidden state of the last real row."""

    def __init__(self, cell, name, shape, hidden, layers, dropout):
        super().__init__()
        # PyTorch warns of a dropout that one layer has no place for.
        dropout = dropout if layers > 1 else 0.0
        cell = cell(shape.inputs, hidden, layers, batch_first=True, dropout=dropout)
        self.add_module(name, cell)
        self.head = nn.Linear(hidden, shape.outputs)
        self.name, self.shape = name, shape

    def forward(self, values, lengths=None, mask=None, segments=None):
        hidden, _ = getattr(self, self.name)(values)
        if self.shape.padding == "right":
            last = hidden[torch.arange(len(values)), lengths.long() - 1]
        else:
            last = hidden[:, -1]
        return self.head(last).view(self.shape.forecast)


class Lstm(Recurrent):
    def __init__(self, shape, **options):
        super().__init__(nn.LSTM, "lstm", shape, **options)


class Gru(Recurrent):
    def __init__(self, shape, **options):
        super().__init__(nn.GRU, "gru", shape, **options)


class Mlp(nn.Module):
    def __init__(self, shape, hidden, layers, dropout, activation):
        super().__init__()
        sizes = [shape.lookback * shape.inputs] + [hidden] * layers
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.head = nn.Linear(hidden, shape.outputs)
        self.activation = {"gelu": nn.GELU(), "relu": nn.ReLU()}[activation]
        self.dropout, self.shape = nn.Dropout(dropout), shape

    def forward(self, values, lengths=None, mask=None, segments=None):
        x = values.flatten(1)
        for layer in self.layers:
            x = self.dropout(self.activation(layer(x)))
        return self.head(x).view(self.shape.forecast)


def maps(shape, individual):
    """A linear map for all channels, or one for each, as published."""
    linear = lambda: nn.Linear(shape.lookback, shape.horizon * shape.heads)
    return nn.ModuleList(linear() for _ in range(shape.targets)) if individual else linear()


def apply_maps(maps, x):
    if isinstance(maps, nn.ModuleList):
        return torch.stack([one(x[:, i]) for i, one in enumerate(maps)], dim=1)
    return maps(x)


def forecast_of_maps(mapped, shape):
    """[rows, horizon, channels], and the heads where there are several."""
    if shape.heads == 1:
        return mapped.permute(0, 2, 1)
    return mapped.unflatten(2, (shape.horizon, shape.heads)).permute(0, 2, 1, 3)


class Nlinear(nn.Module):
    def __init__(self, shape, individual):
        super().__init__()
        self.Linear = maps(shape, individual)
        self.shape = shape

    def forward(self, values, lengths=None, mask=None, segments=None):
        x = values[:, :, self.shape.own_inputs].permute(0, 2, 1)
        last = x[:, :, -1:].detach()
        change = apply_maps(self.Linear, x - last)
        change = change + last if self.shape.has_level else change
        return forecast_of_maps(change, self.shape)


class Dlinear(nn.Module):
    def __init__(self, shape, individual, kernel):
        super().__init__()
        self.Linear_Seasonal = maps(shape, individual)
        self.Linear_Trend = maps(shape, individual)
        self.shape, self.kernel = shape, kernel

    def forward(self, values, lengths=None, mask=None, segments=None):
        x = values[:, :, self.shape.own_inputs].permute(0, 2, 1)
        beyond = (self.kernel - 1) // 2
        padded = F.pad(x, (beyond, beyond), mode="replicate")
        trend = F.avg_pool1d(padded, self.kernel, stride=1)
        seasonal = apply_maps(self.Linear_Seasonal, x - trend)
        return forecast_of_maps(seasonal + apply_maps(self.Linear_Trend, trend), self.shape)


class Transformer(nn.Module):
    def __init__(
        self, shape, width, layers, heads, feedforward, dropout, segments, checkpoint=False
    ):
        super().__init__()
        self.embed = nn.Linear(shape.inputs, width)
        self.positions = nn.Embedding(shape.lookback, width)
        if segments > 0:
            self.segments = nn.Embedding(segments, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, feedforward, dropout, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, shape.outputs)
        self.shape = shape

    def forward(self, values, lengths=None, mask=None, segments=None):
        rows, lookback = values.shape[:2]
        last = torch.full((rows, 1), lookback - 1)
        first = torch.zeros_like(last)
        if self.shape.padding == "right":
            last = lengths.long().view(-1, 1) - 1
        elif self.shape.padding == "left":
            first = lookback - lengths.long().view(-1, 1)
        places = torch.arange(lookback).expand(rows, -1)
        padded = (places < first) | (places > last)
        # The last real row has the last position.
        positions = places - last + self.shape.lookback - 1
        x = self.embed(values) + self.positions(positions.clamp(max=self.shape.lookback - 1))
        if segments is not None:
            x = x + self.segments(segments.long())
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=None if self.shape.padding == "none" else padded)
        x = self.norm(x[torch.arange(rows), last.squeeze(1)])
        return self.head(x).view(self.shape.forecast)


class Forecasting(nn.Module):
    """A model, and what makes forecasts of its outputs: quantiles are put in order around the median,
    which is a head itself; a logit becomes twice its probability less 1."""

    def __init__(self, model, heads):
        super().__init__()
        self.model, self.heads = model, heads

    def forward(self, values, lengths=None, mask=None, segments=None):
        outputs = self.model(values, lengths, mask, segments)
        if self.heads == "logit":
            return 2 * torch.sigmoid(outputs) - 1
        if not isinstance(self.heads, dict) or len(self.heads["quantiles"]) == 1:
            return outputs
        median = self.heads["quantiles"].index(0.5)
        step = F.softplus(outputs.diff(dim=-1))
        below = [outputs[..., median] - step[..., k:median].sum(-1) for k in range(median)]
        above = [
            outputs[..., median] + step[..., median:k].sum(-1)
            for k in range(median, step.shape[-1] + 1)
        ]
        return torch.stack(below + above, dim=-1)


MODELS = {
    "lstm": Lstm,
    "gru": Gru,
    "mlp": Mlp,
    "nlinear": Nlinear,
    "dlinear": Dlinear,
    "transformer": Transformer,
}


def load(folder):
    """The model of a checkpoint, with its weights, in eval mode."""
    folder = pathlib.Path(folder)
    schema = json.loads((folder / "schema.json").read_text())
    scaler = folder / "scaler.json"
    masked = scaler.exists() and json.loads(scaler.read_text()).get("missing") == "mask"
    features, targets = schema["features"], schema["targets"]
    heads = schema["model"].get("heads", "value")
    shape = Shape(
        lookback=schema["lookback"],
        inputs=len(features) * (2 if masked else 1),
        horizon=schema["horizon"],
        targets=len(targets),
        padding=schema["padding"],
        own_inputs=[features.index(name) if name in features else None for name in targets],
        has_level=schema["target_kind"] == "value",
        heads=len(heads["quantiles"]) if isinstance(heads, dict) else 1,
    )
    kind, options = schema["model"]["kind"], schema["model"]["options"]
    if kind not in MODELS:
        raise SystemExit(f"{folder}: model {kind!r} has no reference in reference.py")
    model = MODELS[kind](shape, **options)
    model.load_state_dict(load_file(folder / "model.safetensors"), strict=True)
    return Forecasting(model, heads).eval()


def compare(folder):
    """The largest difference between our forecasts and PyTorch's, beside 1 or the forecast."""
    example = load_file(pathlib.Path(folder) / "example.safetensors")
    forecast = example.pop("forecast")
    with torch.no_grad():
        found = load(folder)(**example)
    if found.shape != forecast.shape:
        raise SystemExit(f"{folder}: {list(found.shape)} here, {list(forecast.shape)} there")
    return ((found - forecast).abs() / forecast.abs().clamp(min=1.0)).max().item()


def main(folders):
    differences = {folder: compare(folder) for folder in folders}
    for folder, difference in differences.items():
        print(f"{pathlib.Path(folder).name}: {difference:.1e}")
    # Written so that NaN is too large as well.
    wrong = [folder for folder, difference in differences.items() if not difference <= TOLERANCE]
    for folder in wrong:
        print(f"{folder}: forecasts differ by {differences[folder]:.1e}", file=sys.stderr)
    return 1 if wrong or not folders else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
