//! The engine's workers, one on each device, and the routing of requests to them. A reply has the same bytes
//! from any of them; the choice affects only time.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    device::Device,
    llm::{Confirmed, PrefixTracker},
    model::Model,
};

use super::{
    Error, Options, Result, n_threads,
    radix::{Prefix, Variant},
    saved::{PrefixFiles, Saving},
    scheduler::{Limits, Scheduler},
    watch::StepWatch,
    worker::{Message, Submission, Worker},
};

/// Prompts are compared by prefixes of multiples of this many tokens.
const STRIDE: usize = 64;

/// All workers of an engine.
pub struct Workers {
    handles: Vec<WorkerHandle>,
    router: Mutex<Router>,
    /// Number of requests by which the worker with the cached prefix may exceed the least loaded worker.
    slack: usize,
}

/// A loaded model with its cache.
pub struct Ready {
    pub model: Box<dyn Model>,
    /// Blocks of the cache.
    pub n_blocks: usize,
    /// Slots for recurrent states; 0 for a model without.
    pub n_slots: usize,
    /// Bytes of the cache, on all cards of the model together.
    pub kv_bytes: usize,
    pub limits: Limits,
}

/// A handle of one worker.
struct WorkerHandle {
    // Dropped before the thread, which ends when all senders are dropped.
    inbox: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    computed: Arc<AtomicUsize>,
    watch: Arc<StepWatch>,
    /// True if the worker computes some steps a second time.
    rechecks: bool,
    _thread: Thread,
}

/// A worker's thread. Dropping joins the thread, so that device memory is free before the next engine is
/// created. A thread that waits for a hung device is left behind.
struct Thread(Option<JoinHandle<()>>, Arc<StepWatch>);

/// Interval at which a thread that may hang is checked.
const LOOK: Duration = Duration::from_millis(10);

impl Drop for Thread {
    fn drop(&mut self) {
        let Some(thread) = self.0.take() else { return };
        while self.1.is_watched() && !thread.is_finished() {
            if self.1.check().is_err() {
                return;
            }
            std::thread::sleep(LOOK);
        }
        // Callers of a thread that panicked get an error, because their channel is closed.
        let _ = thread.join();
    }
}

/// Prefixes of the prompts so far, and the workers that have them cached.
#[derive(Default)]
struct Router {
    /// By variant, since variants share no blocks.
    prefixes: BTreeMap<Variant, PrefixTracker>,
    affinity: Affinity,
}

/// The worker that last had a prompt with a prefix, by the prefix's hash. At least the last
/// [`Affinity::LEAST`] distinct prefixes are kept, and at most twice as many.
#[derive(Default)]
struct Affinity {
    recent: HashMap<u64, usize>,
    /// The previous generation; prefixes that do not occur again are dropped with it.
    older: HashMap<u64, usize>,
}

impl Affinity {
    /// Prefixes of 16 million tokens, one every [`STRIDE`].
    const LEAST: usize = 1 << 18;

    fn get(&self, prefix: u64) -> Option<usize> {
        self.recent.get(&prefix).or_else(|| self.older.get(&prefix)).copied()
    }

    fn insert(&mut self, prefix: u64, worker: usize) {
        self.recent.insert(prefix, worker);
        if self.recent.len() > Self::LEAST {
            std::mem::swap(&mut self.recent, &mut self.older);
            self.recent.clear();
        }
    }
}

/// Counts a request as pending until it is dropped.
pub struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// Starts a worker for each loaded model. With `files`, announced prefixes are saved.
    ///
    /// # Errors
    /// Threads that cannot be started.
    pub fn start(models: Vec<Ready>, files: Option<&PrefixFiles>, options: &Options) -> Result<Self> {
        let slack = models.iter().map(|ready| ready.limits.n_rows).max().unwrap_or(0) / 4 + 1;
        let start = |(i, ready)| start(i, ready, files, options);
        let workers = models.into_iter().enumerate().map(start).collect::<Result<_, _>>()?;
        Ok(Self { handles: workers, router: Mutex::default(), slack })
    }

    /// Sends a request to a worker, whose steps can then be watched. `None` if that worker's thread has
    /// ended.
    pub fn send(&self, mut submission: Submission) -> Option<(Waiting, Arc<StepWatch>)> {
        let Submission { request, answer } = &mut submission;
        let prompt = &request.tokens[..request.n_prompt];
        let chosen = {
            let mut router = self.router.lock();
            let variant = request.variant;
            answer.set_distinct(router.prefixes.entry(variant).or_default().add(prompt));
            router.choose(variant, prompt, &self.loads(), self.slack)
        };
        let WorkerHandle { inbox, waiting, watch, .. } = &self.handles[chosen];
        waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(waiting.clone());
        inbox.send(Message::Ask(submission)).ok().map(|()| (waiting, watch.clone()))
    }

    /// Announces to all workers that prompts will begin with a prefix.
    pub fn announce(&self, prefix: &Prefix) {
        for handle in &self.handles {
            // A worker that has ended does not need it.
            let _ = handle.inbox.send(Message::Announce(prefix.clone()));
        }
    }

    /// Token positions that all workers have computed so far.
    pub fn computed(&self) -> usize {
        self.handles.iter().map(|worker| worker.computed.load(Ordering::Relaxed)).sum()
    }

    /// Results of the second computations, of each worker that has them.
    pub fn confirmed(&self) -> Vec<Confirmed> {
        let handles = self.handles.iter().filter(|handle| handle.rechecks);
        handles.map(|handle| handle.watch.confirmed()).collect()
    }

    fn loads(&self) -> Vec<usize> {
        self.handles.iter().map(|worker| worker.waiting.load(Ordering::Relaxed)).collect()
    }
}

