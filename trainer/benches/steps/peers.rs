//! The peers: the same network in the loop that people write in PyTorch, in its usual form and in
//! the best that its documentation shows, in a Python process of its own.
//!
//! What they do is in `peers.py`, with the models of `model/python/reference.py`. They get the same
//! batches and the same first weights, and must come to the same loss.

use crate::{
    agree::{self, Learned},
    cases::{self, Method, Who},
    harness::{
        Failure, child,
        report::{Report, Skipped},
        rounds::Outcome,
        sample::Sample,
    },
    workload::{Kind, SLOTS, Work},
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};
use tch::Tensor;
use tempfile::TempDir;

/// Names in `peers.py`.
const PEERS: [&str; 2] = ["pytorch-usual", BEST];

const BEST: &str = "pytorch-best";

/// Ours and the peers.
pub(crate) fn methods() -> Vec<Method> {
    let all = || [Who::Ours].into_iter().chain(PEERS.map(Who::Peer));
    Kind::ALL.into_iter().flat_map(|kind| all().map(move |who| Method { who, kind })).collect()
}

/// The Python that the peers run in, and the files that they read.
pub(crate) struct Peers {
    python: PathBuf,
    folder: TempDir,
}

impl Peers {
    /// Writes the files: for each kind of work what it is, its batches and its first weights.
    pub(crate) fn new(
        python: &Path,
        work: &[Work],
        agreed: &[Learned],
        threads: usize,
    ) -> Result<Self, Failure> {
        let peers = Peers { python: python.to_path_buf(), folder: tempfile::tempdir()? };
        for (work, agreed) in work.iter().zip(agreed) {
            let (folder, settings) = (peers.folder_of(work.kind), &work.settings);
            fs::create_dir(&folder)?;
            let shape = serde_json::json!({
                "inputs": work.tensors(0).0.size(), "targets": work.tensors(0).1.size(),
                "slots": SLOTS, "timed_steps": work.timed_steps, "threads": threads,
                "learning_rate": settings.learning_rate, "weight_decay": settings.decay(),
                "clip_norm": settings.clip_norm, "loss": agreed.loss,
            });
            fs::write(folder.join("shape.json"), shape.to_string())?;
            let batches = || (0..SLOTS as u64).map(|slot| work.tensors(slot));
            write(&folder.join("inputs.f32"), batches().map(|(inputs, _)| inputs))?;
            write(&folder.join("targets.f32"), batches().map(|(_, targets)| targets))?;
            agree::save_first(work, &folder.join("run"))?;
        }
        Ok(peers)
    }

    /// A peer, in a process of its own.
    pub(crate) fn measure(&self, name: &str, kind: Kind) -> Result<Sample<()>, Failure> {
        // Cargo says where the sources are when it runs a bench.
        let package = env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from);
        let mut command = Command::new(&self.python);
        command.arg(package.join("benches/steps/peers.py")).arg(name).arg(self.folder_of(kind));
        if name == BEST {
            // What ours asks of malloc, in the form that other programs have for it.
            let most = (1_u64 << 30).to_string();
            command
                .envs(["MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"].map(|key| (key, &most)));
        }
        child::answer(&mut command)
    }

    fn folder_of(&self, kind: Kind) -> PathBuf {
        self.folder.path().join(kind.case())
    }
}

/// The values of tensors, one after the other.
fn write<'a>(path: &Path, tensors: impl Iterator<Item = &'a Tensor>) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    for tensor in tensors {
        let values: Vec<f32> = tensor.flatten(0, -1).try_into()?;
        bytes.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
    }
    Ok(fs::write(path, bytes)?)
}

/// Ours beside every peer: a ratio above 1 means that ours takes less.
pub(crate) fn compare(outcomes: &[Outcome<Method, ()>], work: &[Work]) -> Report {
    let mut report = Report::default();
    for work in work {
        let kind = work.kind;
        let find = |who| outcomes.iter().find(|outcome| outcome.method == Method { who, kind });
        for name in PEERS {
            let case = format!("{}-beside-{name}", kind.case());
            let (Some(ours), Some(peer)) = (find(Who::Ours), find(Who::Peer(name))) else {
                continue;
            };
            match &peer.failure {
                None => report.cases.extend(cases::pair(&case, ours, peer, &peer.name(), work)),
                Some(reason) => {
                    let reason = reason.clone();
                    report.skipped.push(Skipped { stage: "trainer", case, reason });
                }
            }
        }
    }
    report
}
