//! What can be kept of a journal that is not what its run wrote: every line that can be read.
//!
//! Nothing that a run computes depends on its journal, so damage to it is a warning and not an
//! error. The line of the look before the first step is known from the checkpoint, and is put back.

use crate::journal::{Resumed, text};
use serde::Deserialize;
use std::path::Path;

/// How the lines of a journal begin.
const BEGINNINGS: [&[u8]; 2] = [b"{\"step\":", b"{\"epoch\":"];

/// The part of any line that says where it belongs.
#[derive(Deserialize)]
struct LineNumber {
    step: Option<u64>,
    epoch: Option<u32>,
}

/// What was kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Salvaged {
    pub(crate) kept: Vec<u8>,
    /// Lines that could not be read, or not as a whole.
    pub(crate) unreadable: u64,
}

/// The lines that belong before the checkpoint: no steps beyond its own, no epoch that is not over.
pub(crate) fn salvage(found: &[u8], resumed: &Resumed) -> Salvaged {
    let mut salvaged = Salvaged::default();
    let mut begins = false;
    let mut keep = |number: &LineNumber, line: &[u8]| {
        let belongs = match (number.step, number.epoch) {
            (Some(step), _) => step <= resumed.step,
            (None, Some(epoch)) => epoch < resumed.epoch,
            (None, None) => false,
        };
        if belongs {
            let is_first = number.step.is_none() && number.epoch == Some(0);
            if let (true, false, Some(first)) = (!is_first, begins, &resumed.first) {
                salvaged.kept.extend(text(first));
            }
            begins = true;
            salvaged.kept.extend(line);
            salvaged.kept.push(b'\n');
        }
    };
    for line in found.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        if let Ok(number) = serde_json::from_slice(line) {
            keep(&number, line);
            continue;
        }
        salvaged.unreadable += 1;
        // It may be the break between two lines that is damaged.
        for at in 0..line.len() {
            if BEGINNINGS.iter().any(|beginning| line[at..].starts_with(beginning)) {
                let mut values = serde_json::Deserializer::from_slice(&line[at..]).into_iter();
                if let Some(Ok(number)) = values.next() {
                    keep(&number, &line[at..at + values.byte_offset()]);
                }
            }
        }
    }
    if let (false, Some(first)) = (begins, &resumed.first) {
        salvaged.kept.extend(text(first));
    }
    salvaged
}

impl Salvaged {
    /// What a person is told.
    pub(crate) fn warning(&self, path: &Path) -> String {
        let path = path.display();
        let lines = match self.unreadable {
            0 => "every line that is there was kept".to_owned(),
            1 => "a line that cannot be read was left out".to_owned(),
            count => format!("{count} lines that cannot be read were left out"),
        };
        format!(
            "{path} is not what the run wrote: {lines}; weights and figures do not depend on it"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::EpochLine;

    fn check(found: &[u8], expected: &str, unreadable: u64) {
        let resumed = Resumed { mark: None, step: 5, epoch: 2, first: None };
        let salvaged = salvage(found, &resumed);
        assert_eq!(String::from_utf8(salvaged.kept).unwrap(), expected);
        assert_eq!(salvaged.unreadable, unreadable);
    }

    #[test]
    fn lines_from_before_the_checkpoint_are_kept() {
        let before =
            "{\"epoch\":0}\n{\"step\":2,\"epoch\":1}\n{\"epoch\":1}\n{\"step\":4,\"epoch\":2}\n";
        let after = "{\"step\":6,\"epoch\":2}\n{\"epoch\":2}\n{\"step\":8,\"ep";
        check(format!("{before}{after}").as_bytes(), before, 1);
        check(b"", "", 0);
    }

    #[test]
    fn what_cannot_be_read_costs_no_other_line() {
        check(b"{\"step\":1}\n{\"st\xffep\":2}\n{\"step\":3}\n", "{\"step\":1}\n{\"step\":3}\n", 1);
        // Damaged breaks between lines.
        check(b"{\"step\":1}*{\"step\":3}\n", "{\"step\":1}\n{\"step\":3}\n", 1);
        check(b"\0\0\0\n{\"step\":3}\xff{\"epoch\":1", "{\"step\":3}\n", 2);
        check(b"3\nnull\n[]\n{}\n{\"step\":3}\n", "{\"step\":3}\n", 3);
    }

    #[test]
    fn the_line_before_the_first_step_is_put_back() {
        let first = EpochLine::before(0.5, None);
        let line = String::from_utf8(text(&first)).unwrap();
        let resumed = Resumed { mark: None, step: 5, epoch: 2, first: Some(first) };
        for (found, expected) in [
            ("", line.clone()),
            ("{\"step\":1}\n", format!("{line}{{\"step\":1}}\n")),
            ("{\"epoch\":0}\n", "{\"epoch\":0}\n".to_owned()),
        ] {
            let salvaged = salvage(found.as_bytes(), &resumed);
            assert_eq!(String::from_utf8(salvaged.kept).unwrap(), expected);
        }
    }
}