impl Router {
    /// The worker with the longest cached prefix of a prompt, or the least loaded one if that worker has many
    /// more requests. Records the choice.
    fn choose(&mut self, variant: Variant, prompt: &[u32], loads: &[usize], slack: usize) -> usize {
        if loads.len() < 2 {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        variant.hash(&mut hasher);
        let prefixes: Vec<u64> = prompt
            .chunks(STRIDE)
            .map(|tokens| {
                for &id in tokens {
                    hasher.write_u32(id);
                }
                hasher.finish()
            })
            .collect();
        let least_loaded = (0..loads.len()).min_by_key(|&i| loads[i]).unwrap_or(0);
        let cached = prefixes.iter().rev().find_map(|prefix| self.affinity.get(*prefix));
        let chosen = cached.filter(|&i| loads[i] <= loads[least_loaded] + slack).unwrap_or(least_loaded);
        for prefix in prefixes {
            self.affinity.insert(prefix, chosen);
        }
        chosen
    }
}

fn start(
    i: usize,
    Ready { model, n_blocks, n_slots, limits, .. }: Ready,
    files: Option<&PrefixFiles>,
    options: &Options,
) -> Result<WorkerHandle> {
    let (sender, inbox) = channel();
    let scheduler = Scheduler::new(limits, n_blocks);
    let scheduler = if n_slots > 0 { scheduler.with_states(n_slots) } else { scheduler };
    // A recurrent state cannot go back after a wrong guess.
    let drafts = options.drafts && n_slots == 0;
    let device = std::iter::once(&options.device).chain(&options.more_devices).nth(i);
    let names: Vec<String> =
        device.map(Device::gpus).unwrap_or_default().iter().map(|gpu| format!("{gpu:?}")).collect();
    let hung_after = options.hung_after.filter(|_| !names.is_empty());
    let watch = Arc::new(StepWatch::new(names.join(", "), hung_after));
    // A recurrent state has advanced when a step is computed again.
    let recheck_every = if names.is_empty() || n_slots > 0 { 0 } else { options.recheck_every };
    let (block_bytes, state_bytes) = (options.kv.block_bytes(model.config()), model.config().state_bytes());
    let saving = files.map(|files| Saving::new(files.clone(), block_bytes, state_bytes));
    let worker = Worker::new(model, scheduler, inbox, drafts);
    let worker = worker.watched(watch.clone(), recheck_every).saving(saving);
    let computed = worker.computed();
    let threads = rayon::ThreadPoolBuilder::new().num_threads(options.threads.unwrap_or_else(n_threads));
    let pool = threads.build().map_err(|e| Error::Threads(e.to_string()))?;
    let run = move || pool.install(|| worker.run());
    let thread = std::thread::Builder::new().name(format!("engine {i}"));
    let thread = thread.spawn(run).map_err(|e| Error::Threads(e.to_string()))?;
    Ok(WorkerHandle {
        inbox: sender,
        waiting: Arc::default(),
        computed,
        rechecks: recheck_every > 0,
        _thread: Thread(Some(thread), watch.clone()),
        watch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_go_to_the_worker_with_their_prefix_unless_it_is_far_busier() {
        let mut router = Router::default();
        let document = |n: u32| (0..200).map(|i| i * n).collect::<Vec<u32>>();
        assert_eq!(router.choose(Variant::default(), &document(3), &[0, 0, 0], 4), 0);
        assert_eq!(
            router.choose(Variant::default(), &document(5), &[1, 0, 0], 4),
            1,
            "an unknown prefix goes to the least loaded"
        );
        let mut next = document(3);
        next.extend([7; 100]);
        assert_eq!(
            router.choose(Variant::default(), &next, &[4, 1, 0], 4),
            0,
            "a few more requests are worth a cached prefix"
        );
        assert_eq!(router.choose(Variant::default(), &next, &[5, 1, 0], 4), 2, "many more are not");
        assert_eq!(
            router.choose(Variant::default(), &next, &[0, 1, 1], 4),
            2,
            "from then on the other one has it too"
        );
        assert_eq!(
            router.choose(Variant { adapter: Some(0), n_layers: None }, &next, &[1, 0, 2], 4),
            1,
            "a variant has prompts of its own"
        );
        assert_eq!(
            router.choose(Variant::default(), &document(5), &[9], 4),
            0,
            "a single worker has everything"
        );
    }
}
