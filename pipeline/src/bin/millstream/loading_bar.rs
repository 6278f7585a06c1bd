//! The bar of a load: rows of about so many, rows of nobody knows how many, or the cache being
//! written.

use crate::display::{Display, brief};
use millstream_loader::{LoadProgress, Origin};

/// Shows how loading goes.
#[derive(Debug)]
pub(crate) struct LoadingBar {
    display: Display,
    shows: Option<Shows>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    Share,
    Count,
}

impl LoadingBar {
    pub(crate) fn new(display: Display) -> Self {
        LoadingBar { display, shows: None }
    }

    pub(crate) fn show(&mut self, progress: LoadProgress) {
        let LoadProgress { rows, expected, bytes, origin, .. } = progress;
        self.loaded(rows, expected, bytes, origin);
    }

    fn loaded(&mut self, rows: u64, expected: Option<u64>, bytes: Option<u64>, origin: Origin) {
        let seconds = self.display.seconds().max(0.001);
        let speed = bytes.map(|bytes| format!(", {:.0} MB/s", bytes as f64 / 1e6 / seconds));
        let speed = speed.unwrap_or_default();
        match (origin, expected) {
            (Origin::Source, Some(expected)) => {
                // What the server believes may be too little.
                let expected = expected.max(rows);
                if self.shows != Some(Shows::Share) {
                    self.display.measure(expected, "{wide_bar} loading {msg}, {eta} left");
                }
                self.shows = Some(Shows::Share);
                self.display.expect(expected);
                let message = format!("{} of about {} rows{speed}", brief(rows), brief(expected));
                self.display.reached(rows, message);
            }
            _ => {
                if self.shows != Some(Shows::Count) {
                    self.display.spin("{spinner} {msg}");
                }
                self.shows = Some(Shows::Count);
                let message = match origin {
                    Origin::Writing => format!("writing the cache, {} rows", brief(rows)),
                    _ => format!("loading {} rows {origin}{speed}", brief(rows)),
                };
                self.display.reached(rows, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::screen::Screen;

    #[test]
    fn the_cache_being_written_is_said_instead_of_a_time() {
        let screen = Screen::new(60);
        let mut bar = LoadingBar::new(Display::on(screen.clone()));
        let mut show = |rows, expected, bytes, origin| {
            bar.loaded(rows, expected, bytes, origin);
            let line = screen.last();
            assert!(line.chars().count() <= 60, "{line:?}");
            line
        };
        let loading = show(1_200_000, Some(2_400_000), Some(987_000_000), Origin::Source);
        assert!(loading.contains("loading 1.20M of about 2.40M rows"), "{loading}");
        assert!(loading.contains("left"), "{loading}");
        let writing = show(2_400_000, Some(2_400_000), Some(0), Origin::Writing);
        assert!(writing.contains("writing the cache, 2.40M rows"), "{writing}");
        assert!(!writing.contains("left"), "{writing}");
        let cached = show(2_400_000, None, None, Origin::Cache);
        assert!(cached.contains("loading 2.40M rows from cache"), "{cached}");
    }
}
