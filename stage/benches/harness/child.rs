//! Other programs that measure themselves, and answer with a line of JSON.

use super::Failure;
use serde::de::DeserializeOwned;
use std::process::{Command, Stdio};

/// Runs a program and reads the last line it prints.
pub(crate) fn answer<T: DeserializeOwned>(command: &mut Command) -> Result<T, Failure> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        // The last line of a traceback is its message.
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.trim_end().lines().next_back().unwrap_or("without a word");
        return Err(format!("failed ({}): {last}", output.status).into());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(serde_json::from_str(said.trim_end().lines().next_back().unwrap_or(""))?)
}
