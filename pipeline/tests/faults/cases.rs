//! Which faults are tried, and trying them on as many work folders as there are cores.
//!
//! `MILLSTREAM_TEST_FAULTS` says which: `all`, how many of every command, or one, as the message of a
//! failure names it (`kill@17`).

use crate::{
    case::{Case, Stage},
    subjects::Subject,
};
use fault_injector::{Call, Fault};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Two of every kind.
const IN_THE_SUITE: usize = 16;
const THREADS: usize = 2;
const SEED: u64 = 14;

/// Tries faults in a command, and fails with all that were found.
pub(crate) fn try_faults(subject: &'static Subject) {
    let first = Stage::new(subject).unwrap();
    let calls = first.calls().unwrap();
    let cases = chosen(&every(&calls), std::env::var("MILLSTREAM_TEST_FAULTS").ok().as_deref());
    println!("{}: {} file-changing calls, {} faults", subject.name, calls.len(), cases.len());
    let next = AtomicUsize::new(0);
    let worker = |stage: Stage| {
        let mut found = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            match stage.run(*case) {
                Ok(end) => println!("{} {case}: {end}", subject.name),
                Err(why) => {
                    println!("{} {case}: FAILED {why}", subject.name);
                    found.push(format!("MILLSTREAM_TEST_FAULTS={case}: {why}"));
                }
            }
        }
        found
    };
    let found: Vec<String> = thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS.min(cases.len()))
            .map(|_| scope.spawn(|| worker(Stage::new(subject).unwrap())))
            .collect();
        let mut found = worker(first);
        found.extend(others.into_iter().flat_map(|other| other.join().unwrap()));
        found
    });
    println!("TRIED {} faults in {}: {} found", cases.len(), subject.name, found.len());
    assert!(found.is_empty(), "{} of {}\n{}", found.len(), cases.len(), found.join("\n\n"));
}

/// Every fault of every call.
fn every(calls: &[Call]) -> Vec<Case> {
    let makes_sense = |call: &Call, fault: Fault| !fault.is_cut() || call.is_write();
    let of_call = |call: &Call| {
        let faults = Fault::ALL.into_iter().filter(|fault| makes_sense(call, *fault));
        faults.map(|fault| Case { at: call.number, fault }).collect::<Vec<_>>()
    };
    calls.iter().flat_map(of_call).collect()
}

fn chosen(all: &[Case], wanted: Option<&str>) -> Vec<Case> {
    let count = match wanted {
        None => IN_THE_SUITE,
        Some("all") => return all.to_vec(),
        Some(text) => match text.split_once('@') {
            None => text.parse().expect("MILLSTREAM_TEST_FAULTS is `all`, a number or KIND@CALL"),
            Some((name, at)) => {
                let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name);
                return vec![Case {
                    at: at.parse().unwrap(),
                    fault: fault.expect("a kind of fault"),
                }];
            }
        },
    };
    // Drawn, since what is evenly spaced may meet the same call of every checkpoint.
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut draw = |fault: Fault| {
        let of_kind: Vec<&Case> = all.iter().filter(|case| case.fault == fault).collect();
        *of_kind[(random.next_u64() % of_kind.len() as u64) as usize]
    };
    let mut cases: Vec<Case> =
        Fault::ALL.into_iter().cycle().take(count.min(all.len())).map(&mut draw).collect();
    cases.sort_by_key(|case| (case.at, case.fault.name()));
    cases.dedup();
    cases
}

#[test]
fn what_is_tried_is_of_every_kind_and_the_same_each_time() {
    let call = |number, name: &str| Call {
        number,
        name: name.to_owned(),
        bytes: 1,
        path: "a".into(),
        from: None,
    };
    let calls = [call(1, "open"), call(2, "write"), call(3, "rename")];
    let all = every(&calls);
    assert_eq!(all.len(), 6 + 8 + 6, "only a write can be cut");
    assert_eq!(chosen(&all, Some("all")), all);
    assert_eq!(chosen(&all, None), chosen(&all, None));
    for fault in Fault::ALL {
        assert!(chosen(&all, None).iter().any(|case| case.fault == fault), "no {fault:?}");
    }
    assert_eq!(chosen(&all, Some("io@3")), [Case { at: 3, fault: Fault::Io }]);
}
