//! Servers that fall silent: whoever asks to stop is not kept waiting for them.
//!
//! Each of these servers would be silent for as long as anybody waits, so a load that does not stop
//! is stuck and not merely slow.

use crate::support::{connect, in_time, make_wide, server::Server, table};
use millstream_loader::{LoadError, Loader, PostgresReader, SourceKind, SourceSettings};
use millstream_stage::Source;
use std::{
    io::{Read, Write},
    net::TcpListener,
    ops::ControlFlow,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};
use tempfile::TempDir;

/// In front of a server: falls silent when so many bytes have come over a connection.
struct Stalling {
    dir: TempDir,
    /// Applies to connections made from then on.
    after: Arc<AtomicUsize>,
    stalled: Arc<AtomicBool>,
}

impl Stalling {
    /// Its threads end with the process.
    fn start(socket: PathBuf) -> Self {
        let dir = tempfile::Builder::new().prefix("millstream-stall").tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(".s.PGSQL.5432")).unwrap();
        let after = Arc::new(AtomicUsize::new(usize::MAX));
        let stalled = Arc::new(AtomicBool::new(false));
        let (limit, flag) = (Arc::clone(&after), Arc::clone(&stalled));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, socket, flag) = (client.unwrap(), socket.clone(), Arc::clone(&flag));
                let limit = limit.load(Ordering::SeqCst);
                thread::spawn(move || carry(&client, &socket, limit, &flag));
            }
        });
        Stalling { dir, after, stalled }
    }

    fn url(&self) -> String {
        format!("host={} user=tester dbname=postgres", self.dir.path().display())
    }

    /// Loads, and asks to stop when nothing comes any more.
    fn load(&self, settings: &SourceSettings) -> Result<u64, LoadError> {
        let (settings, stalled) = (settings.clone(), Arc::clone(&self.stalled));
        in_time("a load from a silent server", move || {
            let mut loader = Loader::new(settings, vec!["close_pct".to_owned()]).on_progress(
                Box::new(move |_| match stalled.load(Ordering::SeqCst) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }),
            );
            loader.next().map(|panel| panel.unwrap().row_count() as u64)
        })
    }

    /// From now on, falls silent after so many bytes.
    fn stall_after(&self, bytes: usize) {
        self.stalled.store(false, Ordering::SeqCst);
        self.after.store(bytes, Ordering::SeqCst);
    }
}

fn carry(client: &UnixStream, socket: &Path, limit: usize, stalled: &AtomicBool) {
    let mut server = UnixStream::connect(socket).unwrap();
    let (mut to_server, mut from_client) =
        (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || {
        // Whatever breaks, the other direction notices.
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(std::net::Shutdown::Write);
    });
    let (mut client, mut left, mut buffer) = (client, limit, vec![0; 8192]);
    while left > 0 {
        let wanted = buffer.len().min(left);
        let Ok(length @ 1..) = server.read(&mut buffer[..wanted]) else { return };
        if client.write_all(&buffer[..length]).is_err() {
            return;
        }
        left -= length;
    }
    // One byte more is there, and never arrives.
    if server.read(&mut buffer[..1]).is_ok_and(|length| length == 1) {
        stalled.store(true, Ordering::SeqCst);
        loop {
            thread::park();
        }
    }
}

#[test]
fn a_server_that_falls_silent_at_any_moment_does_not_keep_whoever_asks_to_stop() {
    let server = Server::with(&Default::default());
    make_wide(&mut connect(&server), "millstream_test_silent", 100, 200);
    let proxy = Stalling::start(server.socket().unwrap());
    let cache = tempfile::tempdir().unwrap();
    let settings = SourceSettings {
        url: Some(format!("{} connect_timeout=3600", proxy.url())),
        cache: cache.path().to_str().unwrap().to_owned(),
        ..table(&server, "millstream_test_silent")
    };
    // While it is connected to, asked what it is, while the load is planned, and amid the rows.
    for bytes in [0, 1, 20, 200, 500, 700, 1_000, 1_500, 2_500, 4_000, 100_000] {
        proxy.stall_after(bytes);
        let loaded = proxy.load(&settings);
        assert!(matches!(loaded, Err(LoadError::Interrupted)), "{bytes} bytes: {loaded:?}");
        let left: Vec<_> = std::fs::read_dir(cache.path()).unwrap().map(|e| e.unwrap()).collect();
        assert!(left.iter().all(|entry| entry.file_name() == ".lock"), "{left:?}");
    }
    // And when it is asked whether there are newer rows than those that are cached.
    proxy.stall_after(usize::MAX);
    assert_eq!(proxy.load(&settings).unwrap(), 20_000);
    for bytes in [0, 300, 1_000] {
        proxy.stall_after(bytes);
        let loaded = proxy.load(&settings);
        assert!(matches!(loaded, Err(LoadError::Interrupted)), "{bytes} bytes: {loaded:?}");
    }
}

