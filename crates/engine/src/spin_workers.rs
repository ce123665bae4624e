//! Keeps a pool's threads spinning during a step. A step is hundreds of short parallel regions, and waking a
//! sleeping thread takes longer than most of them.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::Yield;

/// Idle turns after which a thread stops looking: some 50 ms, longer than any part of a step that runs on one
/// thread. It may have started to look inside a piece of the work, while it waits for another thread's part
/// of that piece, which would then never end.
const MAX_IDLE_TURNS: u32 = 100_000;

/// Runs `work` on this thread while the other threads of its pool keep looking for pieces of it. Outside a
/// pool it just runs `work`.
pub fn spin_workers<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let Some(thread) = rayon::current_thread_index().filter(|_| rayon::current_num_threads() > 1) else {
        return work();
    };
    let over = AtomicBool::new(false);
    rayon::scope(|scope| {
        let over = &over;
        scope.spawn_broadcast(move |_, context| {
            // This thread gets a share too, and starts on it when it waits for a piece of the work.
            let mut n_idle = 0;
            while context.index() != thread && !over.load(Ordering::Acquire) && n_idle < MAX_IDLE_TURNS {
                if rayon::yield_now() == Some(Yield::Executed) {
                    n_idle = 0;
                } else {
                    n_idle += 1;
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
    use std::sync::mpsc;

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

    /// A thread takes up the looking inside a piece of the work, as it does where it waits for a part of that
    /// piece.
    #[test]
    fn a_piece_that_looks_for_others_ends() {
        let (started, has_started) = mpsc::channel();
        let (open, is_open) = mpsc::channel();
        let ended = AtomicBool::new(false);
        pool(2).in_place_scope(|scope| {
            let ended = &ended;
            scope.spawn(move |_| {
                started.send(()).unwrap();
                is_open.recv().unwrap();
                rayon::yield_now();
                ended.store(true, Ordering::Release);
            });
            has_started.recv().unwrap();
            scope.spawn(move |_| {
                spin_workers(|| {
                    open.send(()).unwrap();
                    while !ended.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                });
            });
        });
        assert!(ended.into_inner());
    }

    #[test]
    fn a_panic_comes_out() {
        let caught = std::panic::catch_unwind(|| pool(3).install(|| spin_workers(|| panic!("out"))));
        assert!(caught.is_err());
    }
}
