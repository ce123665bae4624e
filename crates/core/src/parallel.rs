//! Independent work on several threads, results in order. There is no pool: the threads are started for one
//! call and joined at its end. Work that computes, not waits, uses rayon.

use std::{
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Runs `work` once on each of `n_threads` threads; the results are in the order of the threads.
///
/// # Panics
/// With the first panic of `work`, after all threads have ended.
pub fn on_threads<R: Send>(n_threads: usize, work: impl Fn() -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(&work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Applies `work` to every item and its index, on at most `max_threads` threads and on none for a single
/// item. The results are in the order of the items.
///
/// # Panics
/// With the first panic of `work`, after all threads have ended.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    max_threads: usize,
    work: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    if items.len() < 2 {
        return items.iter().enumerate().map(|(idx, item)| work(idx, item)).collect();
    }
    let next = AtomicUsize::new(0);
    let take_turns = || {
        let idxs = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        let idxs = idxs.take_while(|&idx| idx < items.len());
        idxs.map(|idx| (idx, work(idx, &items[idx]))).collect::<Vec<_>>()
    };
    let of_threads = on_threads(items.len().min(max_threads.max(1)), take_turns);
    let mut results: Vec<(usize, R)> = of_threads.into_iter().flatten().collect();
    results.sort_by_key(|(idx, _)| *idx);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<usize> = (0..40).collect();
        // No thread can finish before all have started.
        let all_started = Barrier::new(items.len());
        let doubled = map(&items, 64, |idx, item| {
            all_started.wait();
            assert_eq!(idx, *item);
            item * 2
        });
        assert_eq!(doubled, items.iter().map(|i| i * 2).collect::<Vec<_>>());
        let many: Vec<usize> = (0..1000).collect();
        assert_eq!(map(&many, 64, |_, item| *item), many);
        assert_eq!(map(&[] as &[u8], 64, |_, _| 1), Vec::<i32>::new());
        assert_eq!(on_threads(3, || 7), [7, 7, 7]);
    }
}