#[test]
fn a_listener_that_says_nothing_does_not_keep_whoever_asks_to_stop() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for mode in ["disable", "prefer", "require"] {
        let url = format!(
            "postgres://ann@127.0.0.1:{port},127.0.0.1:{port}/d?connect_timeout=3600&sslmode={mode}"
        );
        let settings = SourceSettings {
            kind: SourceKind::Postgres,
            url: Some(url),
            table: Some("t".to_owned()),
            cache: String::new(),
            ..SourceSettings::default()
        };
        let loaded = in_time("a load from a listener", move || {
            let stop = Box::new(|_| ControlFlow::Break(()));
            Loader::new(settings, Vec::new()).on_progress(stop).next()
        });
        assert!(matches!(loaded, Err(LoadError::Interrupted)), "{loaded:?}");
    }
}

/// Stops and continues processes of ours: a server that hangs, but whose machine answers.
fn signal(signal: &str, pids: &[i32]) {
    let pids = pids.iter().map(ToString::to_string);
    let done = std::process::Command::new("kill").arg(signal).args(pids).status().unwrap();
    assert!(done.success());
}

#[test]
fn frozen_backends_do_not_keep_whoever_asks_to_stop() {
    let server = Server::with(&Default::default());
    let mut client = connect(&server);
    make_wide(&mut client, "millstream_test_frozen", 200, 300);
    let settings = SourceSettings {
        url: Some(format!("{} application_name=frozen", server.url())),
        filter: Some("extract(day from trade_date) <> 1 or pg_sleep(0.001) is not null".to_owned()),
        ..table(&server, "millstream_test_frozen")
    };
    let victims = "SELECT pid FROM pg_stat_activity WHERE application_name = 'frozen'";
    let (loaded, pids) = in_time("a load from frozen backends", move || {
        let pids = Arc::new(std::sync::Mutex::new(Vec::<i32>::new()));
        let frozen = Arc::clone(&pids);
        let mut loader = Loader::new(settings, Vec::new()).on_progress(Box::new(move |progress| {
            if progress.rows == 0 {
                return ControlFlow::Continue(());
            }
            let rows = client.query(victims, &[]).unwrap();
            frozen.lock().unwrap().extend(rows.iter().map(|row| row.get::<_, i32>(0)));
            signal("-STOP", &frozen.lock().unwrap());
            ControlFlow::Break(())
        }));
        (loader.next().map(|_| ()), pids)
    });
    let pids = pids.lock().unwrap().clone();
    signal("-CONT", &pids);
    assert!(!pids.is_empty());
    assert!(matches!(loaded, Err(LoadError::Interrupted)), "{loaded:?}");
}

#[test]
fn a_reader_is_dropped_though_its_server_is_silent() {
    let server = Server::with(&Default::default());
    make_wide(&mut connect(&server), "millstream_test_dropped", 100, 200);
    let proxy = Stalling::start(server.socket().unwrap());
    let settings =
        SourceSettings { url: Some(proxy.url()), ..table(&server, "millstream_test_dropped") };
    proxy.stall_after(100_000);
    let columns = millstream_loader::Columns::Packed;
    let reader = PostgresReader::open(&settings, columns).unwrap();
    while !proxy.stalled.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    in_time("dropping a reader", move || drop(reader));
}
