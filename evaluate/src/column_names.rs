//! What columns of forecasts are called, by us and by others. Small letters; capitals are the same.

use crate::columns::Role;

/// How ours end, behind the name of the target.
pub(crate) const OUR_FORECASTS: [&str; 2] = ["_forecast", "_score"];

/// How the columns go on that stand beside one of those.
pub(crate) const OUR_COLUMNS: [&str; 3] = ["_q", "_lower_", "_upper_"];

/// Columns beside forecasts of ours in a database.
pub(crate) const BESIDE_OURS: [&str; 3] = ["model", "run", "created_at"];

/// When a forecast was made, where a plain time is the one that is forecast.
pub(crate) const CUTOFF: &str = "cutoff";

/// What such a column is called.
pub(crate) fn known(role: Role) -> &'static [&'static str] {
    match role {
        Role::Series => &[
            "series",
            "symbol",
            "ticker",
            "instrument",
            "unique_id",
            "item_id",
            "series_id",
            "id",
            "code",
            "stock",
            "asset",
            "entity",
            "ts_code",
        ],
        Role::Time => {
            &["time", "date", "datetime", "timestamp", "ds", "day", "trade_date", "forecast_time"]
        }
        Role::TargetTime => &["target_time", "target_date"],
        Role::Step => &["step", "horizon", "h", "steps_ahead"],
        Role::Fold => &["fold"],
        Role::Forecast => &[
            "forecast",
            "prediction",
            "predictions",
            "pred",
            "predicted",
            "y_pred",
            "yhat",
            "y_hat",
            "score",
        ],
        Role::Actual => &[
            "actual", "actuals", "y_true", "y", "label", "target", "truth", "outcome", "realized",
            "realised",
        ],
    }
}

/// Whether a name goes on like this behind that of a target or a forecast, if it is of a quantile or a bound.
pub(crate) fn is_part(rest: &str) -> bool {
    let after = |start: &str, more: fn(char) -> bool| {
        rest.strip_prefix(start).is_some_and(|rest| rest.chars().next().is_none_or(more))
    };
    let of_level = |c: char| c.is_ascii_digit() || matches!(c, '_' | '-' | '.');
    rest.strip_prefix("_q").and_then(|rest| rest.chars().next()).is_some_and(of_level)
        || ["_lower", "_upper", "_lo", "_hi", "-lo", "-hi"]
            .iter()
            .any(|start| after(start, of_level))
}

/// Whether a forecast of this name is a score, which has no unit.
pub(crate) fn is_score(name: &str) -> bool {
    name.eq_ignore_ascii_case("score") || name.ends_with("_score")
}

/// Whether a target of this name is a change and no level, so that its own sign is its direction.
pub(crate) fn is_change(name: &str) -> bool {
    let name = name.to_lowercase();
    let ranked = ["_rank", "_zscore"].iter().find_map(|ending| name.strip_suffix(*ending));
    let name = ranked.unwrap_or(&name);
    ["return", "returns", "direction"].iter().any(|word| {
        name.strip_suffix(word).is_some_and(|before| before.is_empty() || before.ends_with('_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_and_directions_are_changes() {
        for name in [
            "close_return",
            "close_direction",
            "close_return_rank",
            "return",
            "Returns",
            "y_return_zscore",
        ] {
            assert!(is_change(name), "{name}");
        }
        for name in ["close", "close_rank", "turn", "saturn_returned", "close_zscore"] {
            assert!(!is_change(name), "{name}");
        }
    }
}
