//! Tests of what a connection string becomes, and of cancelling through TLS on a real server.

use super::*;
use crate::{connection_string::pair, target::server_identity};
use postgres::{SimpleQueryMessage, error::SqlState};
use support::{
    authority::Authority,
    server::{Options, Server as TestServer},
};

#[path = "../../loader/tests/loader/support"]
#[expect(dead_code, reason = "the loader's tests use more of it")]
mod support {
    pub(crate) mod authority;
    pub(crate) mod server;
}

fn server(url: &str) -> Result<Server, PostgresError> {
    Server::with(url, &Environment::default(), Arc::new(|_| {}))
}

fn check_name(url: &str, expected: &str) {
    let server = server(url).unwrap();
    assert_eq!(server.name(), expected);
    let identity = server_identity(url).unwrap();
    assert_eq!(identity.split(' ').next(), Some(expected));
    assert_eq!(format!("{server:?}"), format!("Server({expected:?})"));
}

#[test]
fn a_server_is_named_without_its_password() {
    check_name("host=a,b port=1,2 user=ann password=hush", "postgres://ann@a:1,b:2/ann");
    check_name("host=a,b port=7 user=ann dbname=d", "postgres://ann@a:7,b:7/d");
    check_name("postgres://ann:hush@a,b:2/d", "postgres://ann@a:5432,b:2/d");
    check_name("postgres://ann:hush@[::1]/d?password=hush", "postgres://ann@[::1]:5432/d");
    check_name("hostaddr=127.0.0.1 user=ann", "postgres://ann@127.0.0.1:5432/ann");
    check_name("postgres://ann@%2Frun%2Fpg/d", "postgres://ann@/run/pg:5432/d");
    let user = whoami::username().unwrap();
    check_name("host=a", &format!("postgres://{user}@a:5432/{user}"));
}

#[test]
fn what_a_connection_string_says_about_the_rows_is_in_its_identity() {
    let of = |url: &str| server_identity(url).unwrap();
    let plain = of("host=h user=ann dbname=d");
    assert_eq!(of("host=h user=ann dbname=d password=hush sslmode=require"), plain);
    let others = ["options='-c search_path=b'", "options='-c timezone=UTC'", "hostaddr=127.0.0.1"];
    let mut seen = vec![plain];
    for other in others {
        let identity = of(&format!("host=h user=ann dbname=d {other}"));
        assert!(!seen.contains(&identity) && !identity.contains("search_path"), "{identity}");
        seen.push(identity);
    }
}

fn check_refused(url: &str, expected: &str) {
    let error = server(url).unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains(expected) && !text.contains("hush"), "{text}");
}

#[test]
fn values_that_cannot_be_used_are_named_by_their_key() {
    check_refused("postgres://ann:hush@/d", "sets host to what cannot be used");
    check_refused("user=ann password=hush", "sets host to what cannot be used");
    check_refused("postgres://ann:hush", "sets port to what cannot be used; expected numbers");
    check_refused("host=a port=1,2", "one port, or as many as hosts");
    check_refused("host=a,b hostaddr=127.0.0.1", "as many addresses as hosts");
    check_refused("host=a hostaddr=hush", "numeric addresses");
    check_refused("host=a connect_timeout=hush", "connect_timeout to what cannot be used");
    check_refused("host=a target_session_attrs=primary", "any, read-write or read-only");
    check_refused("host=a tcp_user_timeout=1s", "a number of milliseconds");
    check_refused("host=localhost password=a hush=b", "not a PostgreSQL connection string");
}

#[test]
fn what_the_url_does_not_set_has_sensible_defaults() {
    let config = |url| server(url).unwrap().hosts[0].config.clone();
    let plain = config("host=a");
    assert_eq!(plain.get_application_name(), Some("millstream"));
    assert_eq!(plain.get_connect_timeout(), Some(&Duration::from_secs(10)));
    assert!(plain.get_keepalives());
    assert_eq!(plain.get_keepalives_idle(), Duration::from_secs(60));
    assert_eq!(plain.get_keepalives_retries(), Some(6));
    let set = config(
        "host=a application_name=x connect_timeout=0 keepalives_count=2 tcp_user_timeout=1500",
    );
    assert_eq!(set.get_application_name(), Some("x"));
    assert_eq!(set.get_connect_timeout(), None);
    assert_eq!(set.get_keepalives_retries(), Some(2));
    assert_eq!(set.get_tcp_user_timeout(), Some(&Duration::from_millis(1500)));
}

fn check_option(options: &str, expected: bool) {
    let server = server(&format!("host=a {}", pair("options", options))).unwrap();
    assert_eq!(server.sets_option("statement_timeout"), expected, "{options}");
}

#[test]
fn options_are_found_in_every_form() {
    check_option("-c statement_timeout=0", true);
    check_option("-c work_mem=1MB -cstatement_timeout=0", true);
    check_option("--statement-timeout=0", true);
    check_option("-c Statement_Timeout=0", true);
    check_option("-c lock_timeout=0", false);
    check_option("-c search_path=statement_timeout", false);
    check_option("", false);
}

/// Waits for the statement to run, cancels it, and sees it end.
fn check_cancel(url: &str) {
    let server = server(url).unwrap();
    let client = server.connect().unwrap();
    let watcher = server.connect().unwrap();
    let rows = |connection: &Connection, sql: &str| -> Vec<String> {
        let row = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        connection.simple_query(sql).unwrap().iter().filter_map(row).collect()
    };
    let pid = rows(&client, "select pg_backend_pid()").remove(0);
    let token = client.cancel_token();
    let sleeper = std::thread::spawn(move || client.batch_execute("select pg_sleep(600)"));
    let running = format!(
        "select 1 from pg_stat_activity
         where pid = {pid} and state = 'active' and query like '%sleep%'"
    );
    while rows(&watcher, &running).is_empty() {}
    assert!(server.cancel(&token));
    let error = sleeper.join().unwrap().unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{error:?}");
}

#[test]
fn a_statement_is_cancelled_through_tls_and_through_a_socket() {
    let authority = Authority::new("root");
    let dir = tempfile::tempdir().unwrap();
    let root = authority.write(dir.path(), "root.pem");
    let running = TestServer::with(&Options {
        tcp: &["hostssl all all 127.0.0.1/32 trust"],
        identity: Some(&authority.identity("localhost")),
        ..Options::default()
    });
    check_cancel(&format!(
        "postgres://tester@localhost:{}/postgres?sslmode=verify-full&sslrootcert={}",
        running.port(),
        root.display()
    ));
    check_cancel(running.url());
}
