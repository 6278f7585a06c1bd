//! A connection that breaks at the very commit: it is not known what became of it, which is said; and it is all
//! or nothing.

use super::place::{Place, forecasts, refusal, text, written};
use millstream_predictor::PostgresTable;
use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Carries what is said both ways until a client says COMMIT. Then it hangs up on the client, and tells the
/// server, or does not.
fn carry(client: &UnixStream, server: &UnixStream, tell: bool) -> io::Result<()> {
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let cut = Arc::new(AtomicBool::new(false));
    let silenced = Arc::clone(&cut);
    thread::spawn(move || -> io::Result<()> {
        let mut buffer = [0; 8192];
        loop {
            let length = from_server.read(&mut buffer)?;
            if length == 0 || silenced.load(Ordering::SeqCst) {
                return to_client.shutdown(Shutdown::Both);
            }
            to_client.write_all(&buffer[..length])?;
        }
    });
    let mut buffer = [0; 8192];
    loop {
        let length = from_client.read(&mut buffer)?;
        let said = &buffer[..length];
        // The whole of a statement: others say ON COMMIT DROP.
        let commits = said.windows(7).any(|word| word == b"COMMIT\0");
        if commits {
            cut.store(true, Ordering::SeqCst);
            from_client.shutdown(Shutdown::Both)?;
        }
        if !commits || tell {
            to_server.write_all(said)?;
        }
        if commits || length == 0 {
            return to_server.shutdown(Shutdown::Write);
        }
    }
}

#[test]
fn a_commit_without_an_answer_is_said_to_be_that() {
    for (tell, expected) in [(true, "40 80"), (false, "30 30")] {
        let place = Place::start();
        place.write(&forecasts(0..30, 1.0)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let socket = place.socket();
        // It ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = UnixStream::connect(&socket).unwrap();
                // What breaks here was meant to.
                thread::spawn(move || drop(carry(&client, &server, tell)));
            }
        });
        let host = folder.path().display();
        let url = format!("postgres://tester@/postgres?host={host}&table=f");
        let table = PostgresTable::from_url(&url, "lstm", "first").unwrap();
        let line = refusal(written(table, &[&forecasts(0..40, 2.0)]));
        assert!(line.contains("broke while it committed"), "{line}");
        assert!(line.contains("all of the new rows or none of them"), "{line}");
        let mut client = place.client();
        let others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'millstream'";
        while text(&mut client, others) != "0" {}
        let found = text(&mut client, "SELECT count(*), sum(y_forecast) FROM f");
        assert_eq!(found, expected);
    }
}
