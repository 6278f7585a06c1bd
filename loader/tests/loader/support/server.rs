//! A private PostgreSQL server for a test: its own data directory, a Unix socket, and TCP with or
//! without TLS for the tests that ask for it.
//!
//! `MILLSTREAM_TEST_POSTGRES_URL` names a server to use instead of one that needs no settings;
//! tests then leave tables whose names start with `millstream_test_` in it. Without either, tests
//! fail and say what to install.

use super::authority::Identity;
use std::{
    env, fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// A running server, stopped and removed on drop.
pub(crate) struct Server {
    url: String,
    port: u16,
    own: Option<Own>,
}

/// What a server of one's own may have besides its socket, where `tester` needs no password.
#[derive(Default)]
pub(crate) struct Options<'a> {
    /// Lines of `pg_hba.conf` for connections to 127.0.0.1. Without any, it does not listen there.
    pub(crate) tcp: &'a [&'a str],
    /// The certificate for TLS. Without one, it does not offer TLS.
    pub(crate) identity: Option<&'a Identity>,
    /// Further settings of the server, `name=value`.
    pub(crate) settings: &'a [&'a str],
}

struct Own {
    programs: PathBuf,
    user: Option<&'static str>,
    dir: TempDir,
    /// What it is started with.
    settings: String,
}

impl Server {
    /// Starts a server, or finds the one that the environment names.
    pub(crate) fn start() -> Self {
        if let Ok(url) = env::var("MILLSTREAM_TEST_POSTGRES_URL") {
            return Server { url, port: 5432, own: None };
        }
        Self::with(&Options::default())
    }

    /// Starts a server, whatever the environment names.
    pub(crate) fn with(options: &Options<'_>) -> Self {
        let programs = find_programs().expect(
            "these tests need PostgreSQL's server programs (initdb, pg_ctl) on PATH or in \
             /usr/lib/postgresql/*/bin: install the package `postgresql` (Debian, Ubuntu) or \
             `postgresql-server` (Fedora), or set MILLSTREAM_TEST_POSTGRES_URL to a server they may use",
        );
        let user = unprivileged_user();
        let dir = tempfile::Builder::new().prefix("millstream-pg").tempdir().unwrap();
        let mut own = Own { programs, user, dir, settings: String::new() };
        own.give_away(own.dir.path());
        let data = own.data();
        let data = data.to_str().unwrap();
        own.run("initdb", &["-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync"]);
        let socket = own.dir.path().to_str().unwrap();
        let mut settings = format!("-c unix_socket_directories={socket} -c fsync=off");
        let mut port = 5432;
        if options.tcp.is_empty() {
            settings.push_str(" -c listen_addresses=");
        } else {
            let rules = format!("local all all trust\n{}\n", options.tcp.join("\n"));
            fs::write(own.data().join("pg_hba.conf"), rules).unwrap();
            // The listener goes at the end of the line; nobody else is given its port that soon.
            port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            settings.push_str(&format!(" -c listen_addresses=127.0.0.1 -c port={port}"));
        }
        if let Some(identity) = options.identity {
            for (name, text) in
                [("server.crt", &identity.certificate), ("server.key", &identity.key)]
            {
                let file = own.data().join(name);
                fs::write(&file, text).unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
                own.give_away(&file);
            }
            settings.push_str(" -c ssl=on");
        }
        settings.extend(options.settings.iter().map(|setting| format!(" -c {setting}")));
        let url = format!("host={socket} port={port} user=tester dbname=postgres");
        own.settings = settings;
        own.control(&["start"]);
        Server { url, port, own: Some(own) }
    }

    /// Restarts the server, ending all connections at once.
    pub(crate) fn restart(&self) {
        let own = self.own.as_ref().expect("only a server of our own is restarted");
        own.control(&["-m", "fast", "restart"]);
    }

    /// Where its socket is, unless it is somebody else's server.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        self.own.as_ref().map(|own| own.dir.path().join(format!(".s.PGSQL.{}", self.port)))
    }

    /// The port it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
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

    fn control(&self, action: &[&str]) {
        let (data, log) = (self.data(), self.dir.path().join("log"));
        let (data, log) = (data.to_str().unwrap(), log.to_str().unwrap());
        let always = ["-D", data, "-w", "-t", "60", "-l", log, "-o", &self.settings];
        self.run("pg_ctl", &[&always, action].concat());
    }

    /// The server refuses to run as root, so what it uses must belong to whom it runs as.
    fn give_away(&self, path: &Path) {
        if let Some(user) = self.user {
            let done = Command::new("chown").arg(user).arg(path).status().unwrap();
            assert!(done.success(), "cannot give {path:?} to {user}");
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
