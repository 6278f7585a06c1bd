//! How a command may end when something went wrong under it: as the README says.

use crate::work_folder::Ran;
use fault_injector::Fault;

/// What no person should read.
const NEVER_SAID: [&str; 8] = [
    "panicked",
    "RUST_BACKTRACE",
    "terminate called",
    "core dumped",
    "IoError",
    "Os {",
    "frame #",
    "TrainError",
];

const SIGKILL: i32 = 9;
const INTERRUPTED: i32 = 5;

/// Checks how a command ended with this fault; `fired` is whether it came to the call at all.
pub(crate) fn check(ran: &Ran, fault: Fault, fired: bool) -> Result<(), String> {
    let errors = errors(ran)?;
    let documented = match (ran.code, errors.len()) {
        _ if fired && fault.is_kill() => ran.signal == Some(SIGKILL),
        // A call whose failure does no harm may be passed over, and a signal may come too late.
        (Some(0), 0) => true,
        (Some(INTERRUPTED), 0 | 1) => fired && fault.is_signal(),
        (Some(1..=3), 1) => {
            let why = fault.message().filter(|_| fired);
            match why {
                Some(why) if !errors[0].contains(why) => {
                    return Err(format!("the message does not say {why:?}: {ran}"));
                }
                why => why.is_some(),
            }
        }
        _ => false,
    };
    if documented { Ok(()) } else { Err(format!("no documented end: {ran}")) }
}

/// The lines that say what went wrong; `Err` when there is more than one, or what nobody should read.
pub(crate) fn errors(ran: &Ran) -> Result<Vec<&str>, String> {
    if let Some(what) = NEVER_SAID.iter().find(|what| ran.stderr.contains(**what)) {
        return Err(format!("{what:?} is in the messages of {ran}"));
    }
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    if errors.len() > 1 {
        return Err(format!("{} lines of error: {ran}", errors.len()));
    }
    Ok(errors)
}
