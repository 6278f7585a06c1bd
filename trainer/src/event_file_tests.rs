//! Framing, names, going on, damage. What TensorBoard itself makes of a file is tested in `pipeline`.

use super::*;
use crate::event_messages::Content;

/// The first `length` bytes, whose checksum must follow them, and what follows that.
fn checked(bytes: &[u8], length: usize) -> (&[u8], &[u8]) {
    let (part, rest) = bytes.split_at(length);
    let (sum, rest) = rest.split_at(4);
    assert_eq!(checksum(part), sum);
    (part, rest)
}

/// The steps of every value in a run's files, as a reader finds them.
fn steps(run_dir: &Path) -> Vec<i64> {
    let mut steps = Vec::new();
    for name in names(run_dir) {
        let bytes = fs::read(run_dir.join(name)).unwrap();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (length, after) = checked(rest, 8);
            let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
            let (message, after) = checked(after, length);
            rest = after;
            let Event { step, what, .. } = Event::decode(message).unwrap();
            let Some(What::Summary(Summary { values })) = what else { continue };
            for Value { tag, content, .. } in values {
                assert_eq!(tag, "train/loss");
                assert_eq!(content, Some(Content::Scalar(step as f32 / 2.0)));
                steps.push(step);
            }
        }
    }
    steps
}

fn add(events: &mut EventFile, step: u64) {
    events.add(step, vec![Value::scalar("train/loss", step as f64 / 2.0)]).unwrap();
}

#[test]
fn a_record_is_framed_as_the_format_has_it() {
    // How every file begins that TensorFlow writes: a length of 24, and its checksum.
    assert_eq!(record(&[0; 24])[..12], [24, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22]);
    // RFC 3720, B.4: the sum of 32 zeros is 8a9136aa.
    let masked = 0x8a91_36aa_u32.rotate_right(15).wrapping_add(0xa282_ead8);
    assert_eq!(checksum(&[0; 32]), masked.to_le_bytes());
}

#[test]
fn figures_are_named_after_their_part_and_places_are_none() {
    let line = serde_json::json!({"step": 3, "epoch": 1, "loss": 0.5, "ic": null, "name": "x"});
    assert_eq!(figures("train", &line), [Value::scalar("train/loss", 0.5)]);
    assert_eq!(figures("test", &None::<f64>), []);
}

#[test]
fn what_came_after_the_checkpoint_is_gone_when_a_run_goes_on() {
    let run = tempfile::tempdir().unwrap();
    let others = run.path().join("events.out.tfevents.9999999999.elsewhere");
    fs::write(&others, "of others").unwrap();
    let warnings = Warnings::default();
    let resume =
        |mark: &EventMark, step| EventFile::resume(run.path(), Some(mark), step, &warnings);
    let mut events = EventFile::create(run.path()).unwrap();
    add(&mut events, 1);
    let first = events.mark();
    add(&mut events, 2);

    // Crashes in a row: the later ones leave a file that the checkpoint does not know.
    for _ in 0..3 {
        let mut events = resume(&first, 1).unwrap();
        assert_eq!(steps(run.path()), [1]);
        assert_eq!(names(run.path()).len(), 2);
        add(&mut events, 2);
    }
    let mut events = resume(&first, 1).unwrap();
    add(&mut events, 2);
    let second = events.mark();
    let mut events = resume(&second, 2).unwrap();
    add(&mut events, 3);
    assert_eq!(steps(run.path()), [1, 2, 3]);
    assert_eq!(names(run.path()).len(), 3);
    assert!(warnings.all().is_empty() && others.exists());
}

#[test]
fn the_files_of_a_run_from_before_there_were_any_begin_when_it_goes_on() {
    let run = tempfile::tempdir().unwrap();
    let mut events = EventFile::resume(run.path(), None, 7, &Warnings::default()).unwrap();
    add(&mut events, 8);
    assert_eq!(steps(run.path()), [8]);
    events.discard().unwrap();
    assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0);
}

#[test]
fn damage_is_a_warning() {
    let run = tempfile::tempdir().unwrap();
    let mut events = EventFile::create(run.path()).unwrap();
    (1..=3).for_each(|step| add(&mut events, step));
    let (mark, path) = (events.mark(), events.path.clone());
    let good = fs::read(&path).unwrap();
    let resume = || {
        let warnings = Warnings::default();
        drop(EventFile::resume(run.path(), Some(&mark), 3, &warnings).unwrap());
        warnings.all().len()
    };
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(resume(), 1, "byte {at}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    fs::write(&path, &good[..good.len() - 3]).unwrap();
    assert_eq!(resume(), 1);
    // Somebody may have cleared up.
    fs::remove_file(&path).unwrap();
    assert_eq!((resume(), steps(run.path())), (0, vec![]));
}
