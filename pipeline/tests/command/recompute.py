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
    change = (later - base) / abs(base) if base != 0 else np.nan
    if kind == "return" or np.isnan(change):
        return change
    return float(change > dead_band) - float(change < -dead_band)


def season_before(kind, dead_band, column, last, delay, step, season):
    """What came a season before, or as many as it takes for that to be known."""
    back = season * -(-(delay + step) // season) if season else len(column)
    if last - back + (step if kind in ("value", "difference") else 0) < 0:
        return np.nan
    if kind == "difference":
        return column[last - back + step] - column[last]
    base = last - back + delay
    return outcome(kind, dead_band, column[base], column[base + step])


def windows(
    table, targets, lookback, horizon, kind, dead_band, delay, season, span, whole=True
):
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
                    before = season_before(kind, dead_band, column, last, delay, step, season)
                    found = (known[target][last], truth, written, before, last)
                    rows.append((*key, times[row], *found))
    names = ["symbol", "time", "step", "target", "target_time"]
    names += ["last", "outcome", "written", "before", "row"]
    return pd.DataFrame(rows, columns=names)


def quantile_column(quantile):
    return "forecast" if quantile == 0.5 else f"q{quantile}"


def forecasts_of(path, targets, suffix, heads):
    file = pd.read_parquet(path)
    said = "score" if heads == "score" else "forecast"
    others = [q for q in quantiles_of(heads) if q != 0.5]
    parts = []
    for target in targets:
        part = pd.DataFrame(
            {
                "symbol": file["symbol"],
                "time": pd.to_datetime(file["trade_date"]),
                "step": file["step"].astype(int),
                "target": target,
                "file_target_time": pd.to_datetime(file["target_time"]),
                "forecast": file[f"{target}{suffix}_{said}"].astype(float),
                "file_outcome": file[f"{target}{suffix}"].astype(float),
            }
        )
        for q in others:
            part[quantile_column(q)] = file[f"{target}{suffix}_q{q}"].astype(float)
        columns = ["forecast", *map(quantile_column, others)]
        columns.sort(key=lambda name: 0.5 if name == "forecast" else float(name[1:]))
        for lower, upper in zip(columns, columns[1:]):
            if (part[lower] > part[upper]).any():
                differences.append(f"{path}: {lower} of {target} lies above {upper}")
        parts.append(part)
    return pd.concat(parts)


def quantiles_of(heads):
    return heads["quantiles"] if isinstance(heads, dict) else []


def direction(kind, values, last):
    values, last = values.astype(np.float32), last.astype(np.float32)
    return np.sign(values - last) if kind == "value" else np.sign(values)


def correlation(rows, forecast, ranks):
    """The correlation across series of each time that has one."""
    found = []
    for _, group in rows.groupby("time"):
        pair = group[[forecast, "outcome"]].astype(np.float32).astype(float)
        if len(pair) < 3 or pair.nunique().min() < 2:
            continue
        pair = pair.rank() if ranks else pair
        found.append(np.corrcoef(pair[forecast], pair["outcome"])[0, 1])
    return found


def over_times(found):
    """Their mean, and that in standard deviations of a sample."""
    if not found:
        return None, None
    spread = np.std(found, ddof=1) if len(found) > 1 else 0.0
    return float(np.mean(found)), float(np.mean(found) / spread) if spread > 1e-12 else None


def pinball(quantile, errors):
    return float(np.maximum(quantile * errors, (quantile - 1) * errors).mean())


def of_quantiles(rows, quantiles):
    """The figures of each quantile, and of all."""
    each = []
    for q in quantiles:
        column = quantile_column(q)
        below = rows["outcome"].astype(np.float32) <= rows[column].astype(np.float32)
        each.append(
            {
                "quantile": q,
                "pinball": pinball(q, rows["outcome_scaled"] - rows[column + "_scaled"]),
                "pinball_raw": pinball(q, rows["outcome"] - rows[column]),
                "coverage": float(below.mean()),
            }
        )
    if not each:
        return each, {"pinball": None, "pinball_raw": None, "coverage": None}
    ends = [rows[quantile_column(q)].astype(np.float32) for q in (quantiles[0], quantiles[-1])]
    inside = rows["outcome"].astype(np.float32).between(*ends)
    mean = lambda name: float(np.mean([one[name] for one in each]))
    coverage = float(inside.mean()) if len(quantiles) > 1 else None
    return each, {
        "pinball": mean("pinball"), "pinball_raw": mean("pinball_raw"), "coverage": coverage
    }


def figures(rows, forecast, kind, heads="value"):
    """The figures of one forecaster over some steps of some targets."""
    columns = [group for _, group in rows.groupby(["target", "step"])]
    mean = lambda values: float(np.mean(values)) if values else None

    def correlations(ranks, name):
        found = [over_times(correlation(group, forecast, ranks)) for group in columns]
        averages, ratios = ([value for value in part if value is not None] for part in zip(*found))
        return {name: mean(averages), name + "ir": mean(ratios)}

    order = {**correlations(False, "ic"), **correlations(True, "rank_ic")}
    if heads == "score":
        names = ["mse", "mae", "mse_raw", "mae_raw", "directional_accuracy", "mcc"]
        return {**order, **{name: None for name in names + ["pinball", "coverage"]}}
    scaled = rows[forecast + "_scaled"] - rows["outcome_scaled"]
    raw = rows[forecast] - rows["outcome"]
    said = direction(kind, rows[forecast], rows["last"])
    came = direction(kind, rows["outcome"], rows["last"])
    counted = (said != 0) & (came != 0) & ~said.isna() & ~came.isna()
    both = (came[counted] > 0).any() and (came[counted] < 0).any()
    said, came, right = said[counted], came[counted], (said == came)[counted]
    vary = said.nunique() > 1 and came.nunique() > 1
    return {
        **order,
        **of_quantiles(rows, quantiles_of(heads))[1],
        "mse": float((scaled**2).mean()),
        "mae": float(scaled.abs().mean()),
        "mse_raw": float((raw**2).mean()),
        "mae_raw": float(raw.abs().mean()),
        "directional_accuracy": float(right.mean()) if both else None,
        "mcc": float(np.corrcoef(said, came)[0, 1]) if vary else None,
    }


def compare(what, reported, rows, forecast, kind, heads="value"):
    compare_part(what, reported, rows, forecast, kind, heads)
    for part in reported["by_step"]:
        chosen = rows[(rows["target"] == part["target"]) & (rows["step"] == part["step"])]
        compare_part(f"{what}, {part['target']} +{part['step']}", part, chosen, forecast, kind, heads)


def compare_part(what, reported, rows, forecast, kind, heads):
    for name, value in figures(rows, forecast, kind, heads).items():
        check(f"{what}, {name}", reported[name], value)
    each = of_quantiles(rows, quantiles_of(heads))[0]
    check(f"{what}, number of quantiles", len(reported.get("quantiles", [])), len(each))
    for found, expected in zip(reported.get("quantiles", []), each):
        for name, value in expected.items():
            check(f"{what}, quantile {expected['quantile']}, {name}", found[name], value)


def training_rows(table, targets, settings, kind, span):
    """What the naive mean is a mean of: the labels of the training part."""
    horizon, target = settings["window"]["horizon"], settings["target"]
    # Directions are not scaled.
    per_series = settings["scale"]["per"] == "series" and kind != "direction"
    if kind != "value":
        shape = (1, horizon, kind, target["dead_band"], target["delay"], 0)
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


def inverse(values, fit):
    return np.sign(values) * np.expm1(np.abs(values)) if fit.get("curve") == "log1p" else values


def fit_of(scaler, part, at, symbol):
    own = scaler.get("by_series", {}).get(symbol)
    return own[part][at] if own else scaler[part][at]


def scale_f32(values, fit):
    """As it stands in a batch: what is linear in the arithmetic of f32."""
    values = values.astype(np.float32)
    if fit.get("curve") == "log1p":
        scaled = (curve(values.astype(float), fit) - fit["offset"]) / fit["scale"]
        return scaled.astype(np.float32).astype(float)
    scaled = (values - np.float32(fit["offset"])) * np.float32(1 / fit["scale"])
    return scaled.astype(np.float32).astype(float)


def last_rows(table, rows, scaler):
    """The scaled inputs of the last row of each window, as the model sees them."""
    names = [entry["name"] for entry in scaler["features"]]
    scaled = []
    for symbol, series in table.groupby("symbol", sort=False):
        part = series[["symbol", "trade_date"]].copy()
        for at, name in enumerate(names):
            fit = fit_of(scaler, "features", at, symbol)
            part[f"input {at}"] = scale_f32(series[name], fit)
        scaled.append(part.fillna(0.0))
    keys = rows[["symbol", "time"]].rename(columns={"time": "trade_date"})
    found = keys.merge(pd.concat(scaled), on=["symbol", "trade_date"], how="left")
    return found[[f"input {at}" for at in range(len(names))]].to_numpy()


def ridge(table, training, rows, scaler):
    """Scaled forecasts of a ridge regression on the last row, by step and target; in closed form."""
    said = pd.Series(np.nan, index=rows.index)
    training = training.assign(outcome_scaled=scale(training, "outcome", scaler, scale_f32))
    for key, group in rows.groupby(["target", "step"]):
        learned = training[(training["target"] == key[0]) & (training["step"] == key[1])]
        x, y = last_rows(table, learned, scaler), learned["outcome_scaled"].to_numpy()
        mean, deviation = x.mean(axis=0), x.std(axis=0)
        vary = deviation > 0
        z = (x - mean)[:, vary] / deviation[vary]
        left = z.T @ z / len(z) + 1e-3 * np.eye(z.shape[1])
        weights = np.linalg.solve(left, z.T @ (y - y.mean()) / len(z))
        shown = (last_rows(table, group, scaler) - mean)[:, vary] / deviation[vary]
        said[group.index] = (shown @ weights + y.mean()).astype(np.float32)
    return said


def unscale(rows, column, scaler):
    out = pd.Series(np.nan, index=rows.index)
    names = [entry["name"] for entry in scaler["targets"]]
    for (target, symbol), group in rows.groupby(["target", "symbol"]):
        fit = fit_of(scaler, "targets", names.index(target), symbol)
        out[group.index] = inverse(group[column] * fit["scale"] + fit["offset"], fit)
    return out


def scale_f64(values, fit):
    return (curve(values, fit) - fit["offset"]) / fit["scale"]


def scale(rows, column, scaler, by=scale_f64):
    """Scaled values of a column, by the scaling of each target and series."""
    out = pd.Series(np.nan, index=rows.index)
    names = [entry["name"] for entry in scaler["targets"]]
    for (target, symbol), group in rows.groupby(["target", "symbol"]):
        fit = fit_of(scaler, "targets", names.index(target), symbol)
        out[group.index] = by(group[column], fit)
    return out


def main(run, source, test, validation):
    run = pathlib.Path(run)
    settings = tomllib.loads((run / "config.toml").read_text())
    report = json.loads((run / "report.json").read_text())
    scaler = json.loads((run / "checkpoints/best/scaler.json").read_text())
    schema = json.loads((run / "checkpoints/best/schema.json").read_text())
    heads = schema["model"].get("heads", "value")
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
    season = target["season"]
    training = windows(table, targets, *shape, season, spans[0])
    # Of each series every so many windows, from its first one on.
    place = training["row"] - training.groupby("symbol")["row"].transform("min")
    training = training[place % window["stride"] == 0]
    # All that is left of a last row in relation to itself is 0.
    regresses = settings["scale"]["reference"] != "last"
    counts = {}
    for part, span, path in [("validation", spans[1], validation), ("test", spans[2], test)]:
        rows = windows(table, targets, *shape, season, span)
        counts[part] = len(rows)
        said = forecasts_of(path, targets, suffix, heads)
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
            for column in map(quantile_column, quantiles_of(heads) or [0.5]):
                rows[column] -= rows["last"]
        zeros = rows.loc[rows["written"] == 0, "file_outcome"]
        if (zeros != 0).any():
            differences.append(f"{part}: an outcome of exactly 0 is written as {zeros.abs().max()}")

        rows["mean"] = means(rows, training_rows(table, targets, settings, kind, spans[0]))
        rows["naive"] = rows["last"].fillna(rows["mean"]) if kind == "value" else 0.0
        rows["season"] = rows["before"].fillna(rows["naive"])
        if regresses:
            rows["ridge_scaled"] = ridge(table, training, rows, scaler)
            rows["ridge"] = unscale(rows, "ridge_scaled", scaler)
        quantiles = [quantile_column(q) for q in quantiles_of(heads) if q != 0.5]
        for column in ["forecast", "outcome", "mean", "naive", "season", *quantiles]:
            rows[column + "_scaled"] = scale(rows, column, scaler)
        baseline = report["baseline" if part == "test" else "validation_baseline"]
        compare(part, report[part], rows, "forecast", kind, heads)
        compare(f"{part}, predict the mean", baseline["mean"], rows, "mean", kind)
        compare(f"{part}, predict the last", baseline["last"], rows, "naive", kind)
        if regresses:
            compare(f"{part}, ridge", baseline["ridge"], rows, "ridge", kind)
        elif baseline["ridge"] is not None:
            differences.append(f"{part}: a ridge regression, and there is nothing to regress on")
        if season:
            compare(f"{part}, a season before", baseline["season"], rows, "season", kind)
        elif baseline["season"] is not None:
            differences.append(f"{part}: a season before, and there are no seasons")
        if part == "validation":
            best = report["losses"][report["best_epoch"] - 1]["validation_loss"]
            metrics = report[part]
            if heads == "score":
                check("validation loss", best, -metrics["ic"])
            elif quantiles_of(heads):
                check("validation loss", best, metrics["pinball"])

    if kind == "direction":
        for entry in scaler["targets"]:
            check(f"scaler, offset of {entry['name']}", entry["offset"], 0.0)
            check(f"scaler, scale of {entry['name']}", entry["scale"], 1.0)
    elif settings["scale"]["per"] == "feature":
        training = training_rows(table, targets, settings, kind, spans[0])
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
