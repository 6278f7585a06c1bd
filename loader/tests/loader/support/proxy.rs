//! A Unix-socket proxy in front of PostgreSQL servers, for what a network does to a connection.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::Arc,
    thread,
};
use tempfile::TempDir;

/// What happens to a connection: where it leads and after how many bytes from the server it is cut.
pub(crate) struct Route {
    pub(crate) socket: PathBuf,
    pub(crate) cut_after: usize,
}

/// Listens as if it were a server. Its threads end with the process.
pub(crate) struct Proxy {
    dir: TempDir,
}

impl Proxy {
    /// Starts a proxy; `route` decides about every connection, by its number.
    pub(crate) fn start(route: impl Fn(usize) -> Route + Send + Sync + 'static) -> Self {
        let dir = tempfile::Builder::new().prefix("millstream-proxy").tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(".s.PGSQL.5432")).unwrap();
        let route = Arc::new(route);
        thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let (client, route) = (client.unwrap(), route(number));
                thread::spawn(move || carry(&client, &route));
            }
        });
        Proxy { dir }
    }

    /// A connection string for what is behind the proxy.
    pub(crate) fn url(&self) -> String {
        format!("host={} user=tester dbname=postgres", self.dir.path().display())
    }
}

fn carry(client: &UnixStream, route: &Route) {
    let server = UnixStream::connect(&route.socket).unwrap();
    let (to_server, from_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let up = thread::spawn(move || copy(from_client, to_server, usize::MAX));
    // Whatever breaks breaks both ways, like a reset connection.
    let _ = copy(server.try_clone().unwrap(), client.try_clone().unwrap(), route.cut_after);
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
    let _ = up.join().unwrap();
}

fn copy(mut from: UnixStream, mut to: UnixStream, most: usize) -> io::Result<()> {
    let mut buffer = vec![0; 8192];
    let mut copied = 0;
    while copied < most {
        let wanted = buffer.len().min(most - copied);
        let length = from.read(&mut buffer[..wanted])?;
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        to.write_all(&buffer[..length])?;
        copied += length;
    }
    Ok(())
}
