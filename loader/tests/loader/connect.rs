//! Getting into a real server: passwords, TLS, and what is said when it does not work.
//!
//! Every attempt runs in a process of its own, so that no test sees the environment of another,
//! nor the passwords and certificates of whoever runs the tests.

use crate::support::{
    authority::Authority,
    chain, in_time, load,
    server::{Options, Server},
};
use millstream_loader::{SourceKind, SourceSettings};
use postgres::{Client, NoTls};
use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

/// No output may ever hold one of these.
const PASSWORD: &str = "hush:4711";
const WRONG: &str = "hush-wrong";

const CHILD: &str = "connect::a_server_that_cannot_be_reached_is_named";
const CHILD_URL: &str = "MILLSTREAM_TEST_CHILD_URL";

/// Tries to load in a process with the given environment: what came of it.
fn outcome(url: &str, environment: &[(&str, impl AsRef<OsStr>)]) -> String {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", CHILD, "--nocapture"]).env(CHILD_URL, url).env("HOME", "/nonexistent");
    for name in ["PGPASSWORD", "PGPASSFILE", "SSL_CERT_FILE", "SSL_CERT_DIR"] {
        child.env_remove(name);
    }
    let environment = environment.iter().map(|(name, value)| (name, value.as_ref()));
    let output = child.envs(environment).output().unwrap();
    let text =
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("hush"), "{text}");
    text
}

/// The other side of [`outcome`].
fn tell_outcome(url: String) {
    let settings = SourceSettings {
        kind: SourceKind::Postgres,
        url: Some(url),
        query: Some(
            "select application_name as symbol, 1 as trade_date, ssl::int as close_pct
             from pg_stat_ssl join pg_stat_activity using (pid) where pid = pg_backend_pid()"
                .to_owned(),
        ),
        cache: String::new(),
        ..SourceSettings::default()
    };
    match load(&settings) {
        Ok(panel) => {
            let way = if panel.shards()[0].values()[0] == 1.0 { "encrypted" } else { "plain" };
            println!("connected {way} as {}", panel.schema().series[0]);
        }
        Err(error) => println!("refused: {}\n{error:?}", chain(&error)),
    }
}

fn check(url: &str, environment: &[(&str, &str)], expected: &[&str]) {
    let text = outcome(url, environment);
    for expected in expected {
        assert!(text.contains(expected), "{url} with {environment:?}: expected {expected}: {text}");
    }
}

const PLAIN: &[&str] = &["connected plain as millstream"];
const ENCRYPTED: &[&str] = &["connected encrypted as millstream"];

/// A server with two users who have the same password: what `rules` let in.
fn server(options: &Options<'_>) -> Server {
    let server = Server::with(options);
    let mut client = Client::connect(server.url(), NoTls).unwrap();
    for user in ["ann", "bob"] {
        client.batch_execute(&format!("create role {user} login password '{PASSWORD}'")).unwrap();
    }
    server
}

/// The way to 127.0.0.1 as ann, without a password.
fn ann(server: &Server) -> String {
    format!("host=127.0.0.1 port={} user=ann dbname=postgres", server.port())
}

fn with_password(url: &str) -> String {
    format!("{url} password='{PASSWORD}'")
}

fn write_private(dir: &Path, text: &str, mode: u32) -> PathBuf {
    let path = dir.join(".pgpass");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    if let Ok(url) = env::var(CHILD_URL) {
        return tell_outcome(url);
    }
    check(
        "postgres://ann:hush@127.0.0.1:1/d",
        &[],
        &["refused: cannot connect to postgres://ann@127.0.0.1:1/d: ", "Connection refused"],
    );
    check(
        "postgres://ann:hush@no-such-host.invalid/d",
        &[],
        &["cannot connect to postgres://ann@no-such-host.invalid:5432/d: ", "lookup"],
    );
    check(
        "host=/no/such/folder user=ann password=hush",
        &[],
        &["cannot connect to postgres://ann@/no/such/folder:5432/ann: ", "No such file"],
    );
}

