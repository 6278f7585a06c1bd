"""A plain PyTorch training loop over batches that are ready, one form per call.

    peers.py <peer> <folder>

The folder holds the batches, the first weights, the settings and the loss that ours comes to. A
step comes before the clock starts and one after it has stopped, as for ours; the mean loss of all
steps must be the same. The last line on stdout is the result as JSON.
"""

import json
import math
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

# By how much the losses may differ, as a fraction: the same for the bare loop.
TOLERANCE = 1e-4


class Work:
    def __init__(self, folder):
        self.folder = Path(folder)
        vars(self).update(json.loads((self.folder / "shape.json").read_text()))
        self.steps = self.timed_steps + 2
        inputs = self.read("inputs.f32").view(self.slots, self.batch, self.lookback, self.features)
        targets = self.read("targets.f32").view(self.slots, self.batch, 1)
        self.batches = list(zip(inputs, targets))

    def read(self, name):
        return torch.from_numpy(np.fromfile(self.folder / name, np.float32))


class Model(nn.Module):
    def __init__(self, work):
        super().__init__()
        weights = work.read("weights.f32")
        parts = []
        if work.hidden is None:
            self.lstm = None
            self.head = nn.Linear(work.lookback * work.features, 1)
        else:
            self.lstm = lstm = nn.LSTM(work.features, work.hidden, batch_first=True)
            self.head = nn.Linear(work.hidden, 1)
            parts = [lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0]
        parts += [self.head.weight, self.head.bias]
        pieces = weights.split([part.numel() for part in parts])
        with torch.no_grad():
            for part, piece in zip(parts, pieces, strict=True):
                part.copy_(piece.view_as(part))

    def forward(self, inputs):
        if self.lstm is None:
            return self.head(inputs.flatten(1))
        outputs, _ = self.lstm(inputs)
        return self.head(outputs[:, -1])


def loop(work, best):
    model, criterion = Model(work), nn.MSELoss()
    # Biases do not decay, as in ours.
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": work.weight_decay},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=work.learning_rate, fused=True if best else None)
    cosine = lambda step: 0.5 * (1 + math.cos(math.pi * step / work.steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine)
    losses = []

    def step(index):
        inputs, targets = work.batches[index % work.slots]
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), work.clip_norm)
        optimizer.step()
        schedule.step()
        # Usually the loss is read after every step, for a mean or a progress bar.
        losses.append(loss.detach() if best else loss.item())

    return step, losses


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    peer, folder = sys.argv[1:]
    work, best = Work(folder), peer == "pytorch-best"
    torch.set_num_threads(work.threads)
    step, losses = loop(work, best)
    step(0)
    start, cpu = time.perf_counter(), cpu_s()
    for index in range(1, work.timed_steps + 1):
        step(index)
    wall, cpu = time.perf_counter() - start, cpu_s() - cpu
    step(work.steps - 1)
    mean = sum(map(float, losses)) / len(losses)
    if not abs(mean / work.loss - 1) <= TOLERANCE:
        sys.exit(f"a mean loss of {mean}, ours is {work.loss}")
    form = "fused AdamW, no loss read, memory kept" if best else "usual loop, a loss read per step"
    name = f"torch {torch.__version__}, {form}"
    print(json.dumps({"name": name, "wall_s": wall, "cpu_s": cpu, "peak_rss_mb": None}))


if __name__ == "__main__":
    main()
