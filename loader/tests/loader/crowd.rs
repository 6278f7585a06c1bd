//! Many at once on one cache, and what others have left in it.

use crate::support::{in_time, load, rows};
use millstream_loader::{GenerateSettings, LoadError, SourceSettings, import, verify};
use millstream_stage::Warnings;
use std::{
    env, fs,
    ops::ControlFlow,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command,
    thread,
};

fn settings(cache: &Path) -> SourceSettings {
    let size = |n: usize| n.try_into().unwrap();
    SourceSettings {
        cache: cache.to_str().unwrap().to_owned(),
        generate: GenerateSettings {
            series: size(20),
            rows: size(60),
            features: size(3),
            ..GenerateSettings::default()
        },
        ..SourceSettings::default()
    }
}

fn folders(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// A lock belongs to whoever opened the file, so threads are to it what processes are.
#[test]
fn imports_loads_and_checks_at_once_all_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    let target = vec!["close_pct".to_owned()];
    let expected =
        rows(&load(&SourceSettings { cache: String::new(), ..settings.clone() }).unwrap());
    load(&settings).unwrap();
    thread::scope(|scope| {
        for worker in 0..12 {
            let (settings, target, expected) = (&settings, &target, &expected);
            scope.spawn(move || {
                for round in 0..25 {
                    let go_on = &mut |_| ControlFlow::Continue(());
                    let warnings = Warnings::default();
                    match (worker + round) % 3 {
                        0 => assert_eq!(&rows(&load(settings).unwrap()), expected),
                        // This is who says "run `millstream import` first".
                        1 => drop(verify(settings, target, go_on, &warnings).unwrap()),
                        _ => drop(import(settings, target, go_on, &warnings).unwrap()),
                    }
                }
            });
        }
    });
    // What was replaced while others had it open goes with the next import.
    import(&settings, &target, &mut |_| ControlFlow::Continue(()), &Warnings::default()).unwrap();
    assert_eq!(folders(dir.path()).len(), 1);
}

const CHILD_CACHE: &str = "MILLSTREAM_TEST_CHILD_CACHE";

