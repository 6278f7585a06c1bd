//! The floor: the bytes of a load, received and thrown away.
//!
//! What it has in common with the loader: the COPY commands, which the loader itself made, the
//! number of connections, the transactions, the queue that connections take commands from, and
//! the `postgres` crate with its one copy of every byte out of the socket. What it has not: the
//! plan, the shared snapshot, decoding, and a result. Whatever a load takes beyond this is ours.

use crate::{
    content::Sample,
    harness::{
        Failure,
        sample::{Clock, Whose},
    },
};
use millstream_loader::{SourceSettings, copy_commands};
use postgres::{Client, NoTls};
use std::{
    io::BufRead,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Receives what a load with these settings would receive.
pub(crate) fn run(
    url: &str,
    settings: &SourceSettings,
    required: &[String],
) -> Result<Sample, Failure> {
    // Before the clock: making the plan is a cost of the loader.
    let commands = copy_commands(settings, required)?;
    let clock = Clock::start(Whose::Own)?;
    let next = AtomicUsize::new(0);
    let bytes = thread::scope(|scope| {
        let drain = || drain(url, &commands, &next);
        let threads: Vec<_> = (0..settings.connections.get()).map(|_| scope.spawn(drain)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("draining does not panic"))
            .sum::<Result<u64, Failure>>()
    })?;
    Ok(Sample { bytes: Some(bytes), ..clock.stop()? })
}

/// Takes commands until there are none left. Gives the number of bytes.
fn drain(url: &str, commands: &[String], next: &AtomicUsize) -> Result<u64, Failure> {
    let mut client = Client::connect(url, NoTls)?;
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let mut bytes = 0;
    while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut stream = client.copy_out(command)?;
        loop {
            let length = stream.fill_buf()?.len();
            if length == 0 {
                break;
            }
            stream.consume(length);
            bytes += length as u64;
        }
    }
    Ok(bytes)
}
