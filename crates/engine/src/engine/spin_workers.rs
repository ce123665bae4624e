//! Keeps a pool's threads spinning during a step. A step is hundreds of short parallel regions, and waking a
//! sleeping thread takes longer than most of them.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::Yield;

/// Runs `work` on this thread while the other threads of its pool keep looking for pieces of it. Outside a
/// pool it just runs `work`.
pub fn spin_workers<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let Some(here) = rayon::current_thread_index().filter(|_| rayon::current_num_threads() > 1) else {
        return work();
    };
    let over = AtomicBool::new(false);
    rayon::scope(|scope| {
        let over = &over;
        scope.spawn_broadcast(move |_, context| {
            // This thread gets a share too, and starts on it when it waits for a piece of the work.
            while context.index() != here && !over.load(Ordering::Acquire) {
                if rayon::yield_now() != Some(Yield::Executed) {
                    std::thread::yield_now();
                }
            }
        });
        // Set even if the work panics: the scope waits for the others.
        let _end = End(over);
        work()
    })
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    fn pool(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
    }

    #[test]
    fn gives_what_the_work_gives_on_any_number_of_threads() {
        let work = || (0..1000_u64).into_par_iter().map(|x| x * x).sum::<u64>();
        assert_eq!(spin_workers(work), 332_833_500);
        for threads in [1, 2, 5] {
            for _ in 0..50 {
                assert_eq!(pool(threads).install(|| spin_workers(work)), 332_833_500);
            }
        }
    }

    #[test]
    fn a_panic_comes_out() {
        let caught = std::panic::catch_unwind(|| pool(3).install(|| spin_workers(|| panic!("out"))));
        assert!(caught.is_err());
    }
}
