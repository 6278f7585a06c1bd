//! [`Socket`] and [`Endpoint`]: the bytes to and from a server, and where they go.
//!
//! What `tokio-postgres` would do by itself, done here because it then keeps its socket to itself,
//! and [`copy_splitter`](crate::copy_splitter) needs it. TLS, passwords and everything else that is
//! said over a socket is that crate's business.

use socket2::{SockRef, TcpKeepalive};
use std::{fmt::Debug, io, net::SocketAddr, path::PathBuf, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream, lookup_host},
    time::timeout,
};
use tokio_postgres::{Config, config::Host};

/// A connected socket.
pub(crate) type Socket = Box<dyn ByteStream>;

/// What goes both ways.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Debug + Send + Unpin> ByteStream for S {}

/// One address of a host, with what is to be set on a socket to it.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    address: Address,
    /// The name that a certificate must be for; empty where there can be none.
    pub(crate) hostname: String,
    timeout: Option<Duration>,
    silence: Option<Duration>,
    keepalive: Option<TcpKeepalive>,
}

#[derive(Debug, Clone)]
enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Endpoint {
    /// Whether it is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match &self.address {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }

    /// The addresses of a configuration's only host, in the order in which to try them.
    pub(crate) async fn all(config: &Config) -> io::Result<Vec<Endpoint>> {
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let [host] = config.get_hosts() else {
            unreachable!("a configuration is made for each host")
        };
        let (addresses, hostname) = match (host, config.get_hostaddrs().first()) {
            (Host::Unix(folder), None) => {
                (vec![Address::Unix(folder.join(format!(".s.PGSQL.{port}")))], String::new())
            }
            (Host::Unix(_), Some(ip)) => {
                (vec![Address::Tcp(SocketAddr::new(*ip, port))], String::new())
            }
            (Host::Tcp(name), Some(ip)) => {
                (vec![Address::Tcp(SocketAddr::new(*ip, port))], name.clone())
            }
            (Host::Tcp(name), None) => {
                let found = lookup_host((name.as_str(), port)).await.map_err(|error| {
                    io::Error::new(error.kind(), format!("the lookup of its name failed: {error}"))
                })?;
                (found.map(Address::Tcp).collect(), name.clone())
            }
        };
        let endpoint = |address| Endpoint {
            address,
            hostname: hostname.clone(),
            timeout: config.get_connect_timeout().copied(),
            silence: config.get_tcp_user_timeout().copied(),
            keepalive: config.get_keepalives().then(|| keepalive(config)),
        };
        Ok(addresses.into_iter().map(endpoint).collect())
    }

    /// Connects.
    pub(crate) async fn open(&self) -> io::Result<Socket> {
        match self.timeout {
            None => self.open_some_time().await,
            Some(limit) => timeout(limit, self.open_some_time())
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        }
    }

    async fn open_some_time(&self) -> io::Result<Socket> {
        let address = match &self.address {
            Address::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            Address::Tcp(address) => address,
        };
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        #[cfg(target_os = "linux")]
        if self.silence.is_some() {
            socket.set_tcp_user_timeout(self.silence)?;
        }
        if let Some(keepalive) = &self.keepalive {
            socket.set_tcp_keepalive(keepalive)?;
        }
        Ok(Box::new(stream))
    }
}

fn keepalive(config: &Config) -> TcpKeepalive {
    let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
    if let Some(interval) = config.get_keepalives_interval() {
        keepalive = keepalive.with_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        keepalive = keepalive.with_retries(retries);
    }
    keepalive
}
