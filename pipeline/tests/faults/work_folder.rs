//! [`WorkFolder`]: a folder with a small table, in which the command runs and goes wrong.
//!
//! What a command writes is all below `in`, which is watched and can be put back to what it was. The
//! table lies beside it and stays: a cached panel is that of one file, by its inode and time. A run
//! knows its paths, so a work folder is put back where it was and never copied elsewhere.

use fault_injector::{Call, Fault, Injector};
use std::{
    fmt::Write as _,
    fs,
    io::Read,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// No run on this data takes a second of CPU; on a busy machine this is far away all the same.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

const SERIES: usize = 6;
const ROWS: usize = 60;

/// A run of some 20 steps, which saves five checkpoints.
const SETTINGS: &str = r#"
[target]
columns = ["close"]
[window]
lookback = 5
[train]
epochs = 2
batch_size = 32
learning_rate = 0.01
log_every = 2
[train.model_options]
hidden = 4
[run]
threads = 1
"#;

/// Two folders side by side: where commands run, and what to put there.
pub(crate) struct WorkFolder {
    outer: TempDir,
    injector: Injector,
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) args: String,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stderr: String,
}

impl WorkFolder {
    pub(crate) fn new() -> Self {
        let outer = tempfile::Builder::new().prefix("millstream-faults").tempdir().unwrap();
        let (inside, data) = (outer.path().join("in"), outer.path().join("data.csv"));
        fs::create_dir(&inside).unwrap();
        fs::write(&data, table()).unwrap();
        let source = format!("[source]\nkind = \"csv\"\npath = {:?}\n", data.to_str().unwrap());
        fs::write(inside.join("pipeline.toml"), source + SETTINGS).unwrap();
        let injector = Injector::new(&inside, &outer.path().join("calls")).unwrap();
        WorkFolder { outer, injector }
    }

    /// Where commands run.
    pub(crate) fn inside(&self) -> PathBuf {
        self.outer.path().join("in")
    }

    /// The command, to be run here on one thread.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        command.args(args).current_dir(self.inside());
        command.env_remove("LD_LIBRARY_PATH").env("OMP_NUM_THREADS", "1");
        command
    }

    /// Runs the command; `Err` when it does not end.
    pub(crate) fn run(&self, args: &[&str]) -> Result<Ran, String> {
        finish(args, &mut self.command(args))
    }

    /// Runs a command that must succeed.
    pub(crate) fn succeed(&self, args: &[&str]) -> Result<Ran, String> {
        let ran = self.run(args)?;
        if ran.code == Some(0) { Ok(ran) } else { Err(format!("failed: {ran}")) }
    }

    /// Runs a command that must succeed, and gives its file-changing calls.
    pub(crate) fn count(&self, args: &[&str]) -> Result<Vec<Call>, String> {
        let mut command = self.command(args);
        self.injector.count(&mut command).unwrap();
        let ran = finish(args, &mut command)?;
        if ran.code != Some(0) {
            return Err(format!("failed while it was watched: {ran}"));
        }
        Ok(self.injector.calls().unwrap())
    }

    /// Lets a command go wrong; also gives the calls that it came to.
    pub(crate) fn inject(
        &self,
        args: &[&str],
        at: usize,
        fault: Fault,
    ) -> Result<(Ran, Vec<Call>), String> {
        let mut command = self.command(args);
        self.injector.inject(&mut command, at, fault).unwrap();
        let ran = finish(args, &mut command)?;
        Ok((ran, self.injector.calls().unwrap()))
    }

    /// Keeps what is here now, for [`WorkFolder::put_back`].
    pub(crate) fn keep(&self) {
        let kept = self.outer.path().join("kept");
        drop(fs::remove_dir_all(&kept));
        copy(&self.inside(), &kept);
    }

    /// Removes all that was written since, and puts back what was kept.
    pub(crate) fn put_back(&self) {
        fs::remove_dir_all(self.inside()).unwrap();
        copy(&self.outer.path().join("kept"), &self.inside());
    }

    /// Every file and folder that is here.
    pub(crate) fn everything(&self) -> Vec<PathBuf> {
        let (mut all, mut folders) = (Vec::new(), vec![self.inside()]);
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let entries: Vec<PathBuf> = entries.collect();
            folders.extend(entries.iter().filter(|path| path.is_dir()).cloned());
            all.extend(entries);
        }
        all
    }

    /// The run directories, by name.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.inside().join("runs")).into_iter().flatten();
        let mut runs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        runs.retain(|path| path.is_dir());
        runs.sort();
        runs
    }

    /// The same, with the folds of a backtest in its place.
    pub(crate) fn runs_and_folds(&self) -> Vec<PathBuf> {
        let folds = |run: PathBuf| {
            if !run.join("backtest.json").exists() {
                return vec![run];
            }
            let entries = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path());
            entries.filter(|path| path.is_dir()).collect()
        };
        self.runs().into_iter().flat_map(folds).collect()
    }

    /// The only run directory.
    pub(crate) fn run_dir(&self) -> Result<PathBuf, String> {
        match &self.runs()[..] {
            [run] => Ok(run.clone()),
            runs => Err(format!("{} run directories instead of one: {runs:?}", runs.len())),
        }
    }

    /// The folders of cached panels.
    pub(crate) fn cache(&self) -> PathBuf {
        self.inside().join(".millstream/cache")
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ran { args, code, signal, stderr, .. } = self;
        let end = match (code, signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or(0)),
        };
        write!(f, "{args}: {end}\n{stderr}")
    }
}

