"""A plain PyTorch training loop over batches that are ready, one form per call.

    peers.py <peer> <folder>

The folder holds the batches, a run with the first weights, the settings and the loss that ours comes
to. The models are those of model/python/reference.py, which the tests hold against ours. A step comes
before the clock starts and one after it has stopped, as for ours; the mean loss of all steps must be
the same. The last line on stdout is the result as JSON.
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

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "model/python"))
import reference  # noqa: E402

# By how much the losses may differ, as a fraction: the same for the bare loop.
TOLERANCE = 1e-4


class Linear(nn.Module):
    """One linear layer over the whole window: a model of the bench alone."""

    def __init__(self, shape):
        super().__init__()
        self.head = nn.Linear(shape.lookback * shape.inputs, shape.horizon * shape.targets)
        self.shape = shape

    def forward(self, values, lengths=None, mask=None, segments=None):
        return self.head(values.flatten(1)).view(-1, self.shape.horizon, self.shape.targets)


reference.MODELS["linear"] = Linear


class Work:
    def __init__(self, folder):
        self.folder = Path(folder)
        vars(self).update(json.loads((self.folder / "shape.json").read_text()))
        self.steps = self.timed_steps + 2
        files = (("inputs.f32", self.inputs), ("targets.f32", self.targets))
        inputs, targets = (self.read(name).view(self.slots, *shape) for name, shape in files)
        self.batches = list(zip(inputs, targets))

    def read(self, name):
        return torch.from_numpy(np.fromfile(self.folder / name, np.float32))

    def model(self):
        return reference.load(self.folder / "run/checkpoints/last").train()


def loop(work, best):
    model, criterion = work.model(), nn.MSELoss()
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
