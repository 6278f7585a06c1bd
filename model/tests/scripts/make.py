"""Writes the scripts that the tests of `model = "script"` train, for windows of 4 rows with 3 values
and forecasts of 2 steps of one target: `python make.py`, with PyTorch. They are committed, so that
the tests need no Python."""

import io
import zipfile

import torch
from torch import Tensor, nn


class Mlp(nn.Module):
    """Two layers and dropout; [rows, 2]."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(12, 5)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.dropout(torch.tanh(self.inner(x.flatten(1)))))


class Mean(nn.Module):
    """The mean of the real rows, scaled by a buffer, and a frozen bias; [rows, 2, 1]."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)
        self.head.bias.requires_grad_(False)
        self.register_buffer("scale", torch.tensor(3.0))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mean = x.sum(1) / lengths.unsqueeze(1) * self.scale
        return self.head(mean).unsqueeze(2)


class BatchNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(12)
        self.head = nn.Linear(12, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x.flatten(1)))


class Counter(nn.Module):
    """State that is no tensor."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(12, 2)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.head(x.flatten(1))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(12, 12)
        self.two = nn.Linear(12, 12)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.one(x.flatten(1)))[:, :2]


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(12, 2)
        self.spare = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.flatten(1))


class Last(nn.Module):
    """Nothing to learn."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, -2:, 0]


class Pair(nn.Module):
    """Not a tensor."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(12, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.head(x.flatten(1))
        return y, y


def save(name: str, module: nn.Module):
    """Without what is for debuggers: it holds the paths of the machine."""
    whole = io.BytesIO()
    torch.jit.save(torch.jit.script(module), whole)
    with zipfile.ZipFile(whole) as whole, zipfile.ZipFile(f"{name}.pt", "w") as file:
        for entry in whole.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                file.writestr(entry, whole.read(entry))


torch.manual_seed(0)
save("mlp", Mlp())
save("mean", Mean())
save("batch_norm", BatchNorm())
save("counter", Counter())
save("tied", Tied())
save("unused", Unused())
save("last", Last())
save("pair", Pair())
save("double", Mlp().double())
save("wide", nn.Sequential(nn.Flatten(1), nn.Linear(12, 3)))
