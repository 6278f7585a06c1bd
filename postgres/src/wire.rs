//! [`Wire`]: a connection with the runtime that drives it; blocking from the outside.
//!
//! What the `postgres` crate's `Client` does, with its parts: that one enters the runtime anew for
//! every row of a COPY, which costs a third more CPU than the transfer itself. Here the runtime is
//! entered once per statement, and the data of a COPY comes through a [`tap`](crate::tap) where it
//! can.

use crate::{
    gather::Gather,
    socket::{Place, Socket},
    stop::Stop,
    tap::{Draw, Start, Tap, tap},
};
use futures_util::{
    Stream,
    future::{Either, poll_immediate, select},
};
use postgres::{
    Error, SimpleQueryMessage, Statement,
    config::{SslMode, SslNegotiation, TargetSessionAttrs},
    tls::{MakeTlsConnect, TlsConnect},
};
use std::{future::poll_fn, io, ops::ControlFlow, pin::pin, task::Poll, thread, time::Duration};
use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinHandle, yield_now},
    time::timeout,
};
use tokio_postgres::{Client, Config};

/// How long to wait for the end of what a server was sending when its connection is dropped.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(2);

/// How long to wait for a server to take a request to cancel.
const CANCEL_PATIENCE: Duration = Duration::from_secs(2);

/// A connection. Dropping it tells the server goodbye, after the running statement has ended.
pub struct Wire {
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
    /// `None` only while it is being dropped.
    client: Option<Client>,
    connection: Option<JoinHandle<Result<(), Error>>>,
    draw: Draw,
    place: Place,
}

