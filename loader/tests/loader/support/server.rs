//! A private PostgreSQL server for a test: its own data directory, a Unix socket, no TCP.
//!
//! `MILLSTREAM_TEST_POSTGRES_URL` names a server to use instead; tests then leave tables whose
//! names start with `millstream_test_` in it. Without either, tests fail and say what to install.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// A running server, stopped and removed on drop.
pub(crate) struct Server {
    url: String,
    _own: Option<Own>,
}

struct Own {
    programs: PathBuf,
    user: Option<&'static str>,
    dir: TempDir,
}

impl Server {
    /// Starts a server, or finds the one that the environment names.
    pub(crate) fn start() -> Self {
        Server::with("")
    }

    /// As [`start`](Self::start), with more options for a server of its own: `-c name=value …`.
    pub(crate) fn with(more: &str) -> Self {
        if let Ok(url) = env::var("MILLSTREAM_TEST_POSTGRES_URL") {
            return Server { url, _own: None };
        }
        let programs = find_programs().expect(
            "these tests need PostgreSQL's server programs (initdb, pg_ctl) on PATH or in \
             /usr/lib/postgresql/*/bin: install the package `postgresql` (Debian, Ubuntu) or \
             `postgresql-server` (Fedora), or set MILLSTREAM_TEST_POSTGRES_URL to a server they may use",
        );
        let user = unprivileged_user();
        let dir = tempfile::Builder::new().prefix("millstream-pg").tempdir().unwrap();
        let own = Own { programs, user, dir };
        own.give_away();
        let data = own.data();
        let data = data.to_str().unwrap();
        own.run("initdb", &["-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync"]);
        let socket = own.dir.path().to_str().unwrap();
        let options =
            format!("-c listen_addresses= -c unix_socket_directories={socket} -c fsync=off {more}");
        let log = own.dir.path().join("log");
        let log = log.to_str().unwrap();
        own.run("pg_ctl", &["-D", data, "-w", "-t", "60", "-l", log, "-o", &options, "start"]);
        let url = format!("host={socket} user=tester dbname=postgres");
        Server { url, _own: Some(own) }
    }

    /// A connection string for the server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // The directory goes next; a server that never started has nothing to stop.
        let data = self.data();
        let _ = self
            .command("pg_ctl", &["-D", data.to_str().unwrap(), "-m", "immediate", "stop"])
            .output();
    }
}

impl Own {
    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The server refuses to run as root, so its directory must belong to whom it runs as.
    fn give_away(&self) {
        if let Some(user) = self.user {
            let done = Command::new("chown").arg(user).arg(self.dir.path()).status().unwrap();
            assert!(done.success(), "cannot give {:?} to {user}", self.dir.path());
        }
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let program = self.programs.join(program);
        let mut command = match self.user {
            Some(user) => {
                let mut command = Command::new("setpriv");
                command
                    .args(["--reuid", user, "--regid", &group(user), "--clear-groups", "--"])
                    .arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(arguments).current_dir(self.dir.path()).env("LC_ALL", "C.UTF-8");
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        // The server inherits the output of pg_ctl, so a pipe would stay open: use files.
        let out = fs::File::create(self.dir.path().join("out")).unwrap();
        let status = self
            .command(program, arguments)
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .status()
            .unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
        let said = |file| fs::read_to_string(self.dir.path().join(file)).unwrap_or_default();
        assert!(status.success(), "{program} failed: {}{}", said("out"), said("log"));
    }
}

fn find_programs() -> Option<PathBuf> {
    let on_path = env::split_paths(&env::var_os("PATH")?).collect::<Vec<_>>();
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = installed.map(|version| version.path().join("bin"));
    on_path.into_iter().chain(installed).find(|dir| is_whole(dir))
}

fn is_whole(dir: &Path) -> bool {
    ["initdb", "pg_ctl", "postgres"].iter().all(|program| dir.join(program).is_file())
}

/// Whom to run the server as when the tests run as root.
fn unprivileged_user() -> Option<&'static str> {
    let answers = |output: std::io::Result<Output>| {
        output
            .ok()
            .filter(|o| o.status.success())
            .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
    };
    let root = answers(Command::new("id").arg("-u").output()).as_deref() == Some("0");
    let exists = |user: &&str| answers(Command::new("id").args(["-u", user]).output()).is_some();
    root.then(|| ["postgres", "nobody"].into_iter().find(exists).expect("a user besides root"))
}

fn group(user: &str) -> String {
    let output = Command::new("id").args(["-g", user]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