const SCRAM: &str = "host all ann,bob 127.0.0.1/32 scram-sha-256";

#[test]
fn passwords_come_from_the_url_the_environment_or_the_password_file() {
    let server = server(&Options { tcp: &[SCRAM], ..Options::default() });
    let (url, dir) = (ann(&server), tempfile::tempdir().unwrap());
    let home = ("HOME", dir.path().to_str().unwrap());
    let refused =
        ["refused: cannot connect to ", "password authentication failed for user \"ann\""];
    let missing =
        ["postgres://ann@127.0.0.1:", "asks for a password and there is none; set PGPASSWORD"];

    check(&with_password(&url), &[], PLAIN);
    check(&format!("{url} password={WRONG}"), &[], &refused);
    check(&format!("{url} password={WRONG}"), &[("PGPASSWORD", PASSWORD)], &refused);
    let in_url = format!("postgres://ann:hush%3A4711@127.0.0.1:{}/postgres", server.port());
    check(&in_url, &[("PGPASSWORD", WRONG)], PLAIN);

    check(&url, &[("PGPASSWORD", PASSWORD)], PLAIN);
    check(&url, &[("PGPASSWORD", WRONG)], &refused);
    check(&url, &[("PGPASSWORD", ""), home], &missing);

    let line = format!("127.0.0.1:{}:*:ann:hush\\:4711\n", server.port());
    let file = write_private(dir.path(), &line, 0o600);
    let file = file.to_str().unwrap();
    check(&url, &[home], PLAIN);
    check(&url, &[("PGPASSFILE", file)], PLAIN);
    check(&format!("{url} passfile={file}"), &[], PLAIN);
    check(&url, &[("PGPASSWORD", WRONG), home], &refused);
    check(&url.replace("=ann", "=bob"), &[home], &["asks for a password and there is none"]);
    write_private(dir.path(), "*:*:*:*:hush-wrong", 0o600);
    check(&url, &[home], &refused);

    write_private(dir.path(), &line, 0o640);
    check(&url, &[home], &missing);
}

#[test]
fn variables_that_are_no_text_are_bytes_and_no_secret_is_told() {
    let server = server(&Options { tcp: &[SCRAM], ..Options::default() });
    let (url, dir) = (ann(&server), tempfile::tempdir().unwrap());
    let bytes = |text: &'static [u8]| OsStr::from_bytes(text);
    let text = outcome(&url, &[("PGPASSWORD", bytes(b"hush\xff\xfe")), ("HOME", bytes(b"/\xff"))]);
    assert!(text.contains("password authentication failed"), "{text}");
    // Whatever else is set is not looked at.
    let other = [("PGUSER", bytes(b"\xff")), ("MILLSTREAM_X", bytes(b"hush\xff"))];
    assert!(outcome(&with_password(&url), &other).contains(PLAIN[0]));
    let home = dir.path().join(bytes(b"caf\xe9"));
    fs::create_dir(&home).unwrap();
    write_private(&home, &format!("127.0.0.1:{}:*:ann:hush\\:4711\n", server.port()), 0o600);
    let text = outcome(&url, &[("HOME", home.as_os_str())]);
    assert!(text.contains(PLAIN[0]), "{text}");
    let file = home.join(".pgpass");
    assert!(outcome(&url, &[("PGPASSFILE", file.as_os_str())]).contains(PLAIN[0]));
}

