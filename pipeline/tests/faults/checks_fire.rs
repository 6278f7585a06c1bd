//! The checks of this folder, on what they are there to find: each must fire.

use crate::{
    case::Stage,
    ending, litter,
    subjects::{IMPORT, PREDICT, results_in},
    work_folder::{Ran, WorkFolder},
};
use fault_injector::Fault;
use std::{fs, path::Path};

/// Something is done to a work folder, and the check says this.
fn check_fires(stage: &Stage, spoil: impl FnOnce(&WorkFolder), expected: &str) {
    stage.work.put_back();
    spoil(&stage.work);
    let said = stage.check_end().unwrap_err();
    assert!(said.contains(expected), "{said:?} does not say {expected:?}");
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_and_a_leftover_are_found() {
    let mut stage = Stage::new(&PREDICT).unwrap();
    stage.work.succeed(&["predict"]).unwrap();
    stage.work.keep();
    stage.expected = results_in(&stage.work);
    stage.check_end().unwrap();

    let run = stage.work.run_dir().unwrap();
    for file in [
        "checkpoints/last/model.safetensors",
        "checkpoints/best/optimizer.safetensors",
        "predictions.parquet",
    ] {
        let name = file.trim_start_matches("checkpoints/");
        check_fires(&stage, |_| flip(&run.join(file)), &format!("{name} differs from byte"));
    }
    let remove =
        |file: &'static str| move |_: &WorkFolder| fs::remove_file(run.join(file)).unwrap();
    check_fires(&stage, remove("report.json"), "report.json is missing");

    let run = stage.work.run_dir().unwrap();
    let drop_line = |_: &WorkFolder| {
        let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        fs::write(run.join("metrics.jsonl"), text.split_once('\n').unwrap().1).unwrap();
    };
    check_fires(&stage, drop_line, "metrics.jsonl differs");

    for folder in ["checkpoints/.last.old", "checkpoints/.best.partial-1", ".x"] {
        let make = |_: &WorkFolder| fs::create_dir(run.join(folder)).unwrap();
        check_fires(&stage, make, &format!("{folder} was left behind"));
    }
    for file in [".report.json.partial-00", "checkpoints/last/model.safetensors.partial-1", "x"] {
        let make = |_: &WorkFolder| fs::write(run.join(file), "").unwrap();
        check_fires(&stage, make, &format!("{file} was left behind"));
    }
    let dead_run = |work: &WorkFolder| {
        let dead = work.inside().join("runs/2000-01-01_00-00-00");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("config.toml"), "").unwrap();
    };
    check_fires(&stage, dead_run, "2000-01-01_00-00-00 was left behind without");
    let in_the_way = |work: &WorkFolder| fs::write(work.inside().join("out.parquet"), "").unwrap();
    check_fires(&stage, in_the_way, "out.parquet was left behind");

    // What has its name must be whole, and a checkpoint that was there must stay.
    stage.work.put_back();
    stage.check_standing(&[]).unwrap();
    flip(&run.join("predictions.parquet"));
    assert!(stage.check_standing(&[]).unwrap_err().contains("not whole"));
    stage.work.put_back();
    let best = run.join("checkpoints/best");
    fs::rename(&best, run.join("checkpoints/.best.old")).unwrap();
    stage.check_standing(&[]).unwrap();
    assert!(stage.check_standing(&[best]).unwrap_err().contains("has no model.safetensors"));
}

#[test]
fn a_changed_panel_and_a_second_one_are_found() {
    let stage = Stage::new(&IMPORT).unwrap();
    stage.check_end().unwrap();
    let folder = |work: &WorkFolder| {
        let mut entries = fs::read_dir(work.cache()).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.is_dir()).unwrap()
    };
    let shard = |work: &WorkFolder| flip(&folder(work).join("shard-0000.arrow"));
    check_fires(&stage, shard, "shard-0000.arrow differs");
    let leftover = |work: &WorkFolder| {
        let key = folder(work);
        fs::create_dir(key.with_file_name("0".repeat(32) + ".partial-1")).unwrap();
    };
    check_fires(&stage, leftover, ".partial-1 was left behind");
    let second = |work: &WorkFolder| {
        fs::create_dir(work.cache().join("0".repeat(32))).unwrap();
    };
    check_fires(&stage, second, "2 cached panels");
    assert_eq!(litter::find(&WorkFolder::new()), [""; 0]);
}

#[test]
fn an_end_that_is_not_documented_is_found() {
    let ran = |code: Option<i32>, signal: Option<i32>, stderr: &str| Ran {
        args: "train".to_owned(),
        code,
        signal,
        stderr: stderr.to_owned(),
    };
    let full = "error: cannot write a.json: No space left on device (os error 28)\n";
    let interrupted = "interrupted; go on with: millstream train --resume r\n";
    let good = [
        (ran(Some(0), None, "epoch 1\n"), Fault::Io),
        (ran(Some(1), None, full), Fault::Full),
        (ran(Some(3), None, full), Fault::NoSpace),
        (ran(Some(5), None, interrupted), Fault::Terminate),
        (ran(None, Some(9), ""), Fault::Kill),
    ];
    for (ran, fault) in good {
        ending::check(&ran, fault, true).unwrap();
    }
    let panic = "thread 'main' panicked at a.rs\nerror: No space left on device\n";
    let bad = [
        (ran(Some(0), None, ""), Fault::Kill),
        (ran(None, Some(6), ""), Fault::Full),
        (ran(None, Some(11), ""), Fault::Interrupt),
        (ran(Some(101), None, panic), Fault::Full),
        (ran(Some(1), None, panic), Fault::Full),
        (ran(Some(1), None, ""), Fault::Full),
        (ran(Some(1), None, &full.repeat(2)), Fault::Full),
        (ran(Some(1), None, full), Fault::Io),
        (ran(Some(1), None, full), Fault::Interrupt),
        (ran(Some(4), None, full), Fault::Full),
        (ran(Some(5), None, full), Fault::Full),
        (ran(Some(0), None, full), Fault::Full),
        (ran(Some(130), None, ""), Fault::Interrupt),
    ];
    for (ran, fault) in bad {
        assert!(ending::check(&ran, fault, true).is_err(), "{fault:?} and {ran}");
    }
    assert!(ending::check(&ran(Some(1), None, full), Fault::Full, false).is_err());
}
