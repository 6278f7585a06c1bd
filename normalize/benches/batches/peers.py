"""Makes batches, or scales a table, with another library, and says what it took.

    peers.py <peer> <folder>

The folder holds the panel, the first rows of all windows in the order of an epoch, the numbers to
scale with and what ours made of them. Every peer makes the same batches (or the same scaled table)
and compares them; it warms up before its clock runs. Reading files and scaling beforehand, where a
peer does that, are not measured. The last line on stdout is the result as JSON.

Who writes batches to memory of its own has as many buffers in turn as ours has slots: a batch is
still in use while the next one is made.
"""

import json
import resource
import sys
import time
from itertools import cycle
from pathlib import Path

import numpy as np

WARM_UP = 10


class Work:
    """What the folder holds."""

    def __init__(self, folder):
        self.folder = Path(folder)
        shape = json.loads((self.folder / "shape.json").read_text())
        self.rows, self.features = shape["rows"], shape["features"]
        self.lookback, self.batch = shape["lookback"], shape["batch"]
        self.batches, self.threads = shape["batches"], shape["threads"]
        self.slots = shape["slots"]
        self.panel = self.read("panel.f32", np.float32).reshape(-1, self.features)
        self.spans = self.read("spans.i64", np.int64)
        scaling = self.read("scaling.f64", np.float64).reshape(2, -1)
        self.mean, self.std = scaling.astype(np.float32)

    def read(self, name, dtype):
        return np.fromfile(self.folder / name, dtype)

    def scaled(self):
        """The table, scaled beforehand."""
        return np.nan_to_num((self.panel - self.mean) / self.std, copy=False)

    def batch_spans(self):
        """The first rows of the windows of one batch after the other, round and round."""
        whole = len(self.spans) // self.batch * self.batch
        while True:
            yield from self.spans[:whole].reshape(-1, self.batch)

    def check_batches(self, make):
        """Compares the first batches, made from the first rows of their windows, with ours."""
        expected = self.read("batches.f32", np.float32)
        expected = expected.reshape(-1, self.batch, self.lookback, self.features)
        for spans, ours in zip(self.batch_spans(), expected):
            compare(np.asarray(make(spans)).reshape(ours.shape), ours)

    def check_table(self, table):
        compare(np.nan_to_num(table), self.read("scaled.f32", np.float32).reshape(table.shape))


def compare(theirs, ours):
    if not np.allclose(theirs, ours, rtol=1e-6, atol=1e-6):
        sys.exit(f"makes something else: values differ by up to {np.abs(theirs - ours).max()}")


def torch_with(threads):
    import torch

    torch.set_num_threads(threads)
    return torch


class Windows:
    """A Dataset as tutorials write it: one window per index. torch wants no base class for it."""

    def __init__(self, work, scaled):
        import torch

        self.from_numpy, self.tensor = torch.from_numpy, torch.tensor
        self.work, self.first_rows = work, np.sort(work.spans)
        self.table = torch.from_numpy(work.scaled()) if scaled else None

    def __len__(self):
        return len(self.first_rows)

    def __getitem__(self, i):
        return self.window(self.first_rows[i])

    def window(self, first):
        work = self.work
        end = first + work.lookback
        if self.table is not None:
            return self.table[first:end], self.table[end, 0]
        window = (work.panel[first:end] - work.mean) / work.std
        target = (work.panel[end, 0] - work.mean[0]) / work.std[0]
        return self.from_numpy(np.nan_to_num(window)), self.tensor(target)


def dataloader(work, scaled, workers):
    torch = torch_with(work.threads)
    from torch.utils.data import DataLoader, default_collate

    dataset = Windows(work, scaled)
    work.check_batches(lambda spans: default_collate([dataset.window(i) for i in spans])[0])
    loader = DataLoader(dataset, batch_size=work.batch, shuffle=True, num_workers=workers)
    batches = iter(loader)

    def step():
        inputs, _targets = next(batches)
        return inputs

    form = "scaled beforehand" if scaled else "usual __getitem__"
    return f"torch {torch.__version__} DataLoader, {form}, {workers} workers", step


