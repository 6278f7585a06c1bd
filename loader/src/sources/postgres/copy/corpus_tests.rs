//! The bounded run of the fuzz target: its corpus, and mutations of it, under an allocator that
//! knows the largest request.

use super::fuzz;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    fs,
    path::Path,
};

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with a note of the largest request of each thread.
struct Watched;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

fn note(bytes: usize) {
    // A thread that is ending has nothing to note any more.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

// SAFETY: every call goes to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, which is the same.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the caller keeps the contract of `realloc`, which is the same.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// The largest request that something makes.
fn largest(run: impl FnOnce()) -> usize {
    LARGEST.set(0);
    run();
    LARGEST.get()
}

/// What decoding so many bytes may ask for at once: Arrow's columns start with room for a thousand
/// values, and everything else grows with what has come.
fn allowed(bytes: usize) -> usize {
    (64 << 10) + 16 * bytes
}

fn check(data: &[u8]) {
    let asked = largest(|| fuzz::decode(data));
    assert!(asked <= allowed(data.len()), "{asked} bytes at once for {data:?}");
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/copy");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// A generator good enough to mutate with (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }

    /// Changes a few things: bytes, lengths, order, or where it ends.
    fn mutate(&mut self, data: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.below(4) {
            if data.is_empty() {
                return;
            }
            let at = self.below(data.len());
            match self.below(6) {
                0 => data[at] = self.below(256) as u8,
                1 => data[at] ^= 1 << self.below(8),
                2 => data.truncate(at),
                3 => {
                    let extreme = [[0xff; 4], [0x7f, 0xff, 0xff, 0xff], [0x3f, 0xff, 0xff, 0xff]];
                    let end = data.len().min(at + 4);
                    data[at..end].copy_from_slice(&extreme[self.below(3)][..end - at]);
                }
                4 => {
                    let from = self.below(other.len());
                    data.splice(at..at, other[from..].iter().take(64).copied());
                }
                _ => {
                    let end = data.len().min(at + self.below(40));
                    data.drain(at..end);
                }
            }
        }
    }
}

#[test]
fn the_corpus_and_what_is_near_it_is_decoded_within_bounds() {
    // The watch watches: a request that no message calls for would be seen.
    assert!(largest(|| drop(std::hint::black_box(vec![0_u8; 1 << 30]))) > allowed(1_000));

    let corpus = corpus();
    assert!(corpus.len() >= 25, "the corpus is not there");
    corpus.iter().for_each(|data| check(data));
    let mut random = Random(42);
    for _ in 0..40_000 {
        let other = random.below(corpus.len());
        let mut data = corpus[random.below(corpus.len())].clone();
        random.mutate(&mut data, &corpus[other]);
        check(&data);
    }
}
