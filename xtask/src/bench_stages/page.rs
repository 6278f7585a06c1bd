//! The report as a page: a bar per case, ours as a share of its floor or peer.
//!
//! One file without scripts or anything from elsewhere, so that it can be kept, mailed and opened
//! anywhere. Every figure is also there as text.

use std::fmt::Write as _;

use super::figures::rate;
use super::report::{Against, Case, Report, Skipped};

/// Colours come in two sets, for light and for dark; nothing is told by colour alone.
const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --line: #d9d9e0; --paper: #fcfcfd;
  --track: #eceef2; --bar: #4a7bb5; --mark: #1c2024; }
@media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --soft: #a0a4ab; --line: #363a3f;
  --paper: #151618; --track: #26292d; --bar: #6f9fd8; --mark: #edeef0; } }
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; }
h2 { font-size: 1rem; margin: 2rem 0 .4rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line); }
p { margin: .2rem 0; color: var(--soft); }
.case { display: grid; grid-template-columns: 17rem 1fr 3.2rem; gap: 0 .9rem; align-items: center;
  padding: .45rem 0; }
.name { overflow-wrap: anywhere; }
.track { position: relative; height: .9rem; background: var(--track); border-radius: 2px; }
.bar { position: absolute; height: 100%; background: var(--bar); border-radius: 2px; }
.mark { position: absolute; top: -.2rem; bottom: -.2rem; border-left: 2px solid var(--mark); }
.ratio { text-align: right; font-variant-numeric: tabular-nums; font-weight: 600; }
.figures { grid-column: 2 / 4; color: var(--soft); font-size: .85rem; }
@media (max-width: 40rem) { .case { grid-template-columns: 1fr 3.2rem; }
  .name { grid-column: 1 / 3; } .figures { grid-column: 1 / 3; } }
";

/// The page.
pub(super) fn render(report: &Report, against: Against) -> String {
    let [_, other, _] = against.words();
    let (title, scale_in_words) = match against {
        Against::Floors => ("millstream: stages beside their floors", ""),
        Against::Peers => (
            "millstream: stages beside what people use today",
            " The scale is logarithmic; where ours takes less, the bar goes to the right.",
        ),
    };
    let origin = escape(&report.origin(against));
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n<h1>{title}</h1>\n<p>{origin}</p>\n\
         <p>The mark in each bar is the {other}.{scale_in_words}</p>\n"
    );
    let scale = Scale::of(&report.cases, against);
    let mut stages: Vec<&str> = Vec::new();
    for case in &report.cases {
        if !stages.contains(&case.stage.as_str()) {
            stages.push(&case.stage);
        }
    }
    for stage in stages {
        writeln!(text, "<h2>{}</h2>", escape(stage)).expect("a String takes every write");
        let cases = report.cases.iter().filter(|case| case.stage == stage);
        text.extend(cases.map(|case| row(case, other, scale)));
    }
    if !report.skipped.is_empty() {
        text += "<h2>skipped</h2>\n";
    }
    for Skipped { stage, case, reason } in &report.skipped {
        let [stage, case, reason] = [stage, case, reason].map(|text| escape(text));
        writeln!(text, "<p><b>{stage}/{case}</b>: {reason}</p>")
            .expect("a String takes every write");
    }
    text + "</html>\n"
}

/// Where a ratio lies in a bar, in percent: one scale for all bars of a page, with a place for 1.00.
#[derive(Debug, Clone, Copy)]
enum Scale {
    /// From nothing: what is missing to the floor is to be seen.
    Linear { longest: f64 },
    /// To either side of 1.00, by logarithms: beside a peer that takes a hundred times as long, one
    /// that takes twice as long would look as fast as ours.
    Logarithmic { lowest: f64, highest: f64 },
}

