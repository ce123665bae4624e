//! A slice that several threads write at once, each its own places.

use std::{marker::PhantomData, ops::Range};

/// A slice whose parts are written by several tasks of one parallel region.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a, T> {
    first: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: it gives access only through `part`, whose callers answer for places being disjoint.
unsafe impl<T: Send> Sync for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(super) fn new(slice: &'a mut [T]) -> Self {
        Self { first: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// Some neighbouring places.
    ///
    /// # Safety
    /// No place may be in two parts that exist at the same time.
    ///
    /// # Panics
    /// When the slice has not so many places.
    pub(super) unsafe fn part(&self, places: Range<usize>) -> &'a mut [T] {
        assert!(places.start <= places.end && places.end <= self.len, "places of the slice");
        // SAFETY: the places are inside the slice, which is borrowed for 'a, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(places.start), places.len()) }
    }
}
