//! [`ReadPacing`]: how long to let bytes gather before reading on.
//!
//! A server sends 8 KiB at a time and is slower at it than we are at decoding, so a reader that
//! reads whenever there is something wakes up a hundred thousand times for a panel, and the waking
//! costs more than the reading. Reading in bursts instead takes a third off the client's CPU time,
//! and where client and server share a machine the server gets it. The pause follows the speed of
//! the stream: long enough for a burst to be worth it, too short for the socket's buffer to fill
//! up, which would hold the server up.

use std::time::Duration;

/// The longest pause.
const LONGEST: Duration = Duration::from_millis(1);

/// A pause that is not worth making.
const SHORTEST: Duration = Duration::from_micros(60);

/// Bytes that make a burst worth it. The buffers of a socket hold two to three times as much.
const BURST: usize = 64 << 10;

/// The rhythm of one stream.
#[derive(Debug)]
pub(crate) struct ReadPacing {
    pause: Duration,
    burst: usize,
}

impl ReadPacing {
    pub(crate) fn new() -> Self {
        ReadPacing { pause: LONGEST / 4, burst: BURST }
    }

    /// Takes note of bytes that were read.
    #[inline]
    pub(crate) fn read(&mut self, bytes: usize) {
        self.burst += bytes;
    }

    /// Everything there is has been read: how long to wait before asking for more.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        let burst = std::mem::take(&mut self.burst);
        if burst > 2 * BURST {
            self.pause = (self.pause / 2).max(SHORTEST);
        } else if burst < BURST {
            self.pause = (self.pause * 2).min(LONGEST);
        }
        (self.pause > SHORTEST).then_some(self.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of so many bytes a second; gives the pause it settles at and the bytes of a burst.
    fn settle(rate: f64) -> (Option<Duration>, usize) {
        let mut pacing = ReadPacing::new();
        let mut last = (None, 0);
        for _ in 0..50 {
            let pause = pacing.pause();
            let burst = pause.map_or(8192, |pause| (rate * pause.as_secs_f64()) as usize);
            pacing.read(burst);
            last = (pause, burst);
        }
        last
    }

    #[test]
    fn the_pause_follows_the_stream() {
        assert_eq!(settle(1e6).0, Some(LONGEST), "a trickle waits no longer than the longest");
        for rate in [1e8, 3e8, 6e8] {
            let (pause, burst) = settle(rate);
            assert!((BURST / 2..=2 * BURST + 1).contains(&burst), "{rate}: {pause:?}, {burst}");
        }
    }

    #[test]
    fn a_stream_that_never_runs_dry_never_waits() {
        let mut pacing = ReadPacing::new();
        for _ in 0..20 {
            pacing.read(10 * BURST);
            pacing.pause();
        }
        pacing.read(10 * BURST);
        assert_eq!(pacing.pause(), None);
    }
}
