"""Writes tables of forecasts and what pandas, scipy and scikit-learn find of them.

    fixtures.py FOLDER

Every case is a folder: forecasts.csv or .parquet, history.csv where there is one, and case.json with how to
ask and what to find. Nothing of millstream is used; its test holds its figures against these to 1e-9.
"""

import json
import pathlib
import sys

import numpy as np
import pandas as pd
from scipy import integrate, stats
from sklearn import metrics

KEYS = ["series", "time", "step", "fold", "target"]


def number(value):
    return None if value is None or not np.isfinite(value) else float(value)


def mean_std(values):
    """Mean and sample deviation, and their ratio where there is a deviation."""
    if len(values) == 0:
        return None, None, None
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    ratio = np.mean(values) / std if std is not None and std > 1e-12 else None
    return float(np.mean(values)), std, number(ratio)


def correlations(rows):
    """Mean, deviation and ratio over times, of Pearson's and Spearman's: the mean of targets and steps."""
    found = {"ic": [], "rank_ic": []}
    for _, of_step in rows.groupby(["target", "step"]):
        each = {"ic": [], "rank_ic": []}
        for _, one in of_step.groupby(["fold", "time"]):
            if len(one) < 3 or one["forecast"].nunique() < 2 or one["outcome"].nunique() < 2:
                continue
            each["ic"].append(stats.pearsonr(one["forecast"], one["outcome"]).statistic)
            each["rank_ic"].append(stats.spearmanr(one["forecast"], one["outcome"]).statistic)
        for name, values in each.items():
            found[name].append(mean_std(values))
    out = {}
    for name, parts in found.items():
        ratio = {"ic": "icir", "rank_ic": "rank_icir"}[name]
        for at, figure in enumerate([name, name + "_std", ratio]):
            defined = [part[at] for part in parts if part[at] is not None]
            out[figure] = float(np.mean(defined)) if defined else None
    return out


def directions(rows):
    said = np.sign(rows["forecast"] - rows["last"])
    came = np.sign(rows["outcome"] - rows["last"])
    both = (said != 0) & (came != 0) & rows["last"].notna()
    said, came = said[both], came[both]
    accuracy = float((said == came).mean()) if came.nunique() == 2 else None
    defined = came.nunique() == 2 and said.nunique() == 2
    return accuracy, float(metrics.matthews_corrcoef(came, said)) if defined else None


def crps(rows, quantiles):
    """Twice the integral of the pinball loss, which is that of the nearest quantile."""
    if len(quantiles) < 2:
        return None
    levels = sorted(quantiles)
    middles = [0.0, *((a + b) / 2 for a, b in zip(levels, levels[1:])), 1.0]
    losses = [
        metrics.mean_pinball_loss(rows["outcome"], rows[quantiles[level]], alpha=level)
        for level in levels
    ]
    steps = np.repeat(losses, 2)
    at = [edge for pair in zip(middles, middles[1:]) for edge in pair]
    return 2 * float(integrate.trapezoid(steps, at))


def figures(rows, quantiles=None, intervals=None, correlate=True):
    quantiles, intervals = quantiles or {}, intervals or {}
    rows = rows[rows["outcome"].notna() & rows["forecast"].notna()]
    out = {"count": len(rows)}
    if correlate:
        out |= correlations(rows)
    if not len(rows):
        return out
    forecast, outcome = rows["forecast"], rows["outcome"]
    error = (forecast - outcome).abs()
    out["mse"] = metrics.mean_squared_error(outcome, forecast)
    out["mae"] = metrics.mean_absolute_error(outcome, forecast)
    out["rmse"] = metrics.root_mean_squared_error(outcome, forecast)
    some = outcome != 0
    out["mape"] = (
        metrics.mean_absolute_percentage_error(outcome[some], forecast[some]) if some.any() else None
    )
    out["smape"] = float((2 * error / (forecast.abs() + outcome.abs())).fillna(0.0).mean())
    scaled = rows["scale"] > 0
    out["mase"] = float((error / rows["scale"])[scaled].mean()) if scaled.any() else None
    out["directional_accuracy"], out["mcc"] = directions(rows)
    if quantiles:
        each = []
        for level, column in sorted(quantiles.items()):
            loss = metrics.mean_pinball_loss(outcome, rows[column], alpha=level)
            below = float((outcome <= rows[column]).mean())
            each.append({"quantile": level, "pinball": loss, "coverage": below})
        out["quantiles"] = each
        out["pinball"] = float(np.mean([one["pinball"] for one in each]))
        out["crps"] = crps(rows, quantiles)
        lowest, highest = rows[quantiles[min(quantiles)]], rows[quantiles[max(quantiles)]]
        ends = outcome.between(lowest, highest)
        out["coverage"] = float(ends.mean()) if len(quantiles) > 1 else None
    if intervals:
        out["intervals"] = []
        for level, (lower, upper) in sorted(intervals.items()):
            there = rows[rows[lower].notna() & rows[upper].notna()]
            out["intervals"].append({
                "level": level,
                "coverage": float(there["outcome"].between(there[lower], there[upper]).mean()),
                "mean_width": float((there[upper] - there[lower]).mean()),
            })
    return out


