//! The peers: the libraries that people make batches and scale tables with today, each in its usual
//! form and in the best that its documentation shows, in a Python process of its own.
//!
//! What each of them does is in `peers.py`, which versions in `requirements.txt`. All of them get
//! the panel, the order of the windows and our numbers; what they make of it is compared with ours
//! before their clock starts.

use crate::{
    cases,
    fill::{Kind, SLOTS},
    harness::{
        Failure, child,
        report::{Report, Skipped},
        rounds::Outcome,
        sample::Sample,
    },
    method::{Method, THREADS, Work},
    workload::{BATCH, FEATURES},
};
use millstream_normalize::{Fitted, fit};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Name in `peers.py`, and what of ours it stands beside.
const PEERS: [(&str, Method); 12] = [
    ("dataloader-usual-0", Method::Fill(Kind::Plain)),
    ("dataloader-usual-2", Method::Fill(Kind::Plain)),
    ("dataloader-prenormalised-0", Method::Fill(Kind::Plain)),
    ("dataloader-prenormalised-2", Method::Fill(Kind::Plain)),
    ("numpy-gather-normalise", Method::Fill(Kind::Plain)),
    ("torch-gather-normalise", Method::Fill(Kind::Plain)),
    ("torch-gather-normalise-windows", Method::Fill(Kind::Plain)),
    ("torch-index-select", Method::Fill(Kind::Plain)),
    ("torch-index-select-windows", Method::Fill(Kind::Plain)),
    ("torch-index-select-one-buffer", Method::FillOneSlot),
    ("standard-scaler", Method::Prepare),
    ("standard-scaler-partial", Method::Prepare),
];

/// Batches that every peer's are compared with.
const CHECKED: u64 = 2;

/// Ours and the peers.
pub(crate) fn methods() -> Vec<Method> {
    let peers = PEERS.map(|(name, _)| Method::Peer(name));
    [Method::Fill(Kind::Plain), Method::FillOneSlot, Method::Prepare]
        .into_iter()
        .chain(peers)
        .collect()
}

/// The Python that the peers run in, and the files that they read.
pub(crate) struct Peers {
    python: PathBuf,
    folder: PathBuf,
}

impl Peers {
    /// Writes the files.
    pub(crate) fn new(python: &Path, work: &mut Work) -> Result<Self, Failure> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("normalize-peers");
        fs::create_dir_all(&folder)?;
        let peers = Peers { python: python.to_path_buf(), folder };
        eprintln!("writing what the peers read to {}", peers.folder.display());

        let [shard] = work.panel.shards() else { unreachable!("the panel is one piece") };
        peers.write("panel.f32", shard.values().iter().flat_map(|x| x.to_ne_bytes()))?;
        let settings = crate::workload::settings();
        let Fitted { scaling, .. } = fit(&work.panel, work.split.train(), &settings)?;
        let offsets = scaling.features.iter().map(|column| column.fit.offset);
        let scales = scaling.features.iter().map(|column| column.fit.scale);
        peers.write("scaling.f64", offsets.chain(scales).flat_map(f64::to_ne_bytes))?;

        let batches = work.size.batches;
        let fill = work.fill(Kind::Plain);
        peers.write("spans.i64", fill.spans.iter().flat_map(|row| (*row as i64).to_ne_bytes()))?;
        peers.write("batches.f32", fill.first(CHECKED).into_iter().flat_map(f32::to_ne_bytes))?;
        let rows = work.panel.row_count();
        let scaled = work.fill(Kind::Plain).rows.inputs(0, rows);
        peers.write("scaled.f32", scaled.iter().flat_map(|x| x.to_ne_bytes()))?;
        let shape = serde_json::json!({
            "rows": rows, "features": FEATURES, "batch": BATCH, "batches": batches,
            "lookback": settings.window.lookback, "threads": THREADS, "slots": SLOTS,
        });
        peers.write("shape.json", shape.to_string().into_bytes())?;
        Ok(peers)
    }

    fn write(&self, name: &str, bytes: impl IntoIterator<Item = u8>) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let bytes: Vec<u8> = bytes.into_iter().collect();
        fs::write(&path, bytes)
            .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
    }

    /// Ours in this process, a peer in one of its own.
    pub(crate) fn measure(&self, method: Method, work: &mut Work) -> Result<Sample<()>, Failure> {
        let Method::Peer(name) = method else { return work.measure(method) };
        // Cargo says where the sources are when it runs a bench.
        let package = env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from);
        let mut command = Command::new(&self.python);
        command.arg(package.join("benches/batches/peers.py")).arg(name).arg(&self.folder);
        child::answer(&mut command)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("cannot remove {}: {error}", self.folder.display());
        }
    }
}

/// Ours beside every peer: a ratio above 1 means that ours takes less.
pub(crate) fn compare(outcomes: &[Outcome<Method, ()>], work: &Work) -> Report {
    let find = |method: Method| outcomes.iter().find(|outcome| outcome.method == method);
    let mut report = Report::default();
    for (name, ours) in PEERS {
        let work_done = if ours == Method::Prepare { "fit-apply" } else { "fill-shuffled" };
        let case = format!("{work_done}-beside-{name}");
        let (Some(ours), Some(peer)) = (find(ours), find(Method::Peer(name))) else { continue };
        match &peer.failure {
            None => report.cases.extend(cases::pair(&case, ours, peer, &peer.name(), work)),
            Some(reason) => {
                report.skipped.push(Skipped { stage: "normalize", case, reason: reason.clone() });
            }
        }
    }
    report
}
