//! Rounds: every method once, then every method once again.
//!
//! What the machine does besides changes over minutes, so methods that are compared must take
//! turns. The first round warms the caches and is not counted.

use crate::{
    Failure,
    method::{Method, Reader},
    peers,
    sample::{Content, Sample},
};
use std::{
    env,
    fmt::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// What became of a method.
pub(crate) struct Outcome {
    pub(crate) method: Method,
    pub(crate) samples: Vec<Sample>,
    /// Why a peer has no samples.
    pub(crate) failure: Option<String>,
}

/// Best and median of one quantity over the rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) best: f64,
    pub(crate) median: f64,
}

impl Outcome {
    pub(crate) fn wall_s(&self) -> Option<Figures> {
        self.figures(|sample| Some(sample.wall_s))
    }

    pub(crate) fn cpu_s(&self) -> Option<Figures> {
        self.figures(|sample| Some(sample.cpu_s))
    }

    pub(crate) fn peak_rss_mb(&self) -> Option<Figures> {
        self.figures(|sample| sample.peak_rss_mb)
    }

    /// The method in its own words, where it has said some.
    pub(crate) fn name(&self) -> String {
        let own = self.samples.first().and_then(|sample| sample.name.clone());
        own.unwrap_or_else(|| self.method.describe())
    }

    fn figures(&self, quantity: impl Fn(&Sample) -> Option<f64>) -> Option<Figures> {
        let mut values: Vec<f64> = self.samples.iter().filter_map(quantity).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
        Some(Figures { best: values[0], median: f64::midpoint(values[low], values[high]) })
    }
}

/// Runs all rounds.
///
/// A reader of our own that fails or reads something else ends the bench. A peer that does so
/// gets no figures.
pub(crate) fn run(
    url: &str,
    methods: &[Method],
    rounds: usize,
    python: Option<&Path>,
    truth: &Content,
) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes: Vec<Outcome> = methods
        .iter()
        .map(|&method| Outcome { method, samples: Vec::new(), failure: None })
        .collect();
    for round in 0..=rounds {
        let label = if round == 0 { "warm-up".into() } else { format!("round {round}/{rounds}") };
        for outcome in outcomes.iter_mut().filter(|outcome| outcome.failure.is_none()) {
            let method = outcome.method;
            match measure(&mut command(url, method, python)?, method, truth) {
                Ok(sample) => {
                    let Sample { wall_s, cpu_s, .. } = sample;
                    let what = method.describe();
                    eprintln!("{label}: {what}: {wall_s:.2} s, {cpu_s:.2} s of CPU");
                    if round > 0 {
                        outcome.samples.push(sample);
                    }
                }
                Err(error) if matches!(method.reader, Reader::Peer(_)) => {
                    eprintln!("{label}: skipped from here on: {}: {error}", method.describe());
                    outcome.failure = Some(error.to_string());
                    outcome.samples.clear();
                }
                Err(error) => return Err(format!("{}: {error}", method.describe()).into()),
            }
        }
    }
    Ok(outcomes)
}

fn command(url: &str, method: Method, python: Option<&Path>) -> Result<Command, Failure> {
    if let Reader::Peer(name) = method.reader {
        let python = python.ok_or("a peer needs a Python to run in")?;
        return peers::command(python, name, url, method);
    }
    let mut command = Command::new(env::current_exe()?);
    command.arg("--child").args(method.arguments(url));
    Ok(command)
}

/// Runs a child and checks what it read.
fn measure(command: &mut Command, method: Method, truth: &Content) -> Result<Sample, Failure> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        // The last line of a traceback is its message.
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.trim_end().lines().next_back().unwrap_or("without a word");
        return Err(format!("failed ({}): {last}", output.status).into());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let sample: Sample = serde_json::from_str(said.trim_end().lines().next_back().unwrap_or(""))?;
    if matches!(method.reader, Reader::Panel | Reader::Peer(_)) && !sample.content.is_whole() {
        return Err("does not tell what it read".into());
    }
    match sample.content.mismatch(truth) {
        Some(mismatch) => Err(format!("read something else: {mismatch}").into()),
        None => Ok(sample),
    }
}

/// All figures, for people.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "{:44} {:>15} {:>15} {:>8}\n",
        "best / median", "wall s", "client CPU s", "peak MB"
    );
    for outcome in outcomes {
        let pair = |figures: Option<Figures>| {
            figures.map_or_else(
                || "-".to_owned(),
                |Figures { best, median }| format!("{best:.2} / {median:.2}"),
            )
        };
        let peak = outcome.peak_rss_mb().map_or("-".to_owned(), |mb| format!("{:.0}", mb.median));
        let (wall, cpu) = (pair(outcome.wall_s()), pair(outcome.cpu_s()));
        writeln!(text, "{:44} {wall:>15} {cpu:>15} {peak:>8}", outcome.name())
            .expect("a String takes every write");
    }
    text
}
