//! The cache: bit-equal, whole or absent, and honest about damage.

use crate::support::{load, rows};
use millstream_loader::{
    GenerateSettings, ImportReport, LoadError, LoadProgress, Loader, Origin, SourceKind,
    SourceSettings, import, verify,
};
use millstream_stage::{Source, Warnings};
use std::{
    fs,
    ops::ControlFlow,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

fn settings(cache: &Path) -> SourceSettings {
    let size = |n: usize| n.try_into().unwrap();
    SourceSettings {
        cache: cache.to_str().unwrap().to_owned(),
        generate: GenerateSettings {
            series: size(300),
            rows: size(100),
            features: size(20),
            missing: 0.1,
            ..GenerateSettings::default()
        },
        ..SourceSettings::default()
    }
}

fn target() -> Vec<String> {
    vec!["close_pct".to_owned()]
}

fn import_now(settings: &SourceSettings) -> ImportReport {
    let go_on = &mut |_| ControlFlow::Continue(());
    import(settings, &target(), go_on, &Warnings::default()).unwrap()
}

fn verify_now(settings: &SourceSettings, required: &[String]) -> Result<ImportReport, LoadError> {
    let go_on = &mut |_| ControlFlow::Continue(());
    verify(settings, required, go_on, &Warnings::default())
}

/// Loads and says where the rows came from.
fn load_from(settings: &SourceSettings) -> (Origin, u64) {
    let (sender, receiver) = mpsc::channel();
    let mut loader = Loader::new(settings.clone(), target()).on_progress(Box::new(
        move |progress: LoadProgress| {
            sender.send(progress).unwrap();
            ControlFlow::Continue(())
        },
    ));
    let panel = loader.next().unwrap().unwrap();
    drop(loader);
    let told: Vec<LoadProgress> = receiver.iter().collect();
    let (first, last) = (told[0], told[told.len() - 1]);
    assert_eq!(last.rows, panel.row_count() as u64);
    let writes = first.origin == Origin::Source && !settings.cache.is_empty();
    assert_eq!(last.origin, if writes { Origin::Writing } else { first.origin });
    (first.origin, last.rows)
}

/// The folders of a cache.
fn entries(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache).unwrap().map(|e| e.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

fn only_entry(cache: &Path) -> PathBuf {
    let mut entries = entries(cache);
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.remove(0)
}

#[test]
fn a_cached_panel_is_the_same_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let cached = settings(dir.path());
    let direct = load(&SourceSettings { cache: String::new(), ..cached.clone() }).unwrap();
    for origin in [Origin::Source, Origin::Cache] {
        assert_eq!(load_from(&cached).0, origin);
        let panel = load(&cached).unwrap();
        assert_eq!(panel.schema(), direct.schema());
        assert_eq!(rows(&panel), rows(&direct));
    }
    assert!(rows(&direct).iter().any(|(_, _, bits)| bits.contains(&f32::NAN.to_bits())));
}

#[test]
fn other_settings_and_targets_are_other_panels() {
    let dir = tempfile::tempdir().unwrap();
    let base = settings(dir.path());
    load(&base).unwrap();
    let mut other = base.clone();
    other.generate.seed = 8;
    assert_eq!(load_from(&other).0, Origin::Source);
    let mut fewer = base.clone();
    fewer.symbols = vec!["S001".to_owned()];
    assert_eq!(load_from(&fewer).0, Origin::Source);
    // A target among the features adds nothing to the panel, one beside them does.
    let verified = |settings, target: &str| {
        verify_now(settings, &[target.to_owned()]).map(|report| report.rows)
    };
    assert!(verified(&base, "f001").is_ok());
    let narrow = SourceSettings { features: vec!["f002".to_owned()], ..base.clone() };
    assert!(matches!(verified(&narrow, "f001"), Err(LoadError::NoCache { .. })));
    assert_eq!(load_from(&base).0, Origin::Cache);
}

#[test]
fn a_changed_file_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.csv");
    fs::write(&file, "symbol,trade_date,close_pct\na,1,1\n").unwrap();
    let settings = SourceSettings {
        kind: SourceKind::Csv,
        path: Some(file.to_str().unwrap().to_owned()),
        cache: dir.path().join("cache").to_str().unwrap().to_owned(),
        ..SourceSettings::default()
    };
    assert_eq!(load_from(&settings), (Origin::Source, 1));
    assert_eq!(load_from(&settings), (Origin::Cache, 1));
    fs::write(&file, "symbol,trade_date,close_pct\na,1,1\na,2,2\n").unwrap();
    assert_eq!(load_from(&settings), (Origin::Source, 2));
}

