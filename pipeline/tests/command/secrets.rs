//! Passwords: wherever one is given, and whatever goes wrong, it is in no output and no file.
//!
//! The suite tries some commands; `MILLSTREAM_TEST_SECRETS=100` so many.

use crate::{
    bench::Bench,
    support::server::{Options, Server},
};
use postgres::{Client, NoTls};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// No other text has this in it. The second is how an address spells it.
const SECRET: &str = "hunter2/Zx9";
const ENCODED: &str = "hunter2%2FZx9";
const SPELLINGS: [&str; 3] = [SECRET, ENCODED, "hunter2"];

const SETTINGS: &str = r#"
[source]
kind = "postgres"
table = "prices"
[target]
columns = ["close"]
[window]
lookback = 5
[train]
epochs = 1
batch_size = 64
[train.model_options]
hidden = 4
[run]
threads = 1
"#;

/// Where a password, or what takes it, is given to a command.
#[derive(Debug, Clone, Default)]
struct Given {
    /// Of the settings file, in `[source]`.
    file: String,
    variables: Vec<(&'static str, String)>,
    args: Vec<String>,
    /// A password file.
    passwords: Option<String>,
}

fn flag(url: &str) -> Given {
    Given { args: vec!["--set".into(), format!("source.url={url}")], ..Given::default() }
}

fn variable(name: &'static str, value: &str) -> Given {
    Given { variables: vec![(name, value.into())], ..Given::default() }
}

fn file(line: &str) -> Given {
    Given { file: line.into(), ..Given::default() }
}

/// Ways that work, and many that do not.
fn ways(port: u16) -> Vec<Given> {
    let at = format!("127.0.0.1:{port}/postgres");
    let open = format!("postgres://tester@{at}");
    let url = format!("postgres://tester:{ENCODED}@{at}");
    let pairs = format!("host=127.0.0.1 port={port} user=tester dbname=postgres");
    let and = |given: Given, other: Given| Given {
        file: given.file + &other.file,
        variables: [given.variables, other.variables].concat(),
        args: [given.args, other.args].concat(),
        passwords: given.passwords.or(other.passwords),
    };
    let password = |text: &str| Given { passwords: Some(text.to_owned()), ..Given::default() };
    let plain = |args: &[&str]| Given {
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        ..Given::default()
    };
    vec![
        flag(&url),
        variable("MILLSTREAM_SOURCE__URL", &format!("{pairs} password='{SECRET}'")),
        and(flag(&open), variable("PGPASSWORD", SECRET)),
        and(flag(&open), password(&format!("127.0.0.1:{port}:*:tester:{SECRET}"))),
        file(&format!("url = \"{open}?password={ENCODED}\"\n")),
        // Not the right one.
        flag(&format!("postgres://tester:{ENCODED}x@{at}")),
        and(flag(&open), variable("PGPASSWORD", &format!("{SECRET}x"))),
        flag(&format!("postgres://nobody:{ENCODED}@{at}")),
        flag(&format!("{url}x")),
        flag(&format!("postgres://tester:{ENCODED}@127.0.0.1:1/postgres")),
        // No address.
        flag(&format!("postgres://tester:{SECRET}@127.0.0.1:port/postgres")),
        flag(&format!("postgres://tester:{ENCODED}@[::1/postgres")),
        flag(&format!("postgres://tester:{ENCODED}%ZZ@{at}")),
        flag(&format!("{pairs} password='{SECRET}")),
        flag(&format!("{pairs} password={SECRET} nonsense")),
        flag(&format!("{pairs} passwrod={SECRET}")),
        flag(&format!("tester:{SECRET}@{at}")),
        flag(&format!("{url}?sslmode=maybe")),
        flag(&format!("{url}?no_such_key=1")),
        flag(&format!("{url}?options=-c%20no_such_setting%3D1")),
        variable("MILLSTREAM_SOURCE__URL", &format!("\"{url}")),
        variable("MILLSTREAM_SOURCE_URL", &url),
        variable("MILLSTREAM_SOURCE__ULR", &url),
        variable("MILLSTREAM_SOURCE", &format!("{{url = \"{url}\", x = 1}}")),
        variable("MILLSTREAM_SOURCE", &url),
        file(&format!("url = [\"{url}\"]\n")),
        file(&format!("url = {{ of = \"{url}\" }}\n")),
        file(&format!("url = \"{url}\n")),
        file(&format!("url = {url}\n")),
        file(&format!("ulr = \"{url}\"\n")),
        file(&format!("url = \"{url}\"\nurl = \"{url}\"\n")),
        plain(&["--set", &format!("source.url {url}")]),
        plain(&["--set", &format!("source.ulr={url}")]),
        plain(&["--set", &url]),
        plain(&["--config", &url]),
        plain(&[&url]),
        plain(&["--url", &url]),
        and(flag(&url), plain(&["--set", "source.table=nope"])),
        and(flag(&url), plain(&["--set", "source.where=syntax error"])),
        and(flag(&url), plain(&["--set", "source.time=nope"])),
        and(flag(&url), plain(&["--set", "target.columns=[\"nope\"]"])),
        and(flag(&url), plain(&["--set", "source.kind=csv"])),
        and(flag(&url), plain(&["--set", "run.dir=/proc/nope"])),
        and(flag(&open), password(&format!("nonsense {SECRET}"))),
        and(flag(&url), variable("PGSSLMODE", "nonsense")),
        and(flag(&open), variable("PGSERVICE", SECRET)),
    ]
}

/// All commands in turn.
const COMMANDS: [&[&str]; 6] = [
    &["train", "--verbose", "--trace"],
    &["doctor", "--verbose"],
    &["import", "--verbose", "--json"],
    &["pipeline", "--verbose", "--json"],
    &["predict", "--verbose"],
    &["doctor", "--json"],
];

struct Bed {
    bench: Bench,
    /// Files that hold the password because the test wrote it there.
    ours: Vec<PathBuf>,
}

impl Bed {
    fn run(&mut self, command: &[&str], given: &Given) -> (Command, String) {
        let settings = SETTINGS.replace("[source]\n", &format!("[source]\n{}", given.file));
        fs::write(self.bench.path("pipeline.toml"), settings).unwrap();
        let mut run = self.bench.command(command);
        run.args(&given.args).env("RUST_LOG", "trace").env("RUST_BACKTRACE", "1");
        run.env("HOME", self.bench.folder.path());
        run.envs(given.variables.iter().map(|(name, value)| (name, value)));
        if let Some(text) = &given.passwords {
            let passwords = self.bench.path("passwords");
            fs::write(&passwords, format!("{text}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs::set_permissions(&passwords, mode).unwrap();
            run.env("PGPASSFILE", passwords);
        }
        let output = run.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (run, format!("{:?}\n{}", output.status.code(), String::from_utf8_lossy(&said)))
    }

    /// A file that holds the password.
    fn leak(&self) -> Option<PathBuf> {
        let mut folders = vec![self.bench.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if !self.ours.contains(&path) && holds_secret(&path) {
                    return Some(path);
                }
            }
        }
        None
    }
}

fn holds_secret(path: &Path) -> bool {
    let bytes = fs::read(path).unwrap();
    let secret = SPELLINGS[2].as_bytes();
    bytes.windows(secret.len()).any(|window| window == secret)
}

fn server() -> Server {
    let rules = ["host all all 127.0.0.1/32 scram-sha-256"];
    let server = Server::with(&Options { tcp: &rules, ..Options::default() });
    let mut client = Client::connect(server.url(), NoTls).unwrap();
    let table = "create table prices as select 's' || s as symbol, date '2020-01-01' + t as trade_date, \
        (100 + s + sin(t * 0.3))::float4 as close from generate_series(1, 6) s, generate_series(1, 80) t";
    client.batch_execute(&format!("alter role tester password '{SECRET}'; {table}")).unwrap();
    server
}

#[test]
fn a_password_is_in_no_output_and_no_file() {
    let wanted = std::env::var("MILLSTREAM_TEST_SECRETS").map_or(12, |text| text.parse().unwrap());
    let server = server();
    let bench = Bench::new("");
    let ours = vec![bench.path("pipeline.toml"), bench.path("passwords")];
    let mut bed = Bed { bench, ours };
    let ways = ways(server.port());
    // The password works: else nothing of this would be about a password.
    let (_, said) = bed.run(COMMANDS[0], &ways[0]);
    assert!(said.starts_with("Some(0)"), "{said}");
    // A few of many are spread over all ways; more go through all ways with several commands.
    let step = (ways.len() / wanted).max(1);
    let mut failures = Vec::new();
    for number in 0..wanted {
        let given = &ways[number * step % ways.len()];
        let command = COMMANDS[(number + number / ways.len()) % COMMANDS.len()];
        let (run, said) = bed.run(command, given);
        let shown = SPELLINGS.iter().any(|secret| said.contains(secret));
        if shown {
            failures.push(format!("{run:?} shows it: {said}"));
        }
        if said.contains("a defect of millstream") || said.starts_with("None") {
            failures.push(format!("{run:?} panicked: {said}"));
        }
        if let Some(path) = bed.leak() {
            failures.push(format!("{run:?} keeps it in {}", path.display()));
            fs::remove_file(path).unwrap();
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
}
