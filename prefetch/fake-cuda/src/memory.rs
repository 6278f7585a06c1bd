//! The memory the driver has handed out: pinned host memory and "device" memory, all of it host
//! memory of exactly the size asked for, so that valgrind sees a step outside.

use crate::{config::Code, hazard::History};
use std::{alloc::Layout, collections::BTreeMap, ops::Range};

/// Device memory is at least this well aligned.
const ALIGN: usize = 256;

/// What new device memory holds: four of these are no number.
const GARBAGE: u8 = 0xff;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pinned,
    Device,
}

#[derive(Debug)]
pub(crate) struct Allocation {
    kind: Kind,
    address: usize,
    layout: Layout,
    pub(crate) history: History,
}

impl Allocation {
    pub(crate) fn range(&self) -> Range<usize> {
        self.address..self.address + self.layout.size()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: made by `alloc` with this layout in `Memory::add`, and dropped once.
        unsafe { std::alloc::dealloc(self.address as *mut u8, self.layout) };
    }
}

/// Every live allocation, by address.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    live: BTreeMap<usize, Allocation>,
    used: usize,
}

impl Memory {
    pub(crate) fn add(&mut self, kind: Kind, bytes: usize, limit: usize) -> Result<usize, Code> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if kind == Kind::Device && bytes > limit.saturating_sub(self.used) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let layout = Layout::from_size_align(bytes, ALIGN).map_err(|_| Code::OUT_OF_MEMORY)?;
        // SAFETY: the layout's size is not zero.
        let address = unsafe { std::alloc::alloc(layout) } as usize;
        if address == 0 {
            return Err(Code::OUT_OF_MEMORY);
        }
        if kind == Kind::Device {
            self.used += bytes;
            // What a consumer reads that does not wait for its copy is garbage, here as on a device;
            // but a test that lets it happen must not read memory that was never written.
            // SAFETY: just allocated with this size, and nobody else knows the address yet.
            unsafe { std::ptr::write_bytes(address as *mut u8, GARBAGE, bytes) };
        }
        let allocation = Allocation { kind, address, layout, history: History::default() };
        self.live.insert(address, allocation);
        Ok(address)
    }

    /// Forgets an allocation; dropping it frees the memory.
    pub(crate) fn remove(&mut self, kind: Kind, address: usize) -> Option<Allocation> {
        if self.live.get(&address)?.kind != kind {
            return None;
        }
        if kind == Kind::Device {
            self.used -= self.live[&address].layout.size();
        }
        self.live.remove(&address)
    }

    /// The allocation of this kind that holds the whole range.
    pub(crate) fn holding(&mut self, kind: Kind, range: &Range<usize>) -> Option<&mut Allocation> {
        let (_, found) = self.live.range_mut(..=range.start).next_back()?;
        (found.kind == kind && range.end <= found.range().end).then_some(found)
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.live.values().filter(|allocation| allocation.kind == kind).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_as_large_as_it_says_and_gives_back_what_is_freed() {
        let mut memory = Memory::default();
        let first = memory.add(Kind::Device, 60, 100).unwrap();
        assert_eq!(memory.add(Kind::Device, 60, 100), Err(Code::OUT_OF_MEMORY));
        memory.add(Kind::Pinned, 60, 100).unwrap();
        assert!(memory.holding(Kind::Device, &(first + 10..first + 60)).is_some());
        assert!(memory.holding(Kind::Device, &(first + 10..first + 61)).is_none());
        assert!(memory.holding(Kind::Pinned, &(first..first + 1)).is_none());
        assert!(memory.remove(Kind::Pinned, first).is_none(), "not pinned memory");
        assert!(memory.remove(Kind::Device, first).is_some());
        assert_eq!((memory.used(), memory.count(Kind::Device)), (0, 0));
        memory.add(Kind::Device, 100, 100).unwrap();
    }
}
