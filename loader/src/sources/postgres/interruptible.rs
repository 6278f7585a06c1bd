//! Asking a server from a thread that must go on asking whether to stop.

use crate::{
    LoadError,
    progress::{ProgressReporter, TICK},
};
use crossbeam_channel::{RecvTimeoutError, bounded};
use millstream_postgres::{Server, Stop};
use std::thread;

/// Does something with a server on a thread of its own, while this one asks whether to go on. When
/// it should not, the work is called off.
///
/// # Errors
/// [`LoadError::Interrupted`], or what the work gave.
pub(crate) fn interruptible<T: Send>(
    server: Server,
    reporter: &mut ProgressReporter<'_>,
    work: impl FnOnce(&Server) -> Result<T, LoadError> + Send,
) -> Result<T, LoadError> {
    let (hold, stop) = Stop::new();
    let server = server.stopped_by(stop);
    let (sender, done) = bounded::<()>(0);
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("load-ask".to_owned()).spawn_scoped(scope, || {
            // Dropped when the work ends, in whatever way.
            let _sender = sender;
            work(&server)
        });
        let worker = worker.expect("the system can start a thread");
        let asked = loop {
            match done.recv_timeout(TICK) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => break Ok(()),
            }
            if let Err(error) = reporter.check_interrupt() {
                break Err(error);
            }
        };
        drop(hold);
        let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        asked.and(result)
    })
}