def sequences(rows, history, change):
    """What is known of each series (of a change, of each step of it) when: a series by time."""
    known = {}
    keys = ["target", "series", "step"] if change else ["target", "series"]
    for key, group in rows.groupby(keys):
        values = group.dropna(subset=["target_time"]).sort_values("outcome")
        values = values.drop_duplicates("target_time").set_index("target_time")["outcome"]
        if history is not None and (not change or key[2] == 1):
            past = history[history["series"] == key[1]].set_index("time")[key[0]]
            values = values.combine_first(past)
        known[key] = values.sort_index()
    return known


def add_references(rows, history, change, season):
    """The last value, the scale of mase and the naive forecasts of every row."""
    known = sequences(rows, history, change)
    lag = season or 1
    scales = {}
    for key, values in known.items():
        scales[key] = values.diff(lag).abs().mean()
    if history is not None:
        first = rows.groupby("series")["time"].min()
        for key in known:
            past = history[history["series"] == key[1]].set_index("time").sort_index()[key[0]]
            scales[key] = past[past.index <= first[key[1]]].diff(lag).abs().mean()
    last, mean, before, scale = [], [], [], []
    for row in rows.itertuples():
        key = (row.target, row.series, row.step) if change else (row.target, row.series)
        values = known[key]
        past = values[values.index <= row.time]
        mean.append(past.mean())
        scale.append(scales[key])
        if change:
            last.append(0.0)
        else:
            there = len(past) and past.index[-1] == row.time
            last.append(past.ffill().iloc[-1] if there else np.nan)
        found = np.nan
        if season and row.target_time in values.index:
            at, until = values.index.get_loc(row.target_time), len(past) - 1
            while at > until and at >= 0:
                at -= season
            if until >= 0 and 0 <= at:
                found = values.iloc[at]
        before.append(found)
    rows["last"], rows["scale"] = last, scale
    rows["mean"], rows["before"] = mean, before
    return rows


def deciles(rows):
    rows = rows[rows["outcome"].notna()].copy()
    found = []
    for target, of_target in rows.groupby("target", sort=False):
        times = []
        for _, one in of_target.groupby(["step", "fold", "time"]):
            if len(one) < 10:
                continue
            one = one.assign(outcome=one.groupby("forecast")["outcome"].transform("mean"))
            place = one["forecast"].rank(method="first") - 1
            tenth = np.floor(place * 10 / len(one)).astype(int)
            times.append(one.groupby(tenth)["outcome"].mean())
        if times:
            mean = pd.concat(times).groupby(level=0).mean()
            found += [{"target": target, "decile": int(d) + 1, "mean_outcome": v} for d, v in mean.items()]
    return found


