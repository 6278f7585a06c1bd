//! [`WorkFolder`]: a folder with a small table, in which the command runs; it is killed when it hangs.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use std::{
    ffi::OsString,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// No run on this data takes a second of CPU; on a busy machine this is far away all the same.
const HANGS: Duration = Duration::from_secs(60);
/// What has not ended by then works on something large, and can be stopped.
const WORKS: Duration = Duration::from_secs(15);
const SERIES: usize = 24;
const ROWS: usize = 80;

/// A folder to run in.
pub(crate) struct WorkFolder {
    folder: TempDir,
}

/// What a command did.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl WorkFolder {
    pub(crate) fn new(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("pipeline.toml"), settings).unwrap();
        std::fs::write(folder.path().join("data.csv"), table(1)).unwrap();
        std::fs::write(folder.path().join("other.csv"), table(2)).unwrap();
        WorkFolder { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the command; `Err` when it did not end.
    pub(crate) fn run(&self, args: &[String]) -> Result<Ran, String> {
        self.run_with(args, &[])
    }

    /// The same with these environment variables.
    pub(crate) fn run_with(
        &self,
        args: &[String],
        environment: &[(&str, &str)],
    ) -> Result<Ran, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        command.args(args).current_dir(self.path()).env_remove("LD_LIBRARY_PATH");
        command.envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let id = child.id().to_string();
        let (done, ended) = mpsc::channel();
        let waiting = thread::spawn(move || done.send(child.wait_with_output().unwrap()));
        let output = ended.recv_timeout(HANGS).map_err(|_| {
            // By its own id; the thread then sees the end of it.
            drop(Command::new("kill").args(["-KILL", &id]).status());
            format!("{args:?} had not ended after {} s", HANGS.as_secs())
        });
        drop(waiting.join().unwrap());
        let Output { status, stdout, stderr } = output?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) })
    }

    /// Runs the command with six gigabytes of address space, and stops one that works for long as a
    /// person does: by Ctrl-C, and again. `Err` when it does not end by that either.
    pub(crate) fn run_patiently(
        &self,
        args: &[String],
        environment: &[(OsString, OsString)],
    ) -> Result<Ran, String> {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 6000000; exec \"$0\" \"$@\""]);
        command.arg(env!("CARGO_BIN_EXE_millstream")).args(args);
        command.current_dir(self.path()).env_remove("LD_LIBRARY_PATH");
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let id = child.id().to_string();
        let (done, ended) = mpsc::channel();
        let waiting = thread::spawn(move || done.send(child.wait_with_output().unwrap()));
        let mut signals = ["-INT", "-INT", "-KILL"].into_iter();
        let mut killed = false;
        let Output { status, stdout, stderr } = loop {
            match ended.recv_timeout(WORKS) {
                Ok(output) => break output,
                Err(_) => {
                    let signal = signals.next().ok_or("it cannot be killed")?;
                    killed = signal == "-KILL";
                    drop(Command::new("kill").args([signal, &id]).status());
                }
            }
        };
        drop(waiting.join().unwrap());
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let ran = Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) };
        if killed { Err(format!("{args:?} hangs: {}", ran.stderr)) } else { Ok(ran) }
    }

    /// Every file below this folder, relative to it.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let (mut files, mut folders) = (Vec::new(), vec![self.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files.sort();
        files.iter().map(|path| path.strip_prefix(self.path()).unwrap().to_owned()).collect()
    }
}

/// Prices of a few series that move together: names, dates, small integers and gaps.
fn table(seed: u64) -> String {
    let mut text = "symbol,isin,trade_date,day,open,close,ret,volume,sector\n".to_owned();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut noise = || f64::from(random.next_u32()) / f64::from(u32::MAX) - 0.5;
    for series in 0..SERIES {
        // Every sixth is too short for most windows.
        let rows = if series % 6 == 5 { 12 } else { ROWS };
        let (mut close, mut drift) = (50.0 + series as f64, 0.0);
        for row in ROWS - rows..ROWS {
            let date = format!("2020-{:02}-{:02}", row / 28 + 1, row % 28 + 1);
            drift = 0.8 * drift + 0.02 * noise();
            let ret = drift + 0.01 * noise();
            let open = close;
            close *= 1.0 + ret;
            let volume = if row % 17 == series % 17 {
                String::new()
            } else {
                (1000.0 + 900.0 * noise()).to_string()
            };
            let sector = series % 4;
            writeln!(
                text,
                "S{series:02},ISIN{series:03},{date},{row},{open:.4},{close:.4},{ret:.6},{volume},{sector}"
            )
            .unwrap();
        }
    }
    text
}
