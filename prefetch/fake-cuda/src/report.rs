//! What a run left, written when its last context goes, for a test that started a program and has
//! no other way to look inside it.

use crate::{
    calls::{self, Call},
    control::{Live, count},
    stream::SHARED,
};
use std::fmt::Write;

/// Names the file; without it nothing is written.
const VARIABLE: &str = "FAKE_CUDA_REPORT";

/// Writes `name value` lines: every call made, what is still alive, and the hazards.
pub(crate) fn write() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    std::fs::write(&path, text()).expect("the report's folder can be written to");
}

fn text() -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: u64| {
        writeln!(text, "{name} {value}").expect("a string takes everything");
    };
    for call in Call::ALL {
        line(call.name(), calls::in_all(*call as usize));
    }
    line("live_pinned", count(Live::Pinned));
    line("live_device", count(Live::Device));
    line("live_events", count(Live::Events));
    line("live_streams", count(Live::Streams));
    let findings = SHARED.findings();
    line("hazards", findings.total());
    for found in findings.texts() {
        writeln!(text, "# {found}").expect("a string takes everything");
    }
    text
}
