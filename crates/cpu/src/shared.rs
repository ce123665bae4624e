//! A slice that several threads write at once, each its own ranges.

use std::{marker::PhantomData, ops::Range};

/// A slice whose ranges are written by several tasks of one parallel region.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a, T> {
    first: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: the memory is accessed only through `part`, whose contract is that ranges which exist at the same
// time are disjoint; a `T` may be moved to another thread.
unsafe impl<T: Send> Sync for Shared<'_, T> {}
// SAFETY: the memory is exclusively borrowed, and a `T` may be moved to another thread.
unsafe impl<T: Send> Send for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(super) fn new(slice: &'a mut [T]) -> Self {
        Self { first: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// A range of the slice.
    ///
    /// # Safety
    /// Ranges that exist at the same time are disjoint.
    ///
    /// # Panics
    /// The range is not inside the slice.
    pub(super) unsafe fn part(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "a range of the slice");
        // SAFETY: the range is inside the slice (asserted), which is exclusively borrowed for 'a, initialised
        // and aligned; by the contract no other reference to it exists.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(range.start), range.len()) }
    }
}