def case(folder, name, table, rows, ask, history=None, quantiles=None, intervals=None, parquet=False):
    """`table` is what is written, `rows` the same with a row for every target."""
    place = folder / name
    place.mkdir(parents=True)
    change, season = ask["direction"] == "sign", ask.get("season")
    rows = add_references(rows.reset_index(drop=True), history, change, season)
    said = {"overall": figures(rows, quantiles, intervals)}
    by = {"step": "step", "target": "target", "series": "series", "fold": "fold"}
    said["by"] = {}
    for grouping in ask["by"]:
        if grouping == "decile":
            said["deciles"] = deciles(rows)
            continue
        times = pd.to_datetime(rows["time"])
        formats = {"day": "%Y-%m-%d", "month": "%Y-%m"}
        keys = rows[by[grouping]] if grouping in by else times.dt.strftime(formats[grouping])
        groups = {}
        for key, group in rows.groupby(keys):
            correlate = grouping != "series"
            groups[str(key)] = figures(group, quantiles, intervals, correlate)
        said["by"][grouping] = groups
    said["naive"] = {}
    naive = {"last": "last", "mean": "mean"} | ({"season": "before"} if season else {})
    for who, column in naive.items():
        theirs = rows.assign(forecast=rows[column])
        found = figures(theirs)
        judged = rows[rows["outcome"].notna()]
        said["naive"][who] = {"unknown": int(judged[column].isna().sum()), "figures": found}
    if "fold" in ask["by"]:
        each = pd.DataFrame(said["by"]["fold"]).T
        plain = [name for name in each.columns if name not in ("count", "quantiles", "intervals")]
        each = each[plain].astype(float)
        said["folds"] = {
            "mean": {name: number(each[name].mean()) for name in plain},
            "std": {name: number(each[name].std(ddof=1)) for name in plain},
        }
    if parquet:
        table.to_parquet(place / "forecasts.parquet", index=False)
    else:
        table.to_csv(place / "forecasts.csv", index=False)
    if history is not None:
        history.rename(columns={"series": "symbol", "time": "date"}).to_csv(
            place / "history.csv", index=False)
    (place / "case.json").write_text(json.dumps({"ask": ask, "expected": said}, default=number))


def peers_rows(table):
    """The rows of a table of date, symbol, prediction and actual."""
    return pd.DataFrame({
        "series": table["symbol"],
        "time": table["date"],
        "step": 1,
        "target_time": pd.NA,
        "fold": 0,
        "target": "actual",
        "forecast": table["prediction"].astype(float),
        "outcome": table["actual"].astype(float),
    })


def random_table(random, series, days, start="2024-01-15"):
    dates = pd.date_range(start, periods=days).strftime("%Y-%m-%d")
    index = pd.MultiIndex.from_product([dates, [f"{n:06}" for n in range(series)]])
    actual = random.normal(size=len(index))
    prediction = 0.3 * actual + random.normal(size=len(index))
    return pd.DataFrame({
        "date": index.get_level_values(0),
        "symbol": index.get_level_values(1),
        "prediction": prediction,
        "actual": actual,
    })


def single(values):
    """What a table of millstream holds: numbers of 32 bits."""
    return np.asarray(values).astype(np.float32).astype(float)