impl Scale {
    fn of(cases: &[Case], against: Against) -> Self {
        let ratios = || cases.iter().map(|case| case.ratio);
        match against {
            Against::Floors => Scale::Linear { longest: ratios().fold(1.0, f64::max) },
            Against::Peers => Scale::Logarithmic {
                lowest: ratios().fold(0.5, f64::min).ln(),
                highest: ratios().fold(2.0, f64::max).ln(),
            },
        }
    }

    fn place(self, ratio: f64) -> f64 {
        let share = match self {
            Scale::Linear { longest } => ratio / longest,
            Scale::Logarithmic { lowest, highest } => (ratio.ln() - lowest) / (highest - lowest),
        };
        100.0 * share
    }

    /// Where a bar starts and ends.
    fn bar(self, ratio: f64) -> (f64, f64) {
        let end = self.place(ratio);
        match self {
            Scale::Linear { .. } => (0.0, end),
            Scale::Logarithmic { .. } => (end.min(self.place(1.0)), end.max(self.place(1.0))),
        }
    }
}

fn row(case: &Case, other: &str, scale: Scale) -> String {
    let [ours, others] = [case.value, case.floor].map(|value| rate(value, &case.unit));
    let best = case.value_best.zip(case.floor_best).map_or(String::new(), |(ours, others)| {
        let [ours, others] = [ours, others].map(|value| rate(value, &case.unit));
        format!("; best {ours}, {others}")
    });
    let cpu = case.cpu_s.map_or(String::new(), |cpu_s| format!("; {cpu_s:.2} s of CPU"));
    let figures = format!("ours {ours}, {other} {others} ({}){best}{cpu}", case.floor_name);
    let (name, figures, ratio) = (escape(&case.case), escape(&figures), case.ratio);
    let ((start, end), mark) = (scale.bar(ratio), scale.place(1.0));
    let width = end - start;
    format!(
        "<div class=\"case\"><div class=\"name\">{name}</div>\
         <div class=\"track\"><div class=\"bar\" style=\"left:{start:.1}%;width:{width:.1}%\"></div>\
         <div class=\"mark\" style=\"left:{mark:.1}%\"></div></div>\
         <div class=\"ratio\">{ratio:.2}</div><div class=\"figures\">{figures}</div></div>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_stages::report::tests::report;

    #[test]
    fn every_case_has_a_bar_on_one_scale_and_its_figures() {
        let mut report = report(&[("fill", 0.8), ("fit <&>", 1.6)]);
        report.skipped.push(Skipped {
            stage: "loader".into(),
            case: "postgres".into(),
            reason: "no \"server\"".into(),
        });
        let page = render(&report, Against::Floors);
        assert_eq!(page.matches("class=\"bar\"").count(), 2);
        assert_eq!(page.matches("<h2>normalize</h2>").count(), 1);
        for part in [
            "Commit 0123abc, Some CPU",
            "width:50.0%",
            "width:100.0%",
            "left:62.5%",
            ">0.80<",
            "fit &lt;&amp;&gt;",
            "ours 8.00 GB/s, floor 10.0 GB/s (memcpy)",
            "<b>loader/postgres</b>: no &quot;server&quot;",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn beside_peers_a_bar_starts_at_the_peer() {
        let page =
            render(&report(&[("slower", 0.5), ("faster", 2.0), ("far", 32.0)]), Against::Peers);
        for part in ["left:0.0%;width:16.7%", "left:16.7%;width:16.7%", "left:16.7%;width:83.3%"] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn a_stage_measured_by_two_programs_has_one_heading() {
        let mut report = report(&[("fill", 0.8), ("steps", 0.9), ("fit", 0.7)]);
        report.cases[1].stage = "trainer".into();
        let page = render(&report, Against::Floors);
        assert_eq!(page.matches("<h2>normalize</h2>").count(), 1);
        let [fit, steps] = [">fit<", ">steps<"].map(|name| page.find(name).unwrap());
        assert!(fit < steps, "{page}");
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let page = render(&report(&[("fill", 0.8)]), Against::Peers);
        for link in ["http", "<script", "@import", "url("] {
            assert!(!page.contains(link), "{link}");
        }
    }
}
