"""Recomputes the figures of a run from its written files and the source, with pandas.

    recompute.py RUN SOURCE.csv TEST.parquet VALIDATION.parquet

TEST and VALIDATION are forecasts that `millstream predict` wrote. Nothing of millstream is used but
what it wrote: which windows there are, what their outcomes are and where the borders lie is worked
out anew from the source and the settings. Every difference above 1e-6 is printed; exit 1 if any.
"""

import json
import pathlib
import sys
import tomllib

import numpy as np
import pandas as pd

TOLERANCE = 1e-6
differences = []


def check(what, found, expected):
    if expected is None or found is None:
        same = expected is None and found is None
    else:
        same = abs(found - expected) <= TOLERANCE * max(1.0, abs(expected))
    if not same:
        differences.append(f"{what}: the report says {found}, recomputed {expected}")


def borders(times, split):
    """[(from, until)) of training, validation and test targets, as positions among `times`."""
    share = lambda part: int(np.floor(part * len(times) + 0.5))
    train, first = share(split["train"]), share(split["train"] + split["validation"])
    if split["folds"] == 0:
        return (0, train), (train, first), (first, len(times))
    left, fold = len(times) - first, split["fold"] - 1
    block = lambda number: first + number * left // split["folds"]
    start, validation = block(fold), first - train
    begin = 0 if split["walk"] == "expanding" else start - validation - train
    return (begin, start - validation), (start - validation, start), (start, block(fold + 1))


def outcome(kind, dead_band, base, later):
    if kind == "value":
        return later
    if kind == "difference":
        return later - base
    change = (later - base) / abs(base)
    if kind == "return":
        return change
    return float(change > dead_band) - float(change < -dead_band)


def windows(table, targets, lookback, horizon, kind, dead_band, delay, span, whole=True):
    """A row for every window, step and target whose targets all lie within span.

    Of whole windows all targets are known; else each target and step that is known stands by itself.
    """
    rows = []
    for symbol, series in table.groupby("symbol", sort=False):
        times = series["trade_date"].to_numpy()
        values = {target: series[target].to_numpy(np.float32).astype(float) for target in targets}
        known = {target: pd.Series(values[target]).ffill().to_numpy() for target in targets}
        for last in range(lookback - 1, len(series) - horizon - delay):
            base = last + delay
            ahead = range(base + 1, base + horizon + 1)
            if not all(span[0] <= times[row] < span[1] for row in ahead):
                continue
            needed = [*ahead] if kind == "value" else [base, *ahead]
            if whole and any(np.isnan(values[target][row]) for target in targets for row in needed):
                continue
            for step, row in enumerate(ahead, 1):
                for target in targets:
                    column = values[target]
                    if np.isnan(column[row]) or kind != "value" and np.isnan(column[base]):
                        continue
                    truth = outcome(kind, dead_band, column[base], column[row])
                    written = column[row] if kind == "difference" else truth
                    key = (symbol, times[last], step, target)
                    rows.append((*key, times[row], known[target][last], truth, written))
    names = ["symbol", "time", "step", "target", "target_time", "last", "outcome", "written"]
    return pd.DataFrame(rows, columns=names)


def forecasts_of(path, targets, suffix):
    file = pd.read_parquet(path)
    parts = []
    for target in targets:
        part = pd.DataFrame(
            {
                "symbol": file["symbol"],
                "time": pd.to_datetime(file["trade_date"]),
                "step": file["step"].astype(int),
                "target": target,
                "file_target_time": pd.to_datetime(file["target_time"]),
                "forecast": file[f"{target}{suffix}_forecast"].astype(float),
                "file_outcome": file[f"{target}{suffix}"].astype(float),
            }
        )
        parts.append(part)
    return pd.concat(parts)


def direction(kind, values, last):
    return np.sign(values - last) if kind == "value" else np.sign(values)


def correlation(rows, forecast, ranks):
    """The mean over times of the correlation across series."""
    found = []
    for _, group in rows.groupby("time"):
        pair = group[[forecast, "outcome"]].astype(np.float32).astype(float)
        if len(pair) < 3 or pair.nunique().min() < 2:
            continue
        pair = pair.rank() if ranks else pair
        found.append(np.corrcoef(pair[forecast], pair["outcome"])[0, 1])
    return float(np.mean(found)) if found else None


def figures(rows, forecast, kind):
    """The figures of one forecaster over some steps of some targets."""
    scaled = rows[forecast + "_scaled"] - rows["outcome_scaled"]
    raw = rows[forecast] - rows["outcome"]
    said = direction(kind, rows[forecast], rows["last"])
    came = direction(kind, rows["outcome"], rows["last"])
    counted = (said != 0) & (came != 0) & ~said.isna() & ~came.isna()
    both = (came[counted] > 0).any() and (came[counted] < 0).any()
    columns = [group for _, group in rows.groupby(["target", "step"])]
    mean = lambda values: float(np.mean(values)) if values else None
    known = lambda ranks: [
        value for group in columns if (value := correlation(group, forecast, ranks)) is not None
    ]
    return {
        "mse": float((scaled**2).mean()),
        "mae": float(scaled.abs().mean()),
        "mse_raw": float((raw**2).mean()),
        "mae_raw": float(raw.abs().mean()),
        "directional_accuracy": float((said == came)[counted].mean()) if both else None,
        "ic": mean(known(False)),
        "rank_ic": mean(known(True)),
    }


def compare(what, reported, rows, forecast, kind):
    for name, value in figures(rows, forecast, kind).items():
        check(f"{what}, {name}", reported[name], value)
    for part in reported["by_step"]:
        chosen = rows[(rows["target"] == part["target"]) & (rows["step"] == part["step"])]
        for name, value in figures(chosen, forecast, kind).items():
            check(f"{what}, {part['target']} +{part['step']}, {name}", part[name], value)