/// As `cp -p`, `rsync --inplace --times` and programs that map a file leave it.
#[test]
fn a_file_that_is_changed_in_place_under_its_old_size_and_time_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.csv");
    fs::write(&file, "symbol,trade_date,close_pct\na,1,1\n").unwrap();
    let settings = SourceSettings {
        kind: SourceKind::Csv,
        path: Some(file.to_str().unwrap().to_owned()),
        cache: dir.path().join("cache").to_str().unwrap().to_owned(),
        ..SourceSettings::default()
    };
    let value = || load(&settings).unwrap().shards()[0].values()[0];
    assert_eq!(value(), 1.0);
    let before = fs::metadata(&file).unwrap();
    let (modified, status) =
        (before.modified().unwrap(), |meta: &fs::Metadata| (meta.ctime(), meta.ctime_nsec()));
    // The system's clock of files ticks a few hundred times a second.
    while status(&fs::metadata(&file).unwrap()) == status(&before) {
        fs::write(&file, "symbol,trade_date,close_pct\na,1,2\n").unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    }
    let after = fs::metadata(&file).unwrap();
    assert_eq!((after.len(), after.modified().unwrap()), (before.len(), modified));
    assert_eq!(value(), 2.0);
    assert_eq!(load_from(&settings), (Origin::Cache, 1));
}

fn check_damage(damage: impl Fn(&Path), expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    load(&settings).unwrap();
    damage(&only_entry(dir.path()).join("shard-0000.arrow"));
    for error in [load(&settings).unwrap_err(), verify_now(&settings, &target()).unwrap_err()] {
        let error = error.to_string();
        assert!(error.contains(expected), "{error}");
        assert!(
            error.contains("shard-0000.arrow") && error.contains("run `millstream import`"),
            "{error}"
        );
    }
    import_now(&settings);
    load(&settings).unwrap();
}

#[test]
fn a_flipped_bit_is_found_and_its_mib_named() {
    let flip = |at: usize| {
        move |shard: &Path| {
            let mut bytes = fs::read(shard).unwrap();
            bytes[at] ^= 1;
            fs::write(shard, bytes).unwrap();
        }
    };
    check_damage(flip(0), "is damaged: MiB 0 does");
    check_damage(flip((1 << 20) + 12_345), "is damaged: MiB 1 does");
}

#[test]
fn a_shard_that_breaks_off_or_is_gone_is_found() {
    let cut = |shard: &Path| {
        let bytes = fs::read(shard).unwrap();
        fs::write(shard, &bytes[..bytes.len() - 1]).unwrap();
    };
    check_damage(cut, "is damaged from MiB 2 on");
    check_damage(|shard| fs::write(shard, "").unwrap(), "is damaged from MiB 0 on: it has 0 bytes");
    check_damage(|shard| fs::remove_file(shard).unwrap(), "cannot read");
}

#[test]
fn a_folder_without_a_manifest_of_this_version_is_no_cache() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    load(&settings).unwrap();
    let manifest = only_entry(dir.path()).join("manifest.json");
    fs::write(&manifest, "{\"version\": 0}").unwrap();
    assert_eq!(load_from(&settings).0, Origin::Source);
    fs::remove_file(&manifest).unwrap();
    assert_eq!(load_from(&settings).0, Origin::Source);
    assert_eq!(load_from(&settings).0, Origin::Cache);
    only_entry(dir.path());
}

