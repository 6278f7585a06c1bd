//! `predict --output postgres://…`: what a file would hold is in a table, and no password anywhere.

use crate::{
    bench::{Bench, check_fails, stderr},
    support::server::{Options, Server},
};
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::collections::BTreeMap;

/// No other text has this in it.
const SECRET: &str = "hunter2";

const SETTINGS: &str = r#"
[source]
kind = "postgres"
table = "prices"
cache = ""
[target]
columns = ["close"]
[window]
lookback = 5
horizon = 2
[train]
epochs = 1
batch_size = 64
[train.model_options]
hidden = 4
[run]
threads = 1
"#;

/// A server where one role may read the prices and no more, and one may write forecasts and no more.
struct Roles {
    server: Server,
    bench: Bench,
}

impl Roles {
    /// With a run that has been trained from there.
    fn new() -> Self {
        let rules = ["host all all 127.0.0.1/32 scram-sha-256"];
        let server = Server::with(&Options { tcp: &rules, ..Options::default() });
        let mut client = Client::connect(server.url(), NoTls).unwrap();
        let roles = format!(
            "CREATE TABLE prices AS SELECT 's' || s AS symbol, date '2020-01-01' + t AS trade_date, \
             (100 + s + sin(t * 0.3))::float4 AS close FROM generate_series(1, 6) s, generate_series(1, 80) t; \
             CREATE ROLE reader LOGIN PASSWORD '{SECRET}'; GRANT SELECT ON prices TO reader; \
             ALTER ROLE reader SET default_transaction_read_only = on; \
             CREATE ROLE writer LOGIN PASSWORD '{SECRET}'; CREATE SCHEMA out AUTHORIZATION writer;"
        );
        client.batch_execute(&roles).unwrap();
        let roles = Roles { server, bench: Bench::new(SETTINGS) };
        roles.predict(&["train"], 0);
        roles
    }

    fn url(&self, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/postgres", self.server.port())
    }

    /// Runs a command that reads as the reader.
    fn predict(&self, args: &[&str], code: i32) -> std::process::Output {
        let source = format!("source.url={}", self.url("reader"));
        let mut command = self.bench.command(args);
        command.args(["--set", &source]).env("PGPASSWORD", SECRET);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        assert!(!String::from_utf8_lossy(&said).contains(SECRET), "{}", stderr(&output));
        output
    }

    fn rows(&self, sql: &str) -> Vec<BTreeMap<String, String>> {
        let mut client = Client::connect(self.server.url(), NoTls).unwrap();
        let messages = client.simple_query(sql).unwrap();
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        rows.map(|row| {
            let value = |at| row.get(at).unwrap_or_default().to_owned();
            let names = row.columns().iter().map(|column| column.name().to_owned());
            names.enumerate().map(|(at, name)| (name, value(at))).collect()
        })
        .collect()
    }
}

#[test]
fn the_table_holds_what_the_file_does() {
    let roles = Roles::new();
    let url = format!("{}?table=out.forecasts", roles.url("writer"));
    let output = roles.predict(&["predict", "--json", "--output", &url], 0);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["output"], url);
    assert_eq!(result["warnings"].to_string(), "[]");
    roles.predict(&["predict", "--output", "f.csv"], 0);
    let text = std::fs::read_to_string(roles.bench.path("f.csv")).unwrap();
    let mut lines = text.lines();
    let names = lines.next().unwrap().replace("symbol,trade_date", "series,time");
    let sql = format!("SELECT {names} FROM out.forecasts ORDER BY series, time, step");
    let table = roles.rows(&sql);
    let mut file: Vec<&str> = lines.collect();
    file.sort_unstable();
    assert_eq!(table.len(), file.len());
    assert_eq!(result["rows"], table.len());
    let names: Vec<&str> = names.split(',').collect();
    for (row, line) in table.iter().zip(file) {
        for (name, cell) in names.iter().zip(line.split(',')) {
            let found = &row[*name];
            let same = match (found.parse::<f32>(), cell.parse::<f32>()) {
                (Ok(found), Ok(cell)) => found.to_bits() == cell.to_bits(),
                _ => found == cell,
            };
            assert!(same, "{name} is {found} in the table and in the file {line}");
        }
    }
    let whose = roles.rows(
        "SELECT model, run, count(DISTINCT created_at) AS n FROM out.forecasts GROUP BY 1, 2",
    );
    let run = roles.bench.runs()[0].file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(whose.len(), 1);
    assert_eq!((&*whose[0]["model"], &whose[0]["run"], &*whose[0]["n"]), ("lstm", &run, "1"));
    // Where the run says it is written, and its warnings, there is no password either.
    roles.predict(&["train"], 0);
    let second = roles.predict(&["predict", "--json", "--output", &url], 0);
    let result: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    let warning = result["warnings"][0].as_str().unwrap();
    let expected = format!("{} forecasts of run {run} by the name of model \"lstm\"", table.len());
    assert!(warning.starts_with(&expected), "{warning}");
    assert!(stderr(&second).contains(warning));
}

#[test]
fn what_is_wrong_with_the_place_is_said_before_anything_is_loaded() {
    let roles = Roles::new();
    let refused = |url: &str, code, expected: &[&str]| {
        let output = roles.predict(&["predict", "--output", url], code);
        check_fails(&output, code, expected);
        assert!(!stderr(&output).contains("rows of"), "{}", stderr(&output));
    };
    let at = roles.url("writer");
    let with_secret = at.replace("writer@", &format!("writer:{SECRET}@"));
    refused(&at, 2, &["--output names no table; add ?table=NAME"]);
    refused(&with_secret, 2, &["--output names no table"]);
    refused(&format!("{at}?table=f"), 2, &["\"writer\" may not make table \"f\"", "GRANT CREATE"]);
    refused(&format!("{}?table=f", roles.url("reader")), 2, &["the database is read-only"]);
    refused(
        &format!("{with_secret}x?table=f"),
        1,
        &["does not exist", "check the name of the database"],
    );
    let wrong = with_secret.replace(SECRET, &format!("{SECRET}x"));
    refused(&format!("{wrong}?table=f"), 1, &["password authentication failed", "check the user"]);
    refused(&format!("{at}?table=f&sslmode=maybe"), 2, &["--output sets sslmode"]);
    refused(
        &format!("{at}?table=f&no_such_key=1"),
        2,
        &["--output is not", "no_such_key, which does not exist"],
    );
    refused(&format!("{at}?table=out.f&model=a%zz"), 2, &["--output is not"]);
    refused(&format!("{at}?table=out.f&table=g"), 2, &["--output sets table twice"]);
    refused(&format!("{at}?table=out.f&model="), 2, &["--output sets model to nothing"]);
    let long = "x".repeat(64);
    refused(&format!("{at}?table=out.{long}"), 2, &["has 64 bytes and PostgreSQL keeps 63"]);
    let capitals = at.replace("postgres://", "Postgres://");
    refused(&format!("{capitals}?table=f"), 2, &["may not make table \"f\""]);
    let nowhere = format!("postgres://writer:{SECRET}@127.0.0.1:1/postgres?table=f");
    let unreachable = ["cannot connect to postgres://writer@127.0.0.1:1/postgres", "check host"];
    refused(&nowhere, 1, &unreachable);
}
