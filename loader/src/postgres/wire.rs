//! [`Wire`]: a connection with the runtime that drives it; blocking from the outside.
//!
//! What the `postgres` crate's `Client` does, with its parts: that one enters the runtime anew for
//! every row of a COPY, which costs a third more CPU than the transfer itself. Here the runtime is
//! entered once per statement.

use super::gather::Gather;
use ::postgres::{Error, SimpleQueryMessage, Socket, Statement, tls::MakeTlsConnect};
use futures_util::{StreamExt, future::poll_immediate};
use std::{ops::ControlFlow, pin::pin, thread, time::Duration};
use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinHandle, yield_now},
    time::timeout,
};
use tokio_postgres::{CancelToken, Client, Config};

/// How long to wait for the end of what a server was sending when its connection is dropped.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(2);

/// How long to wait for a server to take a request to cancel.
const CANCEL_PATIENCE: Duration = Duration::from_secs(2);

/// A connection. Dropping it tells the server goodbye, after the running statement has ended.
pub(crate) struct Wire {
    runtime: Runtime,
    /// `None` only while it is being dropped.
    client: Option<Client>,
    connection: Option<JoinHandle<Result<(), Error>>>,
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

impl Wire {
    /// Connects; `None` when the server does not answer within the time that `config` allows.
    pub(crate) fn connect<T>(config: &Config, tls: T) -> Option<Result<Self, Error>>
    where
        T: MakeTlsConnect<Socket> + Send + 'static,
        T::Stream: Send,
    {
        let runtime = runtime();
        // The crate's own timeout is for each address of a host, and ends when that is reached,
        // whether it answers or not.
        let patience = config.get_connect_timeout().map_or(Duration::MAX, |each| 3 * *each);
        let connecting = runtime.block_on(async { timeout(patience, config.connect(tls)).await });
        Some(connecting.ok()?.map(|(client, connection)| {
            let connection = runtime.spawn(connection);
            Wire { runtime, client: Some(client), connection: Some(connection) }
        }))
    }

    /// Runs statements and gives nothing back.
    pub(crate) fn batch_execute(&self, sql: &str) -> Result<(), Error> {
        self.runtime.block_on(self.client().batch_execute(sql))
    }

    /// Runs statements and gives their rows back as text.
    pub(crate) fn simple_query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        self.runtime.block_on(self.client().simple_query(sql))
    }

    /// Prepares a statement.
    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement, Error> {
        self.runtime.block_on(self.client().prepare(sql))
    }

    /// Runs a COPY and hands every message to `take`, which may end it early.
    pub(crate) fn copy_out<E>(
        &self,
        sql: &str,
        mut take: impl FnMut(&[u8]) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), CopyError<E>> {
        self.runtime.block_on(async {
            let stream = self.client().copy_out(sql).await.map_err(CopyError::Start)?;
            let mut stream = pin!(stream);
            let mut gather = Gather::new();
            loop {
                let message = match poll_immediate(stream.next()).await {
                    Some(message) => message,
                    None => {
                        // The connection's task may have more, but must have its turn to hand it on.
                        yield_now().await;
                        match poll_immediate(stream.next()).await {
                            Some(message) => message,
                            None => {
                                // Nothing else runs on this runtime.
                                gather.pause().into_iter().for_each(thread::sleep);
                                stream.next().await
                            }
                        }
                    }
                };
                let Some(bytes) = message else { return Ok(()) };
                let bytes = bytes.map_err(CopyError::Stream)?;
                gather.read(bytes.len());
                if take(&bytes).map_err(CopyError::Taker)?.is_break() {
                    return Ok(());
                }
            }
        })
    }

    /// What ends the running statement from another connection.
    pub(crate) fn cancel_token(&self) -> CancelToken {
        self.client().cancel_token()
    }

    /// Whether the connection is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.client().is_closed()
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
        if let Some(connection) = self.connection.take()
            && !thread::panicking()
        {
            let _ = self.runtime.block_on(async { timeout(GOODBYE_PATIENCE, connection).await });
        }
    }
}

/// Asks a server to end what a connection is doing; says whether the request got there.
pub(crate) fn cancel<T: MakeTlsConnect<Socket>>(token: &CancelToken, tls: T) -> bool {
    let request = async { timeout(CANCEL_PATIENCE, token.cancel_query(tls)).await };
    matches!(runtime().block_on(request), Ok(Ok(())))
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("the system can make a runtime")
}