def level_rows(random, series, days, horizon, targets, missing=0.0):
    """Forecasts of random walks as millstream writes them, `horizon` steps ahead, with the walks."""
    times = pd.date_range("2023-12-20", periods=days).strftime("%Y-%m-%d")
    walks = {
        (name, target): single(100 + 10 * number + np.cumsum(random.normal(size=days)))
        for number, name in enumerate(f"s{n}" for n in range(series))
        for target in targets
    }
    for walk in walks.values():
        walk[random.random(days) < missing] = np.nan
    rows = []
    for (name, target), walk in walks.items():
        for at in range(days // 3, days):
            for step in range(1, horizon + 1):
                ahead = at + step
                base = pd.Series(walk[: at + 1]).ffill().fillna(100.0).iloc[-1]
                rows.append({
                    "series": name,
                    "time": times[at],
                    "step": step,
                    "target_time": times[ahead] if ahead < days else None,
                    "fold": 0,
                    "target": target,
                    "forecast": np.float32(base + random.normal(scale=0.8)),
                    "outcome": walk[ahead] if ahead < days else np.nan,
                })
    history = pd.DataFrame({
        "series": np.repeat([f"s{n}" for n in range(series)], days),
        "time": np.tile(times, series),
        **{t: np.concatenate([walks[(f"s{n}", t)] for n in range(series)]) for t in targets},
    })
    return pd.DataFrame(rows).astype({"forecast": float}), history


def wide(rows, extra=()):
    """A row for every series, time and step, as millstream writes them."""
    keys = ["series", "time", "step", "target_time", "fold"]
    parts = []
    for target, group in rows.groupby("target", sort=False):
        names = {"forecast": f"{target}_forecast", "outcome": target}
        names |= {column: f"{target}_{column}" for column in extra}
        parts.append(group[keys + list(names)].rename(columns=names).set_index(keys))
    table = pd.concat(parts, axis=1).reset_index()
    return table.rename(columns={"series": "symbol", "time": "date"})


def with_spread(rows, random):
    """Quantiles and an interval around the forecasts, of which some rows have none."""
    width = np.abs(random.normal(size=len(rows))) + 0.1
    rows["q0.05"] = rows["forecast"] - 1.6 * width
    rows["q0.3"] = rows["forecast"] - 0.5 * width
    rows["q0.9"] = rows["forecast"] + 1.3 * width
    rows["lower_0.8"] = rows["forecast"] - 1.2 * width
    rows["upper_0.8"] = rows["forecast"] + 1.1 * width
    rows.loc[rows.index[::17], ["lower_0.8", "upper_0.8"]] = np.nan
    return ["q0.05", "q0.3", "q0.9", "lower_0.8", "upper_0.8"]


def main(folder):
    folder = pathlib.Path(folder)
    random = np.random.default_rng(17)
    every = ["day", "month", "series", "decile"]
    ask = {"direction": "sign", "by": every}

    table = random_table(random, 30, 40)
    case(folder, "random", table, peers_rows(table), ask)

    table = random_table(random, 25, 20)
    table[["prediction", "actual"]] = table[["prediction", "actual"]].round()
    table.loc[random.random(len(table)) < 0.1, "actual"] = np.nan
    case(folder, "ties_zeros_and_missing_outcomes", table, peers_rows(table), ask)

    table = random_table(random, 1, 60)
    case(folder, "a_single_series", table, peers_rows(table), ask)

    table = random_table(random, 12, 10)
    table.loc[table["date"] < "2024-01-20", "prediction"] = 0.25
    case(folder, "some_constant_forecasts", table, peers_rows(table), ask)
    table["prediction"] = -0.1
    case(folder, "constant_forecasts", table, peers_rows(table), ask)

    table = random_table(random, 8, 12)
    table["actual"] = 0.0
    case(folder, "only_zeros", table, peers_rows(table), ask, parquet=True)

    ask = {"direction": "change", "season": 5, "by": ["step", "target", "month", "series", "decile"]}
    rows, history = level_rows(random, 11, 60, 3, ["close", "volume"], missing=0.04)
    case(folder, "levels_of_several_targets_and_steps", wide(rows).drop(columns="fold"), rows, ask)
    case(folder, "levels_with_their_history", wide(rows).drop(columns="fold"), rows, ask, history,
         parquet=True)

    rows, _ = level_rows(random, 6, 50, 2, ["y"])
    extra = with_spread(rows, random)
    quantiles = {0.05: "q0.05", 0.3: "q0.3", 0.5: "forecast", 0.9: "q0.9"}
    intervals = {0.8: ("lower_0.8", "upper_0.8")}
    ask = {"direction": "change", "by": ["step", "day"]}
    case(folder, "quantiles_and_intervals", wide(rows, extra).drop(columns="fold"), rows, ask,
         quantiles=quantiles, intervals=intervals, parquet=True)

    rows, _ = level_rows(random, 14, 80, 2, ["close_return"])
    for column in ("forecast", "outcome"):
        rows[column] = single((rows[column] - 150) / 100)
    rows["fold"] = pd.qcut(rows["time"].rank(method="dense"), 4, labels=False) + 1
    ask = {"direction": "sign", "season": 3, "by": ["fold", "step", "decile"]}
    case(folder, "folds_of_returns", wide(rows), rows, ask, parquet=True)


main(*sys.argv[1:])
