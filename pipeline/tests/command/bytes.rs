//! Names are bytes: variables, folders and files whose names are no text work, or are refused in one
//! line.

use crate::bench::{Bench, SMALL, check_fails, stderr};
use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Output,
};

/// Not UTF-8.
fn odd() -> &'static OsStr {
    OsStr::from_bytes(b"n\xffme")
}

/// Runs in the folder of that name, with arguments of bytes.
fn run(folder: &Path, args: &[&OsStr]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(args).current_dir(folder).env_remove("LD_LIBRARY_PATH").output().unwrap()
}

fn check_works(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn variables_that_are_no_text_are_nobodys_concern() {
    let bench = Bench::new(SMALL);
    let mut command = bench.command(&["doctor"]);
    command.env("PGPASSWORD", odd()).env(odd(), odd()).env("LANG", odd()).env("COLUMNS", odd());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut command = bench.command(&["train"]);
    let output = command.env("MILLSTREAM_TRAIN__EPOCHS", odd()).output().unwrap();
    check_fails(&output, 2, &["MILLSTREAM_TRAIN__EPOCHS is not UTF-8 text"]);
    assert!(!stderr(&output).contains("n\u{fffd}me"), "{}", stderr(&output));
}

#[test]
fn a_folder_whose_name_is_no_text_is_one_to_work_in() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join(odd());
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("pipeline.toml"), SMALL).unwrap();
    let args = |args: &[&'static str]| -> Vec<&'static OsStr> {
        args.iter().map(|arg| OsStr::new(*arg)).collect()
    };
    check_works(&run(&folder, &args(&["import", "--json"])));
    check_works(&run(&folder, &args(&["pipeline", "--json"])));
    check_works(&run(&folder, &args(&["predict", "--json", "--output", "out.csv"])));
    assert!(folder.join("out.csv").is_file());
}

#[test]
fn paths_given_by_flags_are_bytes() {
    let outer = tempfile::tempdir().unwrap();
    let settings = outer.path().join(odd());
    fs::write(&settings, SMALL).unwrap();
    let flags = |flags: &[&OsStr]| run(outer.path(), flags);
    let text = |text: &'static str| OsStr::new(text);
    let result = check_works(&flags(&[
        text("train"),
        text("--json"),
        text("--config"),
        settings.as_os_str(),
    ]));
    // The run under another name, which is none.
    let run = outer.path().join(result["run"].as_str().unwrap());
    let renamed: PathBuf = run.with_file_name(odd());
    fs::rename(&run, &renamed).unwrap();
    let mut output = OsString::from(odd());
    output.push(".csv");
    let predict = [
        text("predict"),
        text("--json"),
        text("--run"),
        renamed.as_os_str(),
        text("--output"),
        output.as_os_str(),
    ];
    let forecast = flags(&predict);
    if forecast.status.code() == Some(0) {
        check_works(&forecast);
        assert!(outer.path().join(&output).is_file());
    } else {
        check_fails(&forecast, 2, &["UTF-8"]);
    }
    let resumed = flags(&[text("train"), text("--resume"), renamed.as_os_str()]);
    check_fails(&resumed, 2, &["has finished"]);
    let missing = flags(&[text("train"), text("--resume"), odd()]);
    check_fails(&missing, 2, &["is not a run directory"]);
    // A setting is text.
    let mut set = OsString::from("run.dir=");
    set.push(odd());
    let refused = flags(&[text("train"), text("--set"), &set]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}
