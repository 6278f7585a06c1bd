//! The methods: what is done to the panel, and by whom.

use crate::{
    copies,
    fill::{Fill, Kind, SLOTS},
    harness::{
        Failure,
        rounds::Method as _,
        sample::{Clock, Sample, Whose},
    },
    passes::{self, Pages},
    prepare,
    workload::{self, FEATURES, Size},
};
use millstream_data::Panel;
use millstream_normalize::Split;
use millstream_stage::thread_pool_here;
use rayon::ThreadPool;
use std::{hint::black_box, num::NonZeroUsize};

/// One way to do one piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Ours.
    Fill(Kind),
    /// Ours, always into the same slot.
    FillOneSlot,
    /// The floor of filling: the same spans into the same slots.
    Copy(Kind),
    /// The same on one thread.
    CopySequentially,
    /// Ours.
    Prepare,
    /// The floor of preparing: the same memory read, then read and written to fresh memory.
    Passes(Pages),
    /// Another library, by its name in `peers.py`.
    Peer(&'static str),
}

/// Threads of everybody.
pub(crate) const THREADS: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not zero");

impl crate::harness::rounds::Method for Method {
    fn describe(self) -> String {
        let name = match self {
            Method::Fill(kind) => return format!("ours: fill, {}", kind.describe()),
            Method::FillOneSlot => "ours: fill, no reference, one slot",
            Method::Copy(Kind::Plain) => "floor: parallel memcpy of the same spans",
            Method::Copy(kind) => {
                return format!("floor: parallel memcpy of the spans of {}", kind.describe());
            }
            Method::CopySequentially => "floor: sequential memcpy of the same spans",
            Method::Prepare => "ours: fit and apply",
            Method::Passes(Pages::Large) => "floor: two streaming passes, large pages",
            Method::Passes(Pages::Ordinary) => "floor: two streaming passes, ordinary pages",
            Method::Peer(name) => name,
        };
        name.to_owned()
    }

    fn is_peer(self) -> bool {
        matches!(self, Method::Peer(_))
    }
}

/// All that the methods work on.
pub(crate) struct Work {
    pub(crate) size: Size,
    pub(crate) panel: Panel,
    pub(crate) split: Split,
    pool: ThreadPool,
    /// What is filled, in the order of [`Kind::ALL`].
    fills: Vec<Fill>,
}

impl Work {
    pub(crate) fn new(size: Size) -> Result<Self, Failure> {
        eprintln!("making a panel of {} series", size.series);
        let panel = workload::panel(size)?;
        let split = workload::split(&panel)?;
        // As the stage has it: this thread is one of the two.
        let pool = thread_pool_here("bench", THREADS).expect("two threads can be had");
        let fill = |kind| pool.install(|| Fill::new(&panel, &split, kind));
        let fills = Kind::ALL.into_iter().map(fill).collect::<Result<_, _>>()?;
        Ok(Work { size, panel, split, pool, fills })
    }

    pub(crate) fn fill(&mut self, kind: Kind) -> &mut Fill {
        &mut self.fills[kind as usize]
    }

    /// Bytes of the inputs that a figure of filling is about.
    pub(crate) fn filled_bytes(&self) -> u64 {
        self.size.batches * self.fills[0].batch_bytes()
    }

    /// Bytes of the panel's values.
    pub(crate) fn panel_bytes(&self) -> u64 {
        (self.panel.row_count() * FEATURES * size_of::<f32>()) as u64
    }

    /// Runs one of our own methods, or a floor.
    pub(crate) fn measure(&mut self, method: Method) -> Result<Sample<()>, Failure> {
        match method {
            Method::Fill(kind) => self.batches(kind, |pool, fill| pool.install(|| fill.next())),
            Method::FillOneSlot => {
                self.batches(Kind::Plain, |pool, fill| pool.install(|| fill.next_in_one_slot()))
            }
            Method::Copy(kind) => {
                self.batches(kind, |pool, fill| pool.install(|| copies::parallel(fill)))
            }
            Method::CopySequentially => {
                self.batches(Kind::Plain, |_, fill| copies::sequential(fill))
            }
            Method::Prepare => {
                let clock = Clock::start(Whose::Own)?;
                let rows = self.pool.install(|| prepare::run(&self.panel, &self.split))?;
                stop(clock, &rows)
            }
            Method::Passes(pages) => {
                let clock = Clock::start(Whose::Own)?;
                let copy = self.pool.install(|| passes::run(&self.panel, pages));
                stop(clock, &copy)
            }
            Method::Peer(_) => Err(format!("{} is another program", method.describe()).into()),
        }
    }

    fn batches(
        &mut self,
        kind: Kind,
        mut next: impl FnMut(&ThreadPool, &mut Fill),
    ) -> Result<Sample<()>, Failure> {
        let fill = &mut self.fills[kind as usize];
        // Once through all slots: what ran before had the caches for itself.
        (0..SLOTS).for_each(|_| next(&self.pool, fill));
        let clock = Clock::start(Whose::Own)?;
        (0..self.size.batches).for_each(|_| next(&self.pool, fill));
        stop(clock, &())
    }
}

/// Stops the clock while the result is still there. The process has more in memory than any one
/// method needs, so its peak says nothing.
fn stop<T>(clock: Clock, result: &T) -> Result<Sample<()>, Failure> {
    let sample = clock.stop()?;
    black_box(result);
    Ok(Sample { peak_rss_mb: None, ..sample })
}