#[test]
fn a_pipe_or_a_folder_in_place_of_a_secret_is_said_and_not_waited_for() {
    let server = server(&Options { tcp: &[SCRAM], ..Options::default() });
    let (url, dir) = (ann(&server), tempfile::tempdir().unwrap());
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (path, what) in [(pipe.as_path(), "a pipe"), (dir.path(), "a folder")] {
        let path = path.to_str().unwrap().to_owned();
        let with_root = format!("{url} sslmode=verify-full sslrootcert={path}");
        let (url, what) = (url.clone(), what.to_owned());
        in_time("looking for secrets", move || {
            let missing = &["asks for a password and there is none"];
            check(&url, &[("PGPASSFILE", path.as_str())], missing);
            check(&format!("{url} passfile={path}"), &[], missing);
            let expected = format!("it is {what}, not a plain file");
            check(&with_root, &[], &["cannot read certificates from", &path, &expected]);
            let system = format!("{url} sslmode=verify-full");
            check(&system, &[("SSL_CERT_FILE", path.as_str())], &[&expected]);
        });
    }
}

#[test]
fn a_database_that_is_not_there_is_named() {
    let server = server(&Options { tcp: &[SCRAM], ..Options::default() });
    let url = with_password(&ann(&server)).replace("dbname=postgres", "dbname=nowhere");
    check(&url, &[], &["/nowhere: ", "database \"nowhere\" does not exist"]);
}

#[test]
fn every_host_gets_its_own_password_and_the_next_one_is_tried() {
    let server = server(&Options { tcp: &[SCRAM], ..Options::default() });
    let dir = tempfile::tempdir().unwrap();
    let port = server.port();
    let lines = format!("localhost:{port}:*:*:{WRONG}\n127.0.0.1:{port}:*:*:hush\\:4711\n");
    write_private(dir.path(), &lines, 0o600);
    let home = [("HOME", dir.path().to_str().unwrap())];
    let url = |hosts: &str| format!("postgres://ann@{hosts}/postgres");
    check(&url(&format!("127.0.0.1:1,localhost:{port},127.0.0.1:{port}")), &home, PLAIN);
    check(&url(&format!("127.0.0.1:{port},127.0.0.1:1")), &home, PLAIN);
    check(
        &url(&format!("127.0.0.1:1,localhost:{port}")),
        &home,
        &["cannot connect to postgres://ann@localhost:", "password authentication failed"],
    );
}

#[test]
fn without_tls_on_the_server_only_modes_that_need_none_connect() {
    let server = server(&Options { tcp: &[SCRAM], ..Options::default() });
    let dir = tempfile::tempdir().unwrap();
    let root = Authority::new("root").write(dir.path(), "root.pem");
    let url = with_password(&ann(&server));
    check(&url, &[], PLAIN);
    check(&format!("{url} sslmode=prefer"), &[], PLAIN);
    check(&format!("{url} sslmode=disable"), &[], PLAIN);
    let without = ["refused: postgres://ann@127.0.0.1:", "does not offer TLS", "ssl = on"];
    check(&format!("{url} sslmode=require"), &[], &without);
    let root = root.display();
    check(&format!("{url} sslmode=verify-full sslrootcert={root}"), &[], &without);
}

