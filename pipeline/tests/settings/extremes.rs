//! Every key at its extremes: numbers up to 2^64 - 1, texts that are empty, a megabyte long, with a
//! NUL or no text at all. A run works, or ends with one readable line and a documented exit code,
//! and allocates nothing that could not be had: it runs within six gigabytes of address space.
//!
//! The suite tries two values of each key; `MILLSTREAM_TEST_EXTREMES=all` all of them.

use crate::{
    every_key::{self, SMALL},
    keys,
    random::put,
    work_folder::{Ran, WorkFolder},
};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use toml::Value;

const THREADS: usize = 2;

const NUMBERS: &[&str] = &[
    "9223372036854775807",
    "1000000000",
    "1000000",
    "0",
    "1",
    "2147483648",
    "4294967296",
    "18446744073709551615",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Texts,
}

#[derive(Debug, Clone, Copy)]
enum Extreme {
    Number(&'static str),
    Empty,
    Long,
    Nul,
    NotText,
}

/// What a key takes, by its default; `None` for shares and flags.
fn kind(key: &str) -> Option<Kind> {
    // The options of models stand there as remarks.
    let file = include_str!("../../../pipeline.toml");
    let (before, options) = file.split_once("[train.model_options]").unwrap();
    let (options, after) = options.split_once("\n\n").unwrap();
    let options = options.replace("\n# ", "\n");
    let file: toml::Table =
        format!("{before}[train.model_options]{options}\n\n{after}").parse().unwrap();
    let mut path = key.split('.');
    let first = file.get(path.next().unwrap());
    match path.try_fold(first?, |value, name| value.get(name)) {
        Some(Value::Integer(_)) => Some(Kind::Number),
        Some(Value::String(_)) if key.ends_with("threads") => Some(Kind::Number),
        // Those without a default are all texts.
        Some(Value::String(_)) | None => Some(Kind::Text),
        Some(Value::Array(_)) if key != "scale.groups" => Some(Kind::Texts),
        _ => None,
    }
}

fn cases() -> Vec<(String, Kind, Extreme)> {
    let all = std::env::var_os("MILLSTREAM_TEST_EXTREMES").is_some_and(|value| value == "all");
    let mut cases = Vec::new();
    for (number, key) in keys::all().into_iter().enumerate() {
        let Some(kind) = kind(&key) else { continue };
        let extremes: Vec<Extreme> = match kind {
            Kind::Number => NUMBERS.iter().map(|number| Extreme::Number(number)).collect(),
            _ => vec![Extreme::Empty, Extreme::Long, Extreme::Nul, Extreme::NotText],
        };
        let chosen = extremes.iter().enumerate().filter(|(i, _)| {
            // Of numbers the largest and a large one, of texts two in turn.
            all || if kind == Kind::Number { *i < 2 } else { (i + number) % 2 == 0 }
        });
        cases.extend(chosen.map(|(_, extreme)| (key.clone(), kind, *extreme)));
    }
    cases
}

fn run(key: &str, kind: Kind, extreme: Extreme) -> Result<Ran, String> {
    let mut file: toml::Table = SMALL.parse().unwrap();
    for text in every_key::company(key) {
        let (key, value) = text.split_once('=').unwrap();
        let plain = || Value::String(value.to_owned());
        put(&mut file, key, value.parse().unwrap_or_else(|_| plain()));
    }
    if key.starts_with("source.generate") {
        put(&mut file, "source.kind", Value::String("generate".to_owned()));
    }
    let mut args = vec!["train".to_owned()];
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    let mut text = |text: String| {
        let value = Value::String(text);
        let value = if kind == Kind::Texts { Value::Array(vec![value]) } else { value };
        put(&mut file, key, value);
    };
    match extreme {
        Extreme::Number(number) => args.extend(["--set".to_owned(), format!("{key}={number}")]),
        Extreme::Empty => text(String::new()),
        Extreme::Long => text("ab".repeat(1 << 19)),
        Extreme::Nul => text("a\0b".to_owned()),
        Extreme::NotText => {
            let name = format!("MILLSTREAM_{}", key.replace('.', "__").to_uppercase());
            variables.push((name.into(), OsString::from_vec(b"a\xffb".to_vec())));
        }
    }
    let work = WorkFolder::new(&file.to_string());
    work.run_patiently(&args, &variables)
}

/// What is wrong with how it ended, if anything.
fn judge(ran: &Ran) -> Result<(), String> {
    if ["panicked", "a defect of millstream"].iter().any(|words| ran.stderr.contains(words)) {
        return Err("panic".to_owned());
    }
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    match (ran.code, &errors[..]) {
        (Some(0), []) => Ok(()),
        // Stopped by the test while it did what was asked.
        (Some(5), errors) if errors.len() < 2 => Ok(()),
        (Some(1..=4), [line]) if line.chars().count() < 2500 => Ok(()),
        (code, errors) => Err(format!("exit code {code:?} with {} lines of error", errors.len())),
    }
}

#[test]
fn extremes_work_or_are_refused_in_one_line() {
    let (cases, next, failures) = (cases(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        while let Some((key, kind, extreme)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ran = run(key, *kind, *extreme);
            let wrong = ran.and_then(|ran| {
                let first = ran.stderr.lines().find(|line| line.starts_with("error: "));
                let first: String = first.unwrap_or_default().chars().take(200).collect();
                println!("{key} {extreme:?}: {:?} {first}", ran.code);
                let said: String = ran.stderr.chars().take(600).collect();
                judge(&ran).map_err(|why| format!("{why}: {said}"))
            });
            if let Err(why) = wrong {
                println!("{key} {extreme:?}: FAILED {why}");
                failures.lock().unwrap().push(format!("{key} {extreme:?}: {why}"));
            }
        }
    };
    thread::scope(|scope| {
        (0..THREADS).for_each(|_| drop(scope.spawn(worker)));
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn what_is_too_large_is_refused_with_what_would_fit() {
    let check = |set: &[&str], code: i32, expected: &[&str]| {
        let work = WorkFolder::new(SMALL);
        let set = set.iter().flat_map(|text| ["--set".to_owned(), (*text).to_owned()]);
        let args: Vec<String> = std::iter::once("train".to_owned()).chain(set).collect();
        let ran = work.run_patiently(&args, &[]).unwrap();
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        let line = ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        for part in expected {
            assert!(line.contains(part), "{args:?}: {line}");
        }
        assert!(!work.path().join("runs").exists(), "{args:?} left a run behind");
    };
    check(
        &["train.batch_size=1000000000"],
        2,
        &["train.batch_size = 1000000000", "are free", "set train.batch_size to "],
    );
    check(
        &["window.short=pad", "window.lookback=1000000000"],
        2,
        &["window.lookback = 1000000000", "set window.lookback and window.horizon to "],
    );
    check(
        &["window.short=pad", "window.lookback=9223372036854775807"],
        2,
        &["window.lookback = 9223372036854775807", "set window.lookback and window.horizon to "],
    );
    check(&["prefetch.depth=1000000"], 2, &["prefetch.depth = 1000000", "at most 1024"]);
    check(&["run.threads=1000000"], 2, &["run.threads = 1000000", "at most 1024"]);
    check(&["run.train_threads=1000000000"], 2, &["run.train_threads", "at most 1024"]);
    check(&["split.embargo=9223372036854775807"], 2, &["split.embargo", "set it to "]);
    check(
        &[
            "window.horizon=9223372036854775807",
            "target.kind=return",
            r#"target.columns=["close"]"#,
        ],
        3,
        &["window.horizon 9223372036854775807", "the longest has 80"],
    );
}