def training_rows(table, targets, settings, kind, span):
    """What the naive mean is a mean of: the labels of the training part."""
    horizon, target = settings["window"]["horizon"], settings["target"]
    per_series = settings["scale"]["per"] == "series"
    if kind != "value":
        shape = (1, horizon, kind, target["dead_band"], target["delay"])
        return windows(table, targets, *shape, span, whole=False).assign(per_series=per_series)
    inside = table[table["trade_date"].between(*span, inclusive="left")]
    rows = inside.melt("symbol", targets, "target", "outcome").dropna()
    rows["outcome"] = rows["outcome"].astype(np.float32).astype(float)
    return rows.assign(per_series=per_series)


def means(rows, training):
    """The mean of each row's target, over its own series where those are scaled by themselves."""
    training = training.assign(outcome=training["outcome"].astype(np.float32).astype(float))
    of_series = training["per_series"].all()
    keys = ["symbol", "target"] if of_series else ["target"]
    found = training.groupby(keys)["outcome"].mean().rename("mean").reset_index()
    return rows.merge(found, on=keys, how="left")["mean"].to_numpy()


def curve(values, fit):
    return np.sign(values) * np.log1p(values.abs()) if fit.get("curve") == "log1p" else values


def scale(rows, column, scaler):
    """Scaled values of a column, by the scaling of each target and series."""
    out = pd.Series(np.nan, index=rows.index)
    for (target, symbol), group in rows.groupby(["target", "symbol"]):
        at = [entry["name"] for entry in scaler["targets"]].index(target)
        own = scaler.get("by_series", {}).get(symbol)
        fit = own["targets"][at] if own else scaler["targets"][at]
        out[group.index] = (curve(group[column], fit) - fit["offset"]) / fit["scale"]
    return out


def main(run, source, test, validation):
    run = pathlib.Path(run)
    settings = tomllib.loads((run / "config.toml").read_text())
    report = json.loads((run / "report.json").read_text())
    scaler = json.loads((run / "checkpoints/best/scaler.json").read_text())
    target, window = settings["target"], settings["window"]
    kind, targets = target["kind"], target["columns"]
    suffix = "" if kind in ("value", "difference") else f"_{kind}"

    table = pd.read_csv(source, parse_dates=["trade_date"])
    table = table.sort_values(["symbol", "trade_date"])
    times = np.sort(table["trade_date"].unique())
    spans = borders(times, settings["split"])
    at = lambda position: times[position] if position < len(times) else np.datetime64("9999-01-01")
    spans = [(at(begin), at(end)) for begin, end in spans]
    shape = (window["lookback"], window["horizon"], kind, target["dead_band"], target["delay"])
    counts = {}
    for part, span, path in [("validation", spans[1], validation), ("test", spans[2], test)]:
        rows = windows(table, targets, *shape, span)
        counts[part] = len(rows)
        said = forecasts_of(path, targets, suffix)
        rows = rows.merge(said, on=["symbol", "time", "step", "target"], how="left")
        if rows["forecast"].isna().any():
            differences.append(f"{part}: {rows['forecast'].isna().sum()} forecasts are missing")
            continue
        if not (rows["file_target_time"] == rows["target_time"]).all():
            differences.append(f"{part}: target_time is not the time of the outcome")
        worst = (rows["file_outcome"] - rows["written"]).abs().max()
        check(f"{part}, largest error of an outcome in the file", float(worst), 0.0)
        if kind == "difference":
            # Bit for bit what stood in the source, and changes are judged from where they count.
            if not (rows["file_outcome"] == rows["written"]).all():
                differences.append(f"{part}: an outcome is not the level of the source")
            rows["forecast"] -= rows["last"]
        zeros = rows.loc[rows["written"] == 0, "file_outcome"]
        if (zeros != 0).any():
            differences.append(f"{part}: an outcome of exactly 0 is written as {zeros.abs().max()}")

        rows["mean"] = means(rows, training_rows(table, targets, settings, kind, spans[0]))
        rows["naive"] = rows["last"].fillna(rows["mean"]) if kind == "value" else 0.0
        for column in ["forecast", "outcome", "mean", "naive"]:
            rows[column + "_scaled"] = scale(rows, column, scaler)
        baseline = report["baseline" if part == "test" else "validation_baseline"]
        compare(part, report[part], rows, "forecast", kind)
        compare(f"{part}, predict the mean", baseline["mean"], rows, "mean", kind)
        compare(f"{part}, predict the last", baseline["last"], rows, "naive", kind)

    if kind == "direction":
        for entry in scaler["targets"]:
            check(f"scaler, offset of {entry['name']}", entry["offset"], 0.0)
            check(f"scaler, scale of {entry['name']}", entry["scale"], 1.0)
    elif settings["scale"]["per"] == "feature":
        training = windows(table, targets, 1, *shape[1:], spans[0], whole=False)
        for entry in scaler["targets"]:
            if kind == "value":
                inside = table["trade_date"].between(*spans[0], inclusive="left")
                values = table.loc[inside, entry["name"]].astype(np.float32).astype(float)
            else:
                values = training.loc[training["target"] == entry["name"], "outcome"]
                values = values.astype(np.float32).astype(float)
            values = curve(values, entry)
            check(f"scaler, offset of {entry['name']}", entry["offset"], float(values.mean()))
            check(f"scaler, scale of {entry['name']}", entry["scale"], float(values.std(ddof=0)))
    if not counts["validation"] or not counts["test"]:
        differences.append(f"nothing was compared: {counts}")
    print("\n".join(differences) or f"all figures found, over {counts} outcomes")
    return 1 if differences else 0


sys.exit(main(*sys.argv[1:]))