#[test]
fn connections_are_encrypted_and_checked_as_sslmode_says() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("root");
    let root = authority.write(dir.path(), "a root.pem");
    let other = Authority::new("other").write(dir.path(), "other.pem");
    let server = server(&Options {
        tcp: &[
            "hostssl all ann 127.0.0.1/32 scram-sha-256",
            "hostnossl all bob 127.0.0.1/32 scram-sha-256",
        ],
        identity: Some(&authority.identity("localhost")),
        ..Options::default()
    });
    let by_address = with_password(&ann(&server));
    let by_name = by_address.replace("host=127.0.0.1", "host=localhost");

    check(
        &format!("{by_name} sslmode=disable"),
        &[],
        &["cannot connect to postgres://ann@localhost:", "no pg_hba.conf entry", "no encryption"],
    );
    check(&by_name, &[], ENCRYPTED);
    check(&format!("{by_address} sslmode=prefer"), &[], ENCRYPTED);
    check(&format!("{by_address} sslmode=require"), &[], ENCRYPTED);
    check(&format!("{by_address} sslmode=require channel_binding=require"), &[], ENCRYPTED);
    let wrong = by_name.replace(PASSWORD, WRONG);
    check(&wrong, &[], &["password authentication failed for user \"ann\""]);
    // Who may come in without encryption only is let in by prefer, as libpq does.
    check(&by_name.replace("=ann", "=bob"), &[], PLAIN);
    let required = format!("{by_name} sslmode=require").replace("=ann", "=bob");
    check(&required, &[], &["no pg_hba.conf entry", "SSL encryption"]);

    let checked = |url: &str, mode: &str, root: &Path| {
        format!("{url} sslmode={mode} sslrootcert='{}'", root.display())
    };
    let unknown = |root: &str| format!("is not signed by an authority in {root}; set sslrootcert");
    let unknown_other = unknown(other.to_str().unwrap());
    let unknown_other =
        ["refused: the certificate of postgres://ann@", &unknown_other, "UnknownIssuer"];
    let name = [
        "refused: the certificate of postgres://ann@127.0.0.1:",
        "is for another host; use a host name that it lists",
        "localhost",
    ];
    check(&checked(&by_name, "verify-full", &root), &[], ENCRYPTED);
    check(&checked(&by_name, "verify-full", &other), &[], &unknown_other);
    check(&checked(&by_address, "verify-full", &root), &[], &name);
    let elsewhere = by_name.replace("host=localhost", "host=db.example hostaddr=127.0.0.1");
    check(&checked(&elsewhere, "verify-full", &root), &[], &["db.example", "is for another host"]);
    check(&checked(&by_address, "verify-ca", &root), &[], ENCRYPTED);
    check(&checked(&by_address, "verify-ca", &other), &[], &unknown_other);
    check(&checked(&by_address, "require", &root), &[], ENCRYPTED);
    check(&checked(&by_address, "require", &other), &[], &unknown_other);

    let url = format!(
        "postgres://ann:hush%3A4711@localhost:{}/postgres?sslmode=verify-full&sslrootcert={}",
        server.port(),
        root.to_str().unwrap().replace(' ', "%20"),
    );
    check(&url, &[], ENCRYPTED);

    let system = format!("{by_name} sslrootcert=system");
    check(&system, &[("SSL_CERT_FILE", root.to_str().unwrap())], ENCRYPTED);
    let unknown_system = unknown("the system's certificate store");
    check(&system, &[("SSL_CERT_FILE", other.to_str().unwrap())], &[&unknown_system]);
    let home = dir.path().to_str().unwrap();
    let full = format!("{by_name} sslmode=verify-full");
    check(&full, &[("SSL_CERT_FILE", root.to_str().unwrap())], ENCRYPTED);
    authority.write(dir.path(), ".postgresql/root.crt");
    let environment = [("HOME", home), ("SSL_CERT_FILE", other.to_str().unwrap())];
    check(&full, &environment, ENCRYPTED);

    // A socket file needs no encryption, in any mode.
    let socket = format!("{} sslmode=verify-full sslrootcert=/no/such/file", server.url());
    check(&socket, &[], PLAIN);
    let first = server.url().replacen(" port", ",localhost port", 1);
    check(&format!("{first} sslmode=require"), &[], PLAIN);
}

#[test]
fn a_handshake_that_fails_is_fatal_unless_encryption_is_only_preferred() {
    let identity = Authority::new("root").identity("localhost");
    let server = server(&Options {
        tcp: &[SCRAM],
        identity: Some(&identity),
        // What rustls takes for broken and will not do.
        settings: &["ssl_max_protocol_version=TLSv1.2", "ssl_ciphers=AES128-SHA"],
    });
    let url = with_password(&ann(&server));
    check(&url, &[], PLAIN);
    check(
        &format!("{url} sslmode=require"),
        &[],
        &["refused: cannot set up TLS with postgres://ann@127.0.0.1:", "HandshakeFailure"],
    );
}
