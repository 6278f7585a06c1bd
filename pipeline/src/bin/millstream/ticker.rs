//! [`Ticker`]: a thread that draws, so that no stage of a line has to.

use std::{
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Often enough for the eye.
const INTERVAL: Duration = Duration::from_millis(100);

/// Calls something again and again until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    /// Nothing is ever sent: the thread ends when this is gone.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Where no thread can be had there is no bar, and all else goes on.
    pub(crate) fn start(tick: impl Fn() + Send + 'static) -> Option<Self> {
        let (running, ended) = channel();
        let draw = move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                tick();
            }
        };
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(draw).ok()?;
        Some(Ticker { running: Some(running), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            // A bar that could not be drawn has said so, and is no reason to fail.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ticks_until_it_is_dropped() {
        let (ticked, ticks) = channel();
        let ticker = Ticker::start(move || ticked.send(()).unwrap_or(())).unwrap();
        ticks.recv().unwrap();
        ticks.recv().unwrap();
        drop(ticker);
        while ticks.try_recv().is_ok() {}
        assert!(ticks.recv().is_err(), "its thread is gone");
    }
}