/// Root may remove anything, so whoever runs this as root has it done by nobody.
#[test]
fn what_somebody_else_has_left_and_cannot_be_removed_stops_nobody() {
    if let Some(cache) = env::var_os(CHILD_CACHE) {
        load(&settings(Path::new(&cache))).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    open(dir.path(), 0o777).unwrap();
    // Left behind by a killed process: one that can be opened but not emptied, one that cannot even
    // be looked into, and what is no folder at all.
    let (full, closed) = (dir.path().join("k.partial-1"), dir.path().join("k.partial-2"));
    for folder in [&full, &closed] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("lock"), "").unwrap();
        fs::write(folder.join("shard-0000.arrow"), "half").unwrap();
    }
    fs::write(dir.path().join("k.partial-3"), "").unwrap();
    open(&full, 0o555).unwrap();
    open(&closed, 0o000).unwrap();
    // The other user may not be let into the folder that this program is in.
    let place = tempfile::tempdir().unwrap();
    open(place.path(), 0o755).unwrap();
    let program = place.path().join("test");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    let name = "crowd::what_somebody_else_has_left_and_cannot_be_removed_stops_nobody";
    let mut child = Command::new(program);
    child.args(["--exact", name, "--nocapture"]).env(CHILD_CACHE, dir.path()).current_dir("/");
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        child.uid(65_534).gid(65_534);
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    open(&closed, 0o755).unwrap();
    open(&full, 0o755).unwrap();
    assert!(full.join("shard-0000.arrow").exists() && closed.join("lock").exists());
    assert_eq!(folders(dir.path()).len(), 3);
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Puts something in place of a file of a cached panel, and loads.
fn check_replaced(file: &str, replace: fn(&Path), expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    load(&settings).unwrap();
    let folder = dir.path().join(&folders(dir.path())[0]);
    let path = if file == ".lock" { dir.path().join(file) } else { folder.join(file) };
    fs::remove_file(&path).unwrap();
    replace(&path);
    let opened = {
        let settings = settings.clone();
        in_time("opening a cache", move || load(&settings).map(|_| ()))
    };
    // The lock of the cache is for those who write.
    if file != ".lock" {
        let error = opened.unwrap_err();
        let text = crate::support::chain(&error);
        assert!(text.contains(file) && text.contains(expected), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
    let written = in_time("writing a cache", move || {
        let go_on = &mut |_| ControlFlow::Continue(());
        import(&settings, &["close_pct".to_owned()], go_on, &Warnings::default()).map(|_| settings)
    });
    match file {
        ".lock" => {
            let text = crate::support::chain(&written.unwrap_err());
            assert!(text.contains(".lock is in the way") && text.contains(expected), "{text}");
        }
        // As the message says, to import it again mends it.
        _ => assert!(load(&written.unwrap()).is_ok()),
    }
}

#[test]
fn a_pipe_or_a_folder_in_place_of_a_cached_file_is_an_error_and_not_a_wait() {
    for file in ["manifest.json", "shard-0000.arrow", "lock", ".lock"] {
        check_replaced(file, make_pipe, "it is a pipe, not a plain file");
        check_replaced(
            file,
            |path| fs::create_dir(path).unwrap(),
            "it is a folder, not a plain file",
        );
    }
}

#[test]
fn a_generated_table_that_cannot_fit_is_refused_before_it_is_made() {
    let dir = tempfile::tempdir().unwrap();
    for huge in [1_000_000_000_000, 1 << 62, usize::MAX] {
        for key in ["series", "rows", "features"] {
            let mut settings = settings(dir.path());
            let made = &mut settings.generate;
            let setting = match key {
                "series" => &mut made.series,
                "rows" => &mut made.rows,
                _ => &mut made.features,
            };
            *setting = huge.try_into().unwrap();
            let error = load(&settings).unwrap_err();
            assert!(matches!(error, LoadError::TooLarge { .. }) && error.is_setting(), "{error}");
            let text = error.to_string();
            let expected = format!("source.generate.{key} = {huge} cannot be used: at most ");
            assert!(text.starts_with(&expected) && !text.contains('\n'), "{text}");
        }
    }
    assert!(folders(dir.path()).is_empty());
}

const CHILD_IMPORT: &str = "MILLSTREAM_TEST_CHILD_IMPORT";

/// A child that cannot see our process, where the machine allows that; otherwise any other process.
fn in_another_namespace(program: &Path) -> Command {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork"]);
        command
    };
    match unshare().arg("true").output() {
        Ok(output) if output.status.success() => {
            let mut command = unshare();
            command.arg(program);
            command
        }
        _ => Command::new(program),
    }
}

#[test]
fn a_process_that_cannot_see_ours_leaves_what_we_write_alone() {
    let target = vec!["close_pct".to_owned()];
    if let Some(cache) = env::var_os(CHILD_IMPORT) {
        let mut other = settings(Path::new(&cache));
        other.generate.seed = 8;
        let go_on = &mut |_| ControlFlow::Continue(());
        import(&other, &target, go_on, &Warnings::default()).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let partial = || {
        let mut folders = folders(dir.path());
        folders.retain(|name| name.contains(".partial-"));
        folders
    };
    let mut before = None;
    let observe = &mut |_| {
        if before.is_none() {
            let name = "crowd::a_process_that_cannot_see_ours_leaves_what_we_write_alone";
            let ours = partial();
            let mut child = in_another_namespace(&env::current_exe().unwrap());
            child.args(["--exact", name, "--nocapture"]).env(CHILD_IMPORT, dir.path());
            let output = child.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!((ours.len(), partial()), (1, ours.clone()));
            before = Some(ours);
        }
        ControlFlow::Continue(())
    };
    import(&settings(dir.path()), &target, observe, &Warnings::default()).unwrap();
    assert_eq!((folders(dir.path()).len(), partial().len()), (2, 0));
}
