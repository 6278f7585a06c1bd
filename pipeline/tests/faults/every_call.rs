//! A fault at the N-th file-changing call of a command: it ends as documented, the next run gives the
//! same bits as if nothing had happened, and nothing is left lying about.

use crate::{
    cases::try_faults,
    subjects::{BACKTEST, IMPORT, PREDICT, RESUME, TRAIN},
};

#[test]
fn training_survives_a_fault_at_any_call() {
    try_faults(&TRAIN);
}

#[test]
fn resuming_survives_a_fault_at_any_call() {
    try_faults(&RESUME);
}

#[test]
fn importing_survives_a_fault_at_any_call() {
    try_faults(&IMPORT);
}

#[test]
fn predicting_survives_a_fault_at_any_call() {
    try_faults(&PREDICT);
}

#[test]
fn backtesting_survives_a_fault_at_any_call() {
    try_faults(&BACKTEST);
}