/// What ends a running statement from another connection.
#[derive(Clone)]
pub struct CancelToken {
    token: tokio_postgres::CancelToken,
    place: Place,
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

/// Why a COPY ended early.
pub(crate) enum CopyError<E> {
    /// The server could not start it.
    Start(Error),
    /// The stream broke.
    Stream(Error),
    /// Whoever takes the bytes failed.
    Taker(E),
}

/// What a COPY brings.
enum Next<M> {
    /// Data, at the tap.
    Data,
    /// Data that was not drawn off, or how the stream ended.
    Message(M),
}

impl Wire {
    /// Connects to the only host of `config`. Whatever the connection waits for from now on ends
    /// when `stop` is called: the connection is then gone.
    pub(crate) fn connect<T>(config: &Config, tls: T, stop: &Stop) -> Result<Self, ConnectError>
    where
        T: MakeTlsConnect<Tap, Error: std::error::Error + Send + Sync + 'static>,
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
            let (stop, connection) = (stop.clone(), parts.1.abort_handle());
            tokio::spawn(async move {
                stop.called().await;
                connection.abort();
            });
            Ok(parts)
        });
        match connected {
            Ok((client, connection, draw, place)) => {
                let (client, connection) = (Some(client), Some(connection));
                Ok(Wire { runtime: Some(runtime), client, connection, draw, place })
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

    /// Runs a COPY and hands the data of every message to `take`, which may end it early.
    pub(crate) fn copy_out<E>(
        &self,
        sql: &str,
        mut take: impl FnMut(&[u8]) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), CopyError<E>> {
        self.runtime().block_on(async {
            let _open = self.draw.open();
            let stream = self.client().copy_out(sql).await.map_err(CopyError::Start)?;
            let mut stream = pin!(stream);
            let mut gather = Gather::new();
            // Data that can be drawn comes before any message.
            let mut next = poll_fn(|cx| match self.draw.poll(cx) {
                Poll::Ready(()) => Poll::Ready(Next::Data),
                Poll::Pending => stream.as_mut().poll_next(cx).map(Next::Message),
            });
            loop {
                let mut came = poll_immediate(&mut next).await;
                if came.is_none() && !self.draw.flows() {
                    // The connection's task may have more, but must have its turn to hand it on.
                    yield_now().await;
                    came = poll_immediate(&mut next).await;
                }
                let came = match came {
                    Some(came) => came,
                    None => {
                        // Nothing else runs on this runtime.
                        gather.pause().into_iter().for_each(thread::sleep);
                        (&mut next).await
                    }
                };
                let mut take = |bytes: &[u8]| {
                    gather.read(bytes.len());
                    take(bytes)
                };
                let taken = match came {
                    Next::Data => self.draw.take(take),
                    Next::Message(None) => return Ok(()),
                    Next::Message(Some(bytes)) => take(&bytes.map_err(CopyError::Stream)?),
                };
                if taken.map_err(CopyError::Taker)?.is_break() {
                    return Ok(());
                }
            }
        })
    }

    /// What ends the running statement from another connection.
    #[must_use]
    pub fn cancel_token(&self) -> CancelToken {
        CancelToken { token: self.client().cancel_token(), place: self.place.clone() }
    }

    /// Whether somebody between here and the server could read along: it is not encrypted, and
    /// leaves this machine.
    pub(crate) fn is_exposed(&self) -> bool {
        !self.place.is_local() && !self.draw.is_opaque()
    }

    /// Whether the connection is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.client().is_closed()
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime is there until the drop")
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("the client is there until the drop")
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Without its client the connection says goodbye and ends, as soon as the server has sent
        // what it was asked for. One that takes too long, or broke before, is just closed.
        self.client = None;
        let Some(runtime) = self.runtime.take() else { return };
        if let Some(connection) = self.connection.take()
            && !thread::panicking()
        {
            let _ = runtime.block_on(async { timeout(GOODBYE_PATIENCE, connection).await });
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
        let tls = tls.make_tls_connect(&token.place.hostname).ok()?;
        let socket = token.place.open().await.ok()?;
        token.token.cancel_query_raw(socket, tls).await.ok()
    };
    runtime().block_on(async {
        let request = pin!(timeout(CANCEL_PATIENCE, request));
        let called = pin!(stop.clone().called());
        matches!(select(request, called).await, Either::Left((Ok(Some(())), _)))
    })
}

/// What a connection consists of.
type Parts = (Client, JoinHandle<Result<(), Error>>, Draw, Place);

/// Connects to the first address of a host that lets us in.
async fn connect<T>(config: &Config, mut tls: T) -> Result<Parts, ConnectError>
where
    T: MakeTlsConnect<Tap, Error: std::error::Error + Send + Sync + 'static>,
    T::Stream: Send + 'static,
{
    let places = Place::all(config).await.map_err(ConnectError::Unreachable)?;
    let mut last = ConnectError::Unreachable(io::ErrorKind::AddrNotAvailable.into());
    for place in places {
        let tls = tls
            .make_tls_connect(&place.hostname)
            .map_err(|error| ConnectError::Unreachable(io::Error::other(error)))?;
        match connect_to(config, place, tls).await {
            Ok(parts) => return Ok(parts),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_to<T>(config: &Config, place: Place, tls: T) -> Result<Parts, ConnectError>
where
    T: TlsConnect<Tap>,
    T::Stream: Send + 'static,
{
    let socket = place.open().await.map_err(ConnectError::Unreachable)?;
    let start = match (config.get_ssl_mode(), config.get_ssl_negotiation()) {
        (SslMode::Disable, _) => Start::Messages,
        (_, SslNegotiation::Direct) => Start::Tls,
        _ => Start::Answer,
    };
    let (tap, draw) = tap(socket, start);
    let (client, connection) = config.connect_raw(tap, tls).await.map_err(ConnectError::Refused)?;
    let connection = tokio::spawn(connection);
    match config.get_target_session_attrs() {
        TargetSessionAttrs::ReadWrite => check_read_only(&client, false).await?,
        TargetSessionAttrs::ReadOnly => check_read_only(&client, true).await?,
        _ => {}
    }
    Ok((client, connection, draw, place))
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

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("the system can make a runtime")
}
