//! `millstream evaluate`: how good a file of forecasts is.

use crate::{
    cli::{DirectionOf, EvaluateArgs},
    display::Display,
    evaluation_table,
    messages::{print_json, print_while_read},
};
use millstream::{
    Error, Evaluating,
    evaluate::{ColumnNames, Direction, Grouping},
};

/// Judges forecasts as the flags say.
pub(crate) fn evaluate(args: &EvaluateArgs) -> Result<(), Error> {
    let mut evaluating = Evaluating::of(&args.forecasts);
    if let Some(path) = &args.history {
        evaluating = evaluating.history(path);
    }
    if let Some(path) = &args.output {
        evaluating = evaluating.output(path);
    }
    let columns = &args.columns;
    evaluating.columns = ColumnNames {
        series: columns.series.clone(),
        time: columns.time.clone(),
        target_time: columns.target_time.clone(),
        step: columns.step.clone(),
        fold: columns.fold.clone(),
        forecast: columns.forecast.clone(),
        actual: columns.actual.clone(),
    };
    if !args.by.is_empty() {
        evaluating.settings.by.clone_from(&args.by);
    }
    evaluating.settings.season = args.season;
    evaluating.settings.partial = args.partial;
    evaluating.settings.direction = args.direction.map(|direction| match direction {
        DirectionOf::Sign => Direction::Sign,
        DirectionOf::Change => Direction::Change,
    });
    let found = evaluating.evaluate()?;
    if args.json {
        return print_json(&found);
    }
    let display = Display::new(false);
    found.warnings.iter().for_each(|warning| display.warn(warning));
    print_while_read(&evaluation_table::table(&found))?;
    if let Some(path) = &args.output {
        display.say(&format!("all figures are in {}", path.display()));
    }
    Ok(())
}

/// A grouping, as `--by` takes it.
pub(crate) fn grouping(text: &str) -> Result<Grouping, String> {
    text.parse()
}
