//! [`Connection`]: a connection with the runtime that drives it; blocking from the outside.
//!
//! What the `postgres` crate's `Client` does, with its parts: that one enters the runtime anew for
//! every row of a COPY, which costs a third more CPU than the transfer itself. Here the runtime is
//! entered once per statement, and for a COPY once per burst of its [reader](crate::CopyReader).

use crate::{
    copy_splitter::{DataSide, FirstBytes, ProtocolSide, split},
    socket::{Endpoint, Socket},
    stop::Stop,
};
use futures_util::future::{Either, select};
use postgres::{
    Error, SimpleQueryMessage, Statement,
    config::{SslMode, SslNegotiation, TargetSessionAttrs},
    tls::{MakeTlsConnect, TlsConnect},
};
use std::{io, pin::pin, thread, time::Duration};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::{Client, Config};

/// How long to wait for the end of what a server was sending when its connection is dropped.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(2);

/// How long to wait for a server to take a request to cancel.
const CANCEL_PATIENCE: Duration = Duration::from_secs(2);

/// A connection. Dropping it tells the server goodbye, after the running statement has ended.
pub struct Connection {
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
    /// `None` only while it is being dropped.
    client: Option<Client>,
    driver: Option<JoinHandle<Result<(), Error>>>,
    data: DataSide,
    endpoint: Endpoint,
}

/// What ends a running statement from another connection.
#[derive(Clone)]
pub struct CancelToken {
    token: tokio_postgres::CancelToken,
    endpoint: Endpoint,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// Nobody answers within the time that was allowed.
    NoAnswer,
    /// Nobody is there.
    Unreachable(io::Error),
    /// The server refuses, or makes no sense.
    Refused(Error),
    /// The wait was called off.
    Stopped,
}

