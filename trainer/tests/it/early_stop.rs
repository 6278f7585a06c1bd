//! Training ends when the validation loss no longer falls, with the best weights, however far ahead the
//! batches were made.

use crate::stream::{Stream, settings, trainer};
use millstream_data::{Phase, Tag};
use millstream_stage::{Ending, Sink};
use millstream_trainer::{Progress, Schedule, TrainReport, TrainSettings, Trainer, read_position};
use std::{cell::RefCell, fs, path::Path, rc::Rc};

const EPOCHS: u32 = 12;

/// At such a rate the loss does not fall for long.
fn impatient(early_stop: u32) -> TrainSettings {
    let mut settings = settings();
    (settings.learning_rate, settings.early_stop, settings.epochs) = (0.5, early_stop, EPOCHS);
    settings.schedule = Schedule::Constant;
    settings
}

/// Feeds a trainer as normalize does that is so many batches ahead, and says how many came.
fn feed(stream: &Stream, trainer: &mut Trainer, first: Option<Tag>, ahead: usize) -> usize {
    let plan = &stream.plan;
    let (mut queue, mut next, mut count) = (Vec::new(), first, 0);
    loop {
        while let (true, Some(tag)) = (queue.len() <= ahead, next) {
            queue.push(tag);
            next = plan.still_wanted(plan.after(tag));
        }
        if queue.is_empty() {
            return count;
        }
        let _flow = trainer.accept(stream.batch(queue.remove(0))).unwrap();
        count += 1;
    }
}

fn files(run: &Path) -> Vec<Vec<u8>> {
    ["last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"]
        .map(|name| fs::read(run.join("checkpoints").join(name)).unwrap())
        .into()
}

fn run(settings: TrainSettings, run: &Path, ahead: usize) -> (TrainReport, usize) {
    let stream = Stream::new(EPOCHS, [60, 40, 40]);
    let mut trainer = trainer(settings, run);
    let count = feed(&stream, &mut trainer, stream.plan.first(), ahead);
    (trainer.finish(Ending::Drained).unwrap(), count)
}

#[test]
fn it_ends_with_the_best_weights_and_the_same_bits_whatever_was_made_ahead() {
    let never = tempfile::tempdir().unwrap();
    let (whole, all) = run(impatient(0), never.path(), 0);
    assert_eq!((whole.stopped_after, whole.losses.len()), (None, EPOCHS as usize));

    let expected = tempfile::tempdir().unwrap();
    let (report, count) = run(impatient(2), expected.path(), 0);
    let (last, best) = (report.stopped_after.unwrap(), report.best_epoch.unwrap());
    assert_eq!(last, best + 2, "two epochs without a lower loss");
    assert_eq!(report.losses.len(), last as usize);
    assert_eq!(report.losses[..], whole.losses[..last as usize], "until then they are the same");
    assert!(report.test.is_some() && count < all, "{count} of {all} batches");
    assert!(read_position(expected.path()).unwrap().finished);
    for ahead in [1, 5, 30, 1000] {
        let other = tempfile::tempdir().unwrap();
        let (found, _) = run(impatient(2), other.path(), ahead);
        assert_eq!((found.test, found.losses), (report.test.clone(), report.losses.clone()));
        assert!(files(other.path()) == files(expected.path()), "{ahead} batches ahead");
    }
}

#[test]
fn an_interrupted_run_stops_where_it_would_have_and_goes_on_with_its_test() {
    let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (expected, _) = run(impatient(2), whole.path(), 0);
    let stream = Stream::new(EPOCHS, [60, 40, 40]);
    let resume = || Trainer::resume(impatient(2), cut.path(), Box::new(|_| {})).unwrap();
    // In the first epoch, then in the middle of the test.
    let mut first = trainer(impatient(2), cut.path());
    stream.feed(&mut first, &stream.tags()[..5]).unwrap();
    first.finish(Ending::Interrupted).unwrap();
    let position = read_position(cut.path()).unwrap();
    let mut second = resume();
    let mut next = stream.plan.resumed(position.epoch, position.index);
    while let Some(tag) = next.filter(|tag| (tag.phase, tag.index) != (Phase::Test, 1)) {
        let _flow = second.accept(stream.batch(tag)).unwrap();
        next = stream.plan.still_wanted(stream.plan.after(tag));
    }
    second.finish(Ending::Interrupted).unwrap();
    let position = read_position(cut.path()).unwrap();
    assert_eq!((position.epoch, position.finished), (EPOCHS + 1, false));

    let stream = Stream::new(EPOCHS, [60, 40, 40]);
    let mut third = resume();
    let from = stream.plan.resumed(position.epoch, position.index);
    assert_eq!(feed(&stream, &mut third, from, 0), 3, "the test windows are left");
    let report = third.finish(Ending::Drained).unwrap();
    assert_eq!((report.test, report.losses), (expected.test, expected.losses));
    assert_eq!(report.stopped_after, expected.stopped_after);
    assert!(files(cut.path()) == files(whole.path()));
    assert!(read_position(cut.path()).unwrap().finished);
}

#[test]
fn it_is_told_and_without_a_test_part_it_is_the_end() {
    let (folder, told) = (tempfile::tempdir().unwrap(), Rc::new(RefCell::new(None)));
    let mine = Rc::clone(&told);
    let note = move |progress: &Progress| {
        if let Progress::StoppedEarly { epoch, best_epoch } = *progress {
            *mine.borrow_mut() = Some((epoch, best_epoch));
        }
    };
    let stream = Stream::new(EPOCHS, [60, 40, 0]);
    let mut trainer = Trainer::new(impatient(2), folder.path(), Box::new(note)).unwrap();
    feed(&stream, &mut trainer, stream.plan.first(), 10);
    let report = trainer.finish(Ending::Drained).unwrap();
    let expected = (report.stopped_after.unwrap(), report.best_epoch.unwrap());
    assert_eq!(*told.borrow(), Some(expected));
    assert!(report.test.is_none() && read_position(folder.path()).unwrap().finished);
}

#[test]
fn without_a_validation_part_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let stream = Stream::new(EPOCHS, [60, 0, 0]);
    let mut trainer = trainer(impatient(2), folder.path());
    let error = stream.feed(&mut trainer, &stream.tags()).unwrap_err().to_string();
    let expected = "train.early_stop is 2, but must be 0 where there are no validation windows";
    assert!(error.starts_with(expected), "{error}");
}