def numpy_gather(work):
    spans, steps = work.batch_spans(), np.arange(work.lookback)
    shape = (work.slots, work.batch, work.lookback, work.features)
    buffers = cycle(np.empty(shape, np.float32))

    def make(first):
        rows, buffer = first[:, None] + steps, next(buffers)
        np.take(work.panel, rows, axis=0, out=buffer, mode="clip")
        np.subtract(buffer, work.mean, out=buffer)
        np.divide(buffer, work.std, out=buffer)
        return np.nan_to_num(buffer, copy=False)

    work.check_batches(make)
    return f"numpy {np.__version__}, gather and normalise", lambda: make(next(spans))


def torch_gather(work, scaled, whole_windows, one_buffer=False):
    """Gathers rows, or whole windows from a view in which they overlap."""
    torch = torch_with(work.threads)
    table = torch.from_numpy(work.scaled() if scaled else work.panel)
    mean, factor = torch.from_numpy(work.mean), torch.from_numpy(1 / work.std)
    spans, steps = work.batch_spans(), torch.arange(work.lookback)
    if whole_windows:
        values = work.lookback * work.features
        count = work.rows - work.lookback + 1
        windows = table.as_strided((count, values), (work.features, 1))
        shape = (work.batch, values)
    else:
        shape = (work.batch * work.lookback, work.features)
    buffers = cycle([torch.empty(shape) for _ in range(1 if one_buffer else work.slots)])

    def make(first):
        first, buffer = torch.from_numpy(first), next(buffers)
        if whole_windows:
            torch.index_select(windows, 0, first, out=buffer)
        else:
            torch.index_select(table, 0, (first[:, None] + steps).view(-1), out=buffer)
        batch = buffer.view(work.batch, work.lookback, work.features)
        if not scaled:
            batch.sub_(mean).mul_(factor).nan_to_num_(nan=0.0)
        return batch

    work.check_batches(make)
    what = "whole windows" if whole_windows else "rows"
    form = f"index_select of {what}" + ("" if scaled else " and normalise")
    form += " into one buffer" if one_buffer else ""
    return f"torch {torch.__version__}, {form}", lambda: make(next(spans))


def standard_scaler(work, partial):
    import sklearn
    from sklearn.preprocessing import StandardScaler

    def usual():
        return StandardScaler().fit_transform(work.panel)

    def in_parts():
        """Its form for tables that do not fit: here each part stays in cache."""
        scaler, scaled = StandardScaler(), np.empty_like(work.panel)
        for part in range(0, work.rows, 1000):
            scaler.partial_fit(work.panel[part : part + 1000])
        for part in range(0, work.rows, 1000):
            scaled[part : part + 1000] = scaler.transform(work.panel[part : part + 1000])
        return scaled

    form = "partial_fit and transform in parts" if partial else "fit_transform"
    run = in_parts if partial else usual
    return f"scikit-learn {sklearn.__version__} StandardScaler, {form}", run


PEERS = {
    "dataloader-usual-0": lambda work: dataloader(work, scaled=False, workers=0),
    "dataloader-usual-2": lambda work: dataloader(work, scaled=False, workers=2),
    "dataloader-prenormalised-0": lambda work: dataloader(work, scaled=True, workers=0),
    "dataloader-prenormalised-2": lambda work: dataloader(work, scaled=True, workers=2),
    "numpy-gather-normalise": numpy_gather,
    "torch-gather-normalise": lambda work: torch_gather(work, False, whole_windows=False),
    "torch-gather-normalise-windows": lambda work: torch_gather(work, False, whole_windows=True),
    "torch-index-select": lambda work: torch_gather(work, True, whole_windows=False),
    "torch-index-select-windows": lambda work: torch_gather(work, True, whole_windows=True),
    "torch-index-select-one-buffer": lambda work: torch_gather(work, True, True, one_buffer=True),
    "standard-scaler": lambda work: standard_scaler(work, partial=False),
    "standard-scaler-partial": lambda work: standard_scaler(work, partial=True),
}


def cpu_s():
    """Of this process and of the workers that it has waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main():
    peer, folder = sys.argv[1:]
    work = Work(folder)
    name, step = PEERS[peer](work)
    once = peer.startswith("standard-scaler")
    if not once:
        for _ in range(WARM_UP):
            step()
    start, cpu = time.perf_counter(), cpu_s()
    for _ in range(1 if once else work.batches):
        result = step()
    wall, cpu = time.perf_counter() - start, cpu_s() - cpu
    if once:
        work.check_table(result)
    # A peak would be that of reading and checking. The CPU of workers that still run is unknown.
    answer = {"name": name, "wall_s": wall, "cpu_s": cpu, "peak_rss_mb": None}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