impl Connection {
    /// Connects to the only host of `config`. Whatever the connection waits for from now on ends
    /// when `stop` is called: the connection is then gone.
    pub(crate) fn connect<T>(config: &Config, tls: T, stop: &Stop) -> Result<Self, ConnectError>
    where
        T: MakeTlsConnect<ProtocolSide, Error: std::error::Error + Send + Sync + 'static>,
        T::Stream: Send + 'static,
    {
        let runtime = runtime();
        // The configuration's own timeout is for each address, and ends when that is reached,
        // whether it answers or not.
        let patience = config.get_connect_timeout().map_or(Duration::MAX, |each| 3 * *each);
        let connected = runtime.block_on(async {
            let connecting = pin!(timeout(patience, connect(config, tls)));
            let parts = match select(connecting, pin!(stop.clone().called())).await {
                Either::Left((connected, _)) => connected.unwrap_or(Err(ConnectError::NoAnswer))?,
                Either::Right(_) => return Err(ConnectError::Stopped),
            };
            let (stop, driver) = (stop.clone(), parts.1.abort_handle());
            tokio::spawn(async move {
                stop.called().await;
                driver.abort();
            });
            Ok(parts)
        });
        match connected {
            Ok((client, driver, data, endpoint)) => {
                let (client, driver) = (Some(client), Some(driver));
                Ok(Connection { runtime: Some(runtime), client, driver, data, endpoint })
            }
            Err(error) => {
                // A lookup of a name that is still under way would be waited for.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Runs statements and gives nothing back.
    pub(crate) fn batch_execute(&self, sql: &str) -> Result<(), Error> {
        self.runtime().block_on(self.client().batch_execute(sql))
    }

    /// Runs statements and gives their rows back as text.
    pub(crate) fn simple_query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        self.runtime().block_on(self.client().simple_query(sql))
    }

    /// Prepares a statement.
    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement, Error> {
        self.runtime().block_on(self.client().prepare(sql))
    }

    /// What ends the running statement from another connection.
    #[must_use]
    pub fn cancel_token(&self) -> CancelToken {
        CancelToken { token: self.client().cancel_token(), endpoint: self.endpoint.clone() }
    }

    /// Whether somebody between here and the server could read along: it is not encrypted, and
    /// leaves this machine.
    pub(crate) fn is_exposed(&self) -> bool {
        !self.endpoint.is_local() && !self.data.is_encrypted()
    }

    /// Whether the connection is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.client().is_closed()
    }

    /// Where the data of a COPY comes out, unless it is encrypted.
    pub(crate) fn data(&self) -> &DataSide {
        &self.data
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime is there until the drop")
    }

    pub(crate) fn client(&self) -> &Client {
        self.client.as_ref().expect("the client is there until the drop")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Without its client the connection says goodbye and ends, as soon as the server has sent
        // what it was asked for. One that takes too long, or broke before, is just closed.
        self.client = None;
        let Some(runtime) = self.runtime.take() else { return };
        if let Some(driver) = self.driver.take()
            && !thread::panicking()
        {
            let _ = runtime.block_on(async { timeout(GOODBYE_PATIENCE, driver).await });
        }
        runtime.shutdown_background();
    }
}

/// Asks a server to end what a connection is doing; says whether the request got there.
pub(crate) fn cancel<T: MakeTlsConnect<Socket>>(
    token: &CancelToken,
    mut tls: T,
    stop: &Stop,
) -> bool {
    let request = async {
        let tls = tls.make_tls_connect(&token.endpoint.hostname).ok()?;
        let socket = token.endpoint.open().await.ok()?;
        token.token.cancel_query_raw(socket, tls).await.ok()
    };
    runtime().block_on(async {
        let request = pin!(timeout(CANCEL_PATIENCE, request));
        let called = pin!(stop.clone().called());
        matches!(select(request, called).await, Either::Left((Ok(Some(())), _)))
    })
}

/// What a connection consists of.
type Parts = (Client, JoinHandle<Result<(), Error>>, DataSide, Endpoint);

/// Connects to the first address of a host that lets us in.
async fn connect<T>(config: &Config, mut tls: T) -> Result<Parts, ConnectError>
where
    T: MakeTlsConnect<ProtocolSide, Error: std::error::Error + Send + Sync + 'static>,
    T::Stream: Send + 'static,
{
    let endpoints = Endpoint::all(config).await.map_err(ConnectError::Unreachable)?;
    let mut last = ConnectError::Unreachable(io::ErrorKind::AddrNotAvailable.into());
    for endpoint in endpoints {
        let tls = tls
            .make_tls_connect(&endpoint.hostname)
            .map_err(|error| ConnectError::Unreachable(io::Error::other(error)))?;
        match connect_to(config, endpoint, tls).await {
            Ok(parts) => return Ok(parts),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_to<T>(config: &Config, endpoint: Endpoint, tls: T) -> Result<Parts, ConnectError>
where
    T: TlsConnect<ProtocolSide>,
    T::Stream: Send + 'static,
{
    let socket = endpoint.open().await.map_err(ConnectError::Unreachable)?;
    let first = match (config.get_ssl_mode(), config.get_ssl_negotiation()) {
        (SslMode::Disable, _) => FirstBytes::Messages,
        (_, SslNegotiation::Direct) => FirstBytes::Tls,
        _ => FirstBytes::TlsAnswer,
    };
    let (protocol, data) = split(socket, first);
    let connected = config.connect_raw(protocol, tls).await;
    let (client, driver) = connected.map_err(ConnectError::Refused)?;
    let driver = tokio::spawn(driver);
    match config.get_target_session_attrs() {
        TargetSessionAttrs::ReadWrite => check_read_only(&client, false).await?,
        TargetSessionAttrs::ReadOnly => check_read_only(&client, true).await?,
        _ => {}
    }
    Ok((client, driver, data, endpoint))
}

/// Whether a server takes no changes, if that is what the user wants to know.
async fn check_read_only(client: &Client, wanted: bool) -> Result<(), ConnectError> {
    let answer = client.simple_query("SHOW transaction_read_only").await;
    let is_read_only = answer
        .map_err(ConnectError::Refused)?
        .iter()
        .any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("on")));
    if is_read_only == wanted {
        return Ok(());
    }
    let why = if wanted { "database is not read only" } else { "database does not allow writes" };
    Err(ConnectError::Unreachable(io::Error::new(io::ErrorKind::PermissionDenied, why)))
}

/// Whether a wait is called off within this time; waits for that.
pub(crate) fn called_within(stop: &Stop, time: Duration) -> bool {
    runtime().block_on(async { timeout(time, stop.clone().called()).await.is_ok() })
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("the system can make a runtime")
}
