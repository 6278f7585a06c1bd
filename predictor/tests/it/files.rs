//! The file of forecasts: written whole or not at all, and over nothing but a file.

use crate::sample::{
    CHECKPOINT_FILES, batches, checkpoint, contract, find, names, plan, predictor,
};
use millstream_data::TimeKind;
use millstream_predictor::{Output, Predictor};
use millstream_stage::{Ending, Sink};
use std::{fs, path::Path};

#[test]
fn an_interrupted_or_dropped_predictor_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let contract = contract(Some("symbol"), TimeKind::Date);
    checkpoint(folder.path(), &contract);
    let output = || Output::file(folder.path().join("forecasts.parquet")).unwrap();
    for interrupt in [true, false] {
        let mut predictor = predictor(folder.path(), output());
        let first = batches(&plan(&contract)).swap_remove(0);
        let _flow = predictor.accept(first).unwrap();
        assert_eq!(names(folder.path()).len(), 5, "the partial file is there");
        if interrupt {
            let report = predictor.finish(Ending::Interrupted).unwrap();
            assert_eq!((report.windows, report.output), (2, None));
        } else {
            drop(predictor);
        }
        assert_eq!(names(folder.path()), CHECKPOINT_FILES);
    }
}

#[test]
fn only_a_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &contract(Some("symbol"), TimeKind::Date));
    let refused = |path: &Path| {
        let output = Output::file(path.to_owned()).unwrap();
        Predictor::with_models(folder.path(), output, Box::new(|_| {}), &find)
            .unwrap_err()
            .to_string()
    };
    let place = |name: &str| folder.path().join(name);
    fs::create_dir(place("folder")).unwrap();
    std::os::unix::fs::symlink("nowhere", place("dangling")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(place("socket")).unwrap();
    for (name, what) in [("folder", "a folder"), ("dangling", "a link"), ("socket", "no regular")] {
        let error = refused(&place(name));
        assert!(error.contains(what) && error.contains("--output"), "{error}");
    }
    drop(socket);
    let null = refused(Path::new("/dev/null"));
    assert!(null.contains("/dev/null is no regular file"), "{null}");

    // What a link leads to is replaced, and the link stays.
    fs::write(place("real.csv"), "old").unwrap();
    std::os::unix::fs::symlink("real.csv", place("link.csv")).unwrap();
    predictor(folder.path(), Output::file(place("link.csv")).unwrap())
        .finish(Ending::Drained)
        .unwrap();
    assert!(place("link.csv").is_symlink());
    assert!(fs::read_to_string(place("real.csv")).unwrap().starts_with("symbol,day"));
}

#[test]
fn a_stream_without_batches_gives_an_empty_table() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &contract(Some("symbol"), TimeKind::Date));
    let path = folder.path().join("forecasts.csv");
    let report = predictor(folder.path(), Output::file(path.clone()).unwrap())
        .finish(Ending::Drained)
        .unwrap();
    assert_eq!(report.rows, 0);
    assert_eq!(
        fs::read_to_string(path).unwrap(),
        "symbol,day,step,target_time,y_forecast,y,z_forecast,z\n"
    );
}

#[test]
fn two_that_write_the_same_file_leave_one_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let contract = contract(Some("symbol"), TimeKind::Date);
    checkpoint(folder.path(), &contract);
    let path = folder.path().join("forecasts.csv");
    // Left by a process that was killed.
    fs::write(folder.path().join(".forecasts.csv.partial-1"), "half").unwrap();
    let mut both = [(); 2].map(|()| predictor(folder.path(), Output::file(path.clone()).unwrap()));
    for predictor in &mut both {
        for batch in batches(&plan(&contract)) {
            let _flow = predictor.accept(batch).unwrap();
        }
    }
    let [first, second] = both;
    first.finish(Ending::Drained).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 7);
    second.finish(Ending::Drained).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(names(folder.path()).len(), 5, "{:?}", names(folder.path()));
}