/// Two containers that share a volume both have a process 1: numbers say nothing, locks do.
#[test]
fn what_nobody_holds_is_removed_and_what_others_write_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let partial = |name: &str| {
        let folder = dir.path().join(name);
        fs::create_dir_all(folder.join("inner")).unwrap();
        let lock = fs::File::create(folder.join("lock")).unwrap();
        (folder, lock)
    };
    // Process numbers end far below this one.
    let (living, held) = partial("00.partial-4194999999-0");
    let (namesake, also_held) = partial(&format!("00.partial-{}-0", std::process::id()));
    let (left, lock) = partial("00.partial-1-0");
    held.lock().unwrap();
    also_held.lock().unwrap();
    drop(lock);
    let load_other = |series: &str| {
        let symbols = vec![series.to_owned()];
        load(&SourceSettings { symbols, ..settings(dir.path()) }).unwrap();
    };
    load_other("S001");
    assert!(living.join("inner").exists(), "its lock is held");
    assert!(namesake.join("inner").exists(), "its lock is held, whatever the number");
    assert!(!left.exists(), "its lock is not held");
    drop((held, also_held));
    load_other("S002");
    assert!(!living.exists() && !namesake.exists());
}

/// A folder of somebody else may not be removable; root can remove everything but what is immutable.
#[test]
fn what_cannot_be_removed_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("00.partial-1-0");
    fs::create_dir_all(&folder).unwrap();
    // A lock that cannot be opened, as that of another user cannot.
    std::os::unix::net::UnixListener::bind(folder.join("lock")).unwrap();
    load(&settings(dir.path())).unwrap();
    assert!(folder.exists());
}

#[test]
fn import_replaces_a_panel_that_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    let before = load(&settings).unwrap();
    let expected = rows(&before);
    let report = import_now(&settings);
    assert_eq!(rows(&before), expected);
    assert_eq!((report.rows, report.series), (before.row_count() as u64, 300));
    assert_eq!(entries(dir.path()).len(), 2, "what is in use stays");
    drop(before);
    let report = import_now(&settings);
    assert_eq!(report.cache.as_deref(), Some(only_entry(dir.path()).as_path()));
    let verified = verify_now(&settings, &target()).unwrap();
    assert_eq!((verified.rows, verified.bytes), (report.rows, report.bytes));
    let off = SourceSettings { cache: String::new(), ..settings };
    let json = serde_json::to_value(import_now(&off)).unwrap();
    assert!(json["cache"].is_null() && json["bytes"] == report.bytes);
}

#[test]
fn a_panel_that_is_replaced_all_the_time_can_be_opened_all_the_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(dir.path());
    settings.generate.series = 5.try_into().unwrap();
    load(&settings).unwrap();
    let stop = AtomicBool::new(false);
    let opened = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    import_now(&settings);
                }
            });
        }
        let opened: Vec<_> = (0..300).map(|_| catch(|| load_from(&settings).0)).collect();
        stop.store(true, Ordering::Relaxed);
        opened
    });
    assert!(opened.iter().all(|origin| *origin == Some(Origin::Cache)), "{opened:?}");
}

/// What it gives, unless it panics: the other threads must be told to stop then, too.
fn catch<T>(work: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok()
}

#[test]
fn every_flipped_byte_of_a_manifest_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(dir.path());
    settings.generate.series = 2.try_into().unwrap();
    settings.generate.features = 1.try_into().unwrap();
    let whole = load(&settings).unwrap();
    let manifest = only_entry(dir.path()).join("manifest.json");
    let text = fs::read(&manifest).unwrap();
    let mut refused = 0;
    for at in 0..text.len() {
        let mut damaged = text.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&manifest, &damaged).unwrap();
        match load(&settings) {
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("manifest.json"), "byte {at}: {error}");
            }
            // Of another version: read anew, and written again.
            Ok(panel) => {
                assert_eq!((panel.schema(), rows(&panel)), (whole.schema(), rows(&whole)), "{at}");
                assert_ne!(fs::read(&manifest).unwrap(), damaged, "byte {at} went unnoticed");
            }
        }
    }
    assert!(refused > text.len() - 10, "{refused} of {}", text.len());
}

#[test]
fn loaders_that_race_for_the_cache_all_get_the_panel() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    let prints: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| load(&settings).unwrap().schema().fingerprint.clone()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(prints.iter().all(|print| *print == prints[0]));
    only_entry(dir.path());
}

#[test]
fn a_cache_that_cannot_be_written_is_named_with_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a-file");
    fs::write(&file, "").unwrap();
    let error = load(&settings(&file.join("cache"))).unwrap_err().to_string();
    assert!(error.contains("a-file") && error.contains("source.cache"), "{error}");
}
