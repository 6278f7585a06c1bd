//! [`Halting`]: a proxy in front of a PostgreSQL server that stops in the middle of it all.
//!
//! From then on it carries no byte and closes nothing, as a frozen server or a lost network does,
//! until it is dropped. It says when it has stopped.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// Listens as if it were a server.
pub(crate) struct Halting {
    dir: TempDir,
    route: Arc<Route>,
    halted: Receiver<()>,
}

struct Route {
    server: PathBuf,
    /// How many bytes of the server are carried, over all connections together.
    most: usize,
    state: Mutex<State>,
    over: Condvar,
    tell: Sender<()>,
}

#[derive(Default)]
struct State {
    carried: usize,
    halted: bool,
    over: bool,
}

impl Halting {
    /// Carries so many bytes of the server, and then no more.
    pub(crate) fn after(most: usize, server: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("millstream-halting").tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(".s.PGSQL.5432")).unwrap();
        let (tell, halted) = mpsc::channel();
        let (server, state, over) = (server.to_owned(), Mutex::default(), Condvar::new());
        let route = Arc::new(Route { server, most, state, over, tell });
        let shared = Arc::clone(&route);
        // Ends with the process.
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, route) = (client.unwrap(), Arc::clone(&shared));
                // What breaks here was broken by a client that has ended.
                thread::spawn(move || drop(carry(&client, &route)));
            }
        });
        Halting { dir, route, halted }
    }

    /// A connection string for what is behind the proxy.
    pub(crate) fn url(&self) -> String {
        format!("host={} user=tester dbname=postgres", self.dir.path().display())
    }

    /// How many bytes of the server came through.
    pub(crate) fn carried(&self) -> usize {
        self.route.state.lock().unwrap().carried
    }

    /// Waits until it has stopped.
    pub(crate) fn wait(&self, limit: Duration) -> Result<(), String> {
        let never = |_| format!("the server never sent {} bytes", self.route.most);
        self.halted.recv_timeout(limit).map_err(never)
    }
}

impl Drop for Halting {
    fn drop(&mut self) {
        self.route.state.lock().unwrap().over = true;
        self.route.over.notify_all();
    }
}

impl Route {
    /// How many of these bytes of the server may pass.
    fn pass(&self, bytes: usize) -> usize {
        let mut state = self.state.lock().unwrap();
        let allowed = if state.halted { 0 } else { bytes.min(self.most - state.carried) };
        state.carried += allowed;
        allowed
    }

    fn is_halted(&self) -> bool {
        self.state.lock().unwrap().halted
    }

    /// Stays here, with the connection open, until all is over.
    fn halt(&self) {
        let mut state = self.state.lock().unwrap();
        if !state.halted {
            state.halted = true;
            // Nobody may be waiting for it.
            let _ = self.tell.send(());
        }
        drop(self.over.wait_while(state, |state| !state.over).unwrap());
    }
}

fn carry(client: &UnixStream, route: &Arc<Route>) -> io::Result<()> {
    if route.most == 0 || route.is_halted() {
        route.halt();
        return Ok(());
    }
    let server = UnixStream::connect(&route.server)?;
    let (up, from_client, to_server) =
        (Arc::clone(route), client.try_clone()?, server.try_clone()?);
    thread::spawn(move || drop(carry_up(&from_client, &to_server, &up)));
    let (mut from, mut to) = (&server, client);
    let mut buffer = vec![0; 8192];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return client.shutdown(Shutdown::Both);
        }
        let allowed = route.pass(length);
        to.write_all(&buffer[..allowed])?;
        if allowed < length {
            route.halt();
            return server.shutdown(Shutdown::Both);
        }
    }
}

fn carry_up(client: &UnixStream, server: &UnixStream, route: &Route) -> io::Result<()> {
    let (mut from, mut to) = (client, server);
    let mut buffer = vec![0; 8192];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        if !route.is_halted() {
            to.write_all(&buffer[..length])?;
        }
    }
}
