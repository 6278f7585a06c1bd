"""Reads a run's event files with TensorBoard and holds every value against the run's other files.

usage: read_events.py RUN
"""

import json
import sys
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = Path(sys.argv[1])
everything = {kind: 0 for kind in ("scalars", "histograms", "tensors")}
events = EventAccumulator(str(run), size_guidance=everything)
events.Reload()

# What must be there: step and value by tag.
expected = {}


def expect(tag, step, value):
    if value is not None:
        expected.setdefault(tag, []).append((step, np.float32(value)))


state = json.loads((run / "checkpoints/last/state.json").read_text())
report = json.loads((run / "report.json").read_text())
per_epoch = state["step"] // len(state["history"]["losses"])
lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
for line in lines:
    if "step" in line:
        for name in ("loss", "learning_rate", "samples_per_s"):
            expect(f"train/{name}", line["step"], line[name])
    else:
        step = line["epoch"] * per_epoch
        expect("train/epoch_loss", step, line["train_loss"])
        expect("validation/loss", step, line["validation_loss"])
        for name, value in (line["validation"] or {}).items():
            expect(f"validation/{name}", step, value)
for name, value in report["test"].items():
    if isinstance(value, (int, float)):
        expect(f"test/{name}", state["step"], value)

found = {tag: [(e.step, np.float32(e.value)) for e in events.Scalars(tag)]
         for tag in events.Tags()["scalars"]}
missing = {tag: values for tag, values in expected.items() if found.get(tag) != values}
assert not missing, f"not as expected: {missing}, found {found}"
unknown = {tag: values for tag, values in found.items()
           if tag not in expected and tag.split("/")[0] not in ("train", "validation", "test")}
assert not unknown, f"nobody expects {unknown}"

settings = [tensor.tensor_proto.string_val[0].decode() for tensor in events.Tensors("settings")]
assert len(settings) == 1 and (run / "config.toml").read_text() in settings[0], settings

epochs = [step for step, _ in expected["train/epoch_loss"]]
histograms = events.Tags()["histograms"]
for tag in histograms:
    shown = events.Histograms(tag)
    assert [event.step for event in shown] == epochs, tag
    for event in shown:
        value = event.histogram_value
        assert value.num == sum(value.bucket) and value.min <= value.max <= value.bucket_limit[-1] + 1e-9
wanted = "histograms = true" in settings[0]
assert bool(histograms) == wanted, histograms
assert all(e.wall_time > 1.6e9 for tag in found for e in events.Scalars(tag))
print(f"TRIED {sum(map(len, found.values()))} scalars of {len(found)} kinds,"
      f" {len(histograms)} histograms")
