//! Settings drawn at random, valid and broken, over every key, in files, variables and flags: a run
//! ends well with finite figures, or with one line and a documented exit code. Never a panic, an
//! abort or a hang.
//!
//! The suite runs a few. `MILLSTREAM_TEST_SETTINGS=0..1000 cargo test --release -p millstream --test
//! settings random` runs those cases instead; each is the same on every machine. Sizes stay below
//! 4096: what asks for more memory than there is is not the subject here.

use crate::{
    every_key::{self, SMALL},
    keys,
    work_folder::{Ran, WorkFolder},
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

const IN_THE_SUITE: Range<u64> = 0..20;
const THREADS: usize = 2;

/// What may be drawn for a key; the first value is one that works by itself.
const VALUES: &[(&str, &[&str])] = &[
    ("source.kind", &[r#""csv""#, r#""generate""#, r#""parquet""#, r#""postgres""#]),
    ("source.path", &[r#""data.csv""#, r#""*.csv""#, r#""nope.csv""#, r#"".""#, r#""[""#]),
    ("source.url", &[r#""host=/nowhere""#, r#""postgres://""#, r#""?""#, r#""""#]),
    ("source.table", &[r#""t""#, r#""""#, r#""a.b.c""#]),
    ("source.query", &[r#""select 1""#, r#""""#]),
    ("source.where", &[r#""ret > 0""#]),
    ("source.series", &[r#""isin""#, r#""""#, r#""nope""#, r#""close""#, r#""trade_date""#]),
    ("source.time", &[r#""day""#, r#""""#, r#""nope""#, r#""symbol""#, r#""ret""#]),
    (
        "source.features",
        &[r#"["*"]"#, r#"["o*", "ret"]"#, r#"["symbol"]"#, r#"["nope"]"#, "[]", r#"["["]"#],
    ),
    (
        "source.symbols",
        &[r#"["S00", "S05", "S07"]"#, r#"["nope"]"#, r#"["S01", "S01"]"#, r#"[""]"#],
    ),
    ("source.symbols_required", &["true", "false"]),
    ("source.na", &[r#"["50.0000"]"#, r#"["", "n/a"]"#, "[]"]),
    ("source.from", &["2020-01-10", r#""x""#, "10", "2050-01-01", r#""""#]),
    ("source.to", &["2020-03-20", r#""x""#, "70", "1900-01-01", r#""""#]),
    ("source.connections", &["1", "256", "257"]),
    ("source.cache", &[r#""kept""#, r#""""#, r#""data.csv""#, r#""a/b/c""#]),
    ("source.generate.series", &["12", "1", "40"]),
    ("source.generate.rows", &["60", "1", "2", "200"]),
    ("source.generate.features", &["2", "1", "30"]),
    ("source.generate.missing", &["0.1", "1", "0", "-0.1", "2"]),
    ("source.generate.short", &["0.3", "1", "0", "-1", "1.5"]),
    ("source.generate.seed", &["3", "0", "9223372036854775807"]),
    (
        "target.columns",
        &[r#"["close"]"#, r#"["close", "ret"]"#, r#"["ret", "ret"]"#, r#"["symbol"]"#, "[]"],
    ),
    ("target.kind", &[r#""return""#, r#""direction""#, r#""difference""#, r#""value""#]),
    ("target.delay", &["1", "3", "0", "79", "4096"]),
    ("target.dead_band", &["0.01", "0", "1e9", "-1"]),
    ("target.cross_section", &[r#""rank""#, r#""zscore""#]),
    ("target.season", &["5", "1", "0", "79", "4096", "9223372036854775807"]),
    ("window.lookback", &["5", "1", "2", "79", "80", "4096"]),
    ("window.horizon", &["2", "5", "79", "4096"]),
    ("window.stride", &["3", "79", "4096"]),
    ("window.short", &[r#""pad""#, r#""skip""#]),
    ("window.pad", &[r#""right""#, r#""left""#]),
    ("window.min_rows", &["4", "8", "9", "4096"]),
    ("window.segment", &[r#""sector""#, r#""nope""#, r#""""#]),
    ("window.order", &[r#""shards""#, r#""none""#, r#""by_time""#, r#""global""#]),
    ("window.drop_last", &["true", "false"]),
    ("split.by", &[r#""series""#, r#""time""#]),
    ("split.train", &["0.5", "1", "0.01", "0", "-1", "2"]),
    ("split.train_end", &["2020-02-10", r#""x""#, "2030-01-01", "40"]),
    ("split.validation", &["0.3", "0", "1", "-1"]),
    ("split.validation_end", &["2020-03-15", r#""x""#, "2010-01-01", "60"]),
    ("split.test_end", &["2020-03-22", r#""x""#, "2010-01-01", "75"]),
    ("split.embargo", &["3", "20", "4096"]),
    ("split.folds", &["2", "5", "12", "4096"]),
    ("split.fold", &["2", "3", "4096"]),
    ("split.walk", &[r#""rolling""#, r#""expanding""#]),
    ("split.seed", &["1", "9223372036854775807"]),
    (
        "scale.method",
        &[r#""robust""#, r#""minmax""#, r#""rank_normal""#, r#""log1p""#, r#""none""#],
    ),
    ("scale.per", &[r#""series""#, r#""feature""#]),
    ("scale.missing", &[r#""ffill""#, r#""mask""#, r#""drop""#, r#""zero""#]),
    ("scale.clip", &["2", "1e-300", "1e300", "-1"]),
    ("scale.cross_section", &[r#""rank""#, r#""zscore""#]),
    ("scale.reference", &[r#""last""#, r#""first""#, r#""close""#, r#""nope""#, r#""""#]),
    ("scale.relative", &[r#""ratio""#, r#""difference""#]),
    (
        "scale.groups",
        &[
            r#"[{columns = ["o*"], clip = 1}]"#,
            r#"[{columns = ["close"], reference = "last", relative = "ratio"}]"#,
            r#"[{columns = ["volume"], method = "log1p", per = "series"}, {columns = ["*"]}]"#,
            r#"[{columns = ["nope"]}]"#,
            "[{}]",
            "[1]",
        ],
    ),
    ("prefetch.device", &[r#""cpu""#, r#""cuda:0""#, r#""gpu""#]),
    ("prefetch.residency", &[r#""ram""#]),
    ("prefetch.depth", &["1", "2", "16"]),
    (
        "train.model",
        &[
            r#""gru""#,
            r#""mlp""#,
            r#""nlinear""#,
            r#""dlinear""#,
            r#""transformer""#,
            r#""script""#,
            r#""oracle""#,
        ],
    ),
    ("train.epochs", &["2", "0"]),
    ("train.batch_size", &["32", "1000", "4096"]),
    ("train.learning_rate", &["0.01", "1e-300", "10", "1e30", "1e300", "0", "-1"]),
    ("train.schedule", &[r#""constant""#, r#""step""#, r#""one_cycle""#, r#""plateau""#]),
    ("train.warmup", &["3", "1000000", "9223372036854775807"]),
    ("train.step_epochs", &["2", "4096"]),
    ("train.patience", &["1", "4096"]),
    ("train.rate_factor", &["0.1", "1e-300", "1", "0", "-1"]),
    ("train.optimizer", &[r#""sgd""#, r#""adam""#, r#""adamw""#, r#""downhill""#]),
    ("train.weight_decay", &["0", "1", "1e30", "-1"]),
    ("train.decay_all", &["true", "false"]),
    ("train.momentum", &["0.5", "0", "0.999", "1", "-1"]),
    ("train.nesterov", &["true", "false"]),
    ("train.loss", &[r#""mae""#, r#""huber""#, r#""quantile""#, r#""bce""#, r#""ic""#]),
    ("train.quantiles", &["[0.25, 0.5]", "[0.5]", "[0.01, 0.5, 0.99]", "[0.9, 0.1]", "[]"]),
    ("train.clip_norm", &["0", "1e-30", "1e300", "-1"]),
    ("train.accumulate", &["2", "4096"]),
    ("train.precision", &[r#""bf16""#, r#""f16""#, r#""f32""#, r#""f8""#]),
    ("train.loss_scale", &["1024", "1e38", "1e-30", "0", "1e39", r#""none""#, r#""x""#]),
    ("train.nonfinite", &[r#""skip""#, r#""stop""#]),
    ("train.ema", &["0.9", "0.999999", "1", "-1"]),
    ("train.early_stop", &["1", "4096"]),
    ("train.seed", &["0", "9223372036854775807"]),
    ("train.log_every", &["1", "4096"]),
    ("train.histograms", &["true", "false"]),
    ("train.model_options.hidden", &["1", "7", "64"]),
    ("train.model_options.layers", &["2", "3"]),
    ("train.model_options.dropout", &["0.5", "0.999", "1", "-1"]),
    ("train.model_options.width", &["16", "4", "7"]),
    ("train.model_options.heads", &["2", "1", "3"]),
    ("train.model_options.feedforward", &["8", "1"]),
    ("train.model_options.segments", &["4", "5", "3", "0", "65536", "65537"]),
    ("train.model_options.checkpoint", &["true", "false"]),
    ("train.model_options.path", &[r#""nope.pt""#, r#""data.csv""#, r#"".""#, r#""""#]),
    ("train.model_options.checksum", &[r#""00""#, r#""""#]),
    ("train.model_options.activation", &[r#""relu""#, r#""tanh""#]),
    ("train.model_options.individual", &["true", "false"]),
    ("train.model_options.kernel", &["3", "1", "4", "79", "4097"]),
    ("run.dir", &[r#""elsewhere""#, r#""data.csv""#, r#""a/b""#]),
    ("run.threads", &["2", r#""auto""#, "0"]),
    ("run.normalize_threads", &["2", "1"]),
    ("run.train_threads", &["2", "1"]),
];

/// Values that hardly any key takes.
const ODD: &[&str] = &[
    "0",
    "-1",
    "1.5",
    "1e300",
    "-0.0",
    "nan",
    "inf",
    "true",
    r#""""#,
    r#""x""#,
    r#""ä\u0000""#,
    "[]",
    "[1]",
    "[[]]",
    "{}",
    "{ a = 1 }",
    "2020-02-30",
    "9223372036854775808",
    "",
];
/// Lines that no settings file has.
const ODD_LINES: &[&str] =
    &["[train]", "[train", "nope = 1", "[nope]", "= 3", "\u{feff}", "[[train]]", "[source.cache]"];
/// What `predict --from` may be given.
const FROM: &[&str] = &["2020-03-10", "1900-01-01", "2050-01-01", "60", "", "x"];
/// What may still end with exit code 1: it depends on the numbers, not on how they were given.
const OTHER_REASONS: &[&str] =
    &["the training loss is", "a gradient is not finite", "the validation loss is"];

/// One case: a settings file, variables and flags.
#[derive(Debug)]
struct Case {
    file: String,
    variables: Vec<(String, String)>,
    flags: Vec<String>,
    /// What `predict` is to begin with.
    from: Option<&'static str>,
}

struct Dice(ChaCha8Rng);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        (self.0.next_u64() % count as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// True once in so many times.
    fn once_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

impl Case {
    fn draw(seed: u64) -> Case {
        let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
        let mut file: toml::Table = SMALL.parse().unwrap();
        let (variables, flags) = (Vec::new(), Vec::new());
        let from = dice.once_in(3).then(|| dice.pick(FROM));
        let mut case = Case { file: String::new(), variables, flags, from };
        let mut odd_lines = String::new();
        for _ in 0..=dice.below(6) {
            let (key, values) = VALUES[dice.below(VALUES.len())];
            let value = match dice.below(12) {
                0 => dice.pick(ODD),
                1..=4 => dice.pick(values),
                _ => values[0],
            };
            // Most keys do something in company only, so they mostly get it.
            let company = if dice.once_in(6) { &[] } else { every_key::company(key) };
            for text in company {
                let (key, value) = text.split_once('=').unwrap();
                let plain = || toml::Value::String(value.to_owned());
                put(&mut file, key, value.parse().unwrap_or_else(|_| plain()));
            }
            match (dice.below(4), value.parse::<toml::Value>()) {
                (0, _) => case.flags.push(format!("{key}={value}")),
                (1, _) if !value.contains('\0') => {
                    let name = key.replace('.', "__").to_uppercase();
                    case.variables.push((format!("MILLSTREAM_{name}"), value.to_owned()));
                }
                (_, Ok(value)) => put(&mut file, key, value),
                (_, Err(_)) => writeln!(odd_lines, "{key} = {value}").unwrap(),
            }
        }
        if dice.once_in(20) {
            writeln!(odd_lines, "{}", dice.pick(ODD_LINES)).unwrap();
        }
        case.file = file.to_string() + &odd_lines;
        if dice.once_in(30) {
            let kept = dice.below(case.file.len());
            case.file = case.file.chars().take(kept).collect();
            // What is cut off may have been what kept the data small.
            for (name, value) in [("SERIES", "24"), ("ROWS", "80")] {
                let name = format!("MILLSTREAM_SOURCE__GENERATE__{name}");
                case.variables.push((name, value.to_owned()));
            }
        }
        case
    }

    fn args(&self, command: &[&str]) -> Vec<String> {
        let flags = self.flags.iter().flat_map(|flag| ["--set", flag]);
        command.iter().copied().chain(flags).map(str::to_owned).collect()
    }

    /// Trains, and forecasts if that went well; says what went wrong, or how it ended.
    fn run(&self) -> Result<Vec<String>, String> {
        let work = WorkFolder::new(&self.file);
        let variables: Vec<(&str, &str)> =
            self.variables.iter().map(|(name, value)| (&**name, &**value)).collect();
        let run = |args: &[String]| {
            let ran = work.run_with(args, &variables)?;
            let end = ending(&ran).map_err(|why| format!("{why}\n{args:?}\n{}", ran.stderr))?;
            Ok::<_, String>((ran, end))
        };
        let (trained, end) = run(&self.args(&["train", "--json"]))?;
        let mut ends = vec![end];
        if trained.code == Some(0) {
            finite_figures(&trained.stdout)?;
            let output = ["predict", "--json", "--output", "out.csv"];
            let from = self.from.map(|time| ["--from", time]).into_iter().flatten();
            let args: Vec<String> = output.into_iter().chain(from).map(str::to_owned).collect();
            let (predicted, end) = run(&args)?;
            if predicted.code == Some(0) {
                finite_forecasts(&std::fs::read_to_string(work.path().join("out.csv")).unwrap())?;
            }
            ends.push(end);
        }
        Ok(ends)
    }
}

pub(crate) fn put(file: &mut toml::Table, key: &str, value: toml::Value) {
    let (sections, name) = key.rsplit_once('.').unwrap();
    let section = sections.split('.').fold(file, |table, section| {
        let empty = || toml::Value::Table(toml::Table::new());
        table.entry(section).or_insert_with(empty).as_table_mut().unwrap()
    });
    section.insert(name.to_owned(), value);
}

/// How it ended, when that is documented.
fn ending(ran: &Ran) -> Result<String, String> {
    if ran.stderr.contains("panicked") {
        return Err("panic".to_owned());
    }
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    match (ran.code, &errors[..]) {
        (Some(0), []) => Ok("0".to_owned()),
        (Some(code @ 2..=5), [line]) => Ok(format!("{code} {line}")),
        (Some(1), [line]) if OTHER_REASONS.iter().any(|reason| line.contains(reason)) => {
            Ok(format!("1 {line}"))
        }
        (code, errors) => Err(format!("exit code {code:?} with {} lines of error", errors.len())),
    }
}

fn finite_figures(stdout: &str) -> Result<(), String> {
    let result: Value = serde_json::from_str(stdout.lines().last().unwrap_or_default())
        .map_err(|error| format!("{error}: {stdout}"))?;
    // JSON has no other numbers than finite ones; what is none is null, and some may be.
    let finite = |value: &Value| value.as_f64().is_some();
    if !finite(&result["train_loss"]) {
        return Err(format!("no train_loss in {result}"));
    }
    for part in ["validation", "test"] {
        let metrics = &result[part];
        // Of scores (loss "ic") there are no errors.
        let scores = result["train_loss"].as_f64().is_some_and(|loss| (-1.0..=0.0).contains(&loss))
            && metrics["mse"].is_null()
            && metrics["mae"].is_null();
        let bad = !scores && (!finite(&metrics["mse"]) || !finite(&metrics["mae"]));
        if metrics.is_object() && bad {
            return Err(format!("no figures of {part} in {result}"));
        }
    }
    Ok(())
}

/// How columns end that a model says.
const IS_SAID: [&str; 2] = ["_forecast", "_score"];

fn finite_forecasts(csv: &str) -> Result<(), String> {
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let forecasts: Vec<usize> =
        (0..header.len()).filter(|&i| IS_SAID.iter().any(|end| header[i].ends_with(end))).collect();
    if forecasts.is_empty() {
        return Err(format!("no forecasts among {header:?}"));
    }
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        for &i in &forecasts {
            if !fields[i].parse::<f64>().is_ok_and(f64::is_finite) {
                return Err(format!("a forecast that is no number: {line}"));
            }
        }
    }
    Ok(())
}

fn wanted() -> Range<u64> {
    let Ok(text) = std::env::var("MILLSTREAM_TEST_SETTINGS") else { return IN_THE_SUITE };
    let (first, last) = text.split_once("..").expect("MILLSTREAM_TEST_SETTINGS is like 0..1000");
    first.parse().unwrap()..last.parse().unwrap()
}

#[test]
fn random_settings_end_well_or_in_one_line() {
    let (wanted, next) = (wanted(), AtomicU64::new(0));
    let worker = || {
        let mut failures = Vec::new();
        loop {
            let seed = wanted.start + next.fetch_add(1, Ordering::Relaxed);
            if seed >= wanted.end {
                return failures;
            }
            let case = Case::draw(seed);
            match case.run() {
                Ok(ends) => println!("{seed}: {}", ends.join(" | ")),
                Err(why) => {
                    println!("{seed}: FAILED {why}");
                    let Case { file, variables, flags, from } = case;
                    let given = format!("{variables:?} {flags:?} {from:?}\n{file}");
                    failures.push(format!("case {seed}: {why}\n{given}"));
                }
            }
        }
    };
    let failures: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn every_key_can_be_drawn() {
    let drawn: Vec<_> = VALUES.iter().map(|(key, _)| *key).collect();
    let missing: Vec<_> = keys::all().into_iter().filter(|key| !drawn.contains(&&**key)).collect();
    assert!(missing.is_empty(), "add a line to VALUES for each of {missing:?}");
}
