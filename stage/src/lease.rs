//! [`Lease<T>`]: a value that goes back to its [`Pool`] when dropped.
//!
//! A pool holds a fixed number of values made once. Whoever holds a lease owns the value; dropping
//! it, on any thread and on any path out, returns it. Nothing is allocated after the pool is made,
//! so the memory of a line is bounded by its pools, not by its links.

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, select_biased};
use std::{
    convert::Infallible,
    ops::{Deref, DerefMut},
};

/// A fixed set of reusable values. Clones share the same set.
///
/// ```
/// let pool = millstream_stage::Pool::new([String::from("slot")]);
/// let mut lease = pool.take();
/// lease.push_str(" in use");
/// assert!(pool.try_take().is_none());
/// drop(lease);
/// assert_eq!(*pool.take(), "slot in use");
/// ```
#[derive(Debug)]
pub struct Pool<T> {
    free: Receiver<T>,
    home: Sender<T>,
}

impl<T> Clone for Pool<T> {
    fn clone(&self) -> Self {
        Pool { free: self.free.clone(), home: self.home.clone() }
    }
}

impl<T> Pool<T> {
    /// Makes a pool of these values.
    pub fn new(values: impl IntoIterator<Item = T>) -> Self {
        let values: Vec<T> = values.into_iter().collect();
        let (home, free) = bounded(values.len());
        for value in values {
            assert!(home.try_send(value).is_ok(), "the channel was made to hold every value");
        }
        Pool { free, home }
    }

    /// Takes a value, waiting for a lease to come back when none is free.
    ///
    /// # Panics
    /// When the pool was made empty: the wait could never end.
    #[must_use]
    pub fn take(&self) -> Lease<T> {
        assert!(self.free.capacity() != Some(0), "taking from a pool that was made empty");
        let value = self.free.recv().expect("the pool itself keeps the channel open");
        Lease { value: Some(value), home: self.home.clone() }
    }

    /// Like [`take`](Self::take), but gives up when `gone` disconnects.
    ///
    /// # Panics
    /// When the pool was made empty: the wait could never end.
    #[must_use]
    pub fn take_until(&self, gone: &Receiver<Infallible>) -> Option<Lease<T>> {
        assert!(self.free.capacity() != Some(0), "taking from a pool that was made empty");
        if let Some(lease) = self.try_take() {
            return Some(lease);
        }
        select_biased! {
            recv(gone) -> _ => None,
            recv(self.free) -> value => {
                let value = value.expect("the pool itself keeps the channel open");
                Some(Lease { value: Some(value), home: self.home.clone() })
            }
        }
    }

    /// Takes a value if one is free.
    #[must_use]
    pub fn try_take(&self) -> Option<Lease<T>> {
        match self.free.try_recv() {
            Ok(value) => Some(Lease { value: Some(value), home: self.home.clone() }),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                unreachable!("the pool itself keeps the channel open")
            }
        }
    }

    /// How many values are free right now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }
}

/// A value on loan from a [`Pool`].
#[derive(Debug)]
pub struct Lease<T> {
    /// `None` only inside `drop`.
    value: Option<T>,
    home: Sender<T>,
}

impl<T> Deref for Lease<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_ref().expect("a live lease holds its value")
    }
}

impl<T> DerefMut for Lease<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("a live lease holds its value")
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        let value = self.value.take().expect("a lease is dropped once");
        // The channel holds every value of the pool, so this never waits. It fails only when the
        // pool is gone, and then the value is dropped here, which is what should happen.
        drop(self.home.try_send(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_panic_returns_the_value() {
        let pool = Pool::new([1]);
        let inner = pool.clone();
        let result = std::thread::spawn(move || {
            let _lease = inner.take();
            panic!("on purpose");
        })
        .join();
        assert!(result.is_err());
        assert_eq!(*pool.take(), 1);
    }

    #[test]
    fn a_lease_that_outlives_its_pool_frees_the_value() {
        let witness = Arc::new(());
        let pool = Pool::new([Arc::clone(&witness)]);
        let lease = pool.take();
        drop(pool);
        assert_eq!(Arc::strong_count(&witness), 2);
        drop(lease);
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