/// Runs a command to its end; it is killed when that does not come.
pub(crate) fn finish(args: &[&str], command: &mut Command) -> Result<Ran, String> {
    let child = spawn(command);
    wait(&args.join(" "), child, HANGS)
}

/// Starts a command whose messages are kept for [`wait`].
pub(crate) fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for a command; it is killed when it has not ended after `limit`.
pub(crate) fn wait(args: &str, mut child: Child, limit: Duration) -> Result<Ran, String> {
    let (id, (done, ended)) = (child.id().to_string(), mpsc::channel());
    let mut pipe = child.stderr.take().expect("messages are piped");
    let stderr = thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let waiting = thread::spawn(move || done.send(child.wait().unwrap()));
    let status = ended.recv_timeout(limit);
    if status.is_err() {
        // By its own id; the thread then sees the end of it.
        drop(Command::new("kill").args(["-KILL", &id]).status());
    }
    // That nobody waits for its answer any more is all that can be wrong with it.
    let _ = waiting.join().unwrap();
    let stderr = stderr.join().unwrap();
    let status: ExitStatus = status.map_err(|_| {
        format!("{args} had not ended after {} s; it said: {stderr}", limit.as_secs())
    })?;
    let (code, signal) = (status.code(), status.signal());
    Ok(Ran { args: args.to_owned(), code, signal, stderr })
}

/// Copies a folder with its links and times.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "cannot copy {from:?}");
}

/// Prices of a few series, the same on every machine.
pub(crate) fn table() -> String {
    let mut text = "symbol,trade_date,close,f1\n".to_owned();
    for series in 0..SERIES {
        let mut close = 100.0 + series as f64;
        for row in 0..ROWS {
            // A hash is random enough.
            let dice = (series * 7919 + row * 104_729 + 13).wrapping_mul(2_654_435_761) % 1000;
            close *= 1.0 + (dice as f64 - 500.0) / 50_000.0;
            let date = format!("2020-{:02}-{:02}", row / 28 + 1, row % 28 + 1);
            let wave = ((row + series) as f64 * 0.3).sin();
            writeln!(text, "s{series:02},{date},{close:.4},{wave:.5}").unwrap();
        }
    }
    text
}
