//! The engine's workers: one on each device, and which of them a request goes to. A reply has the same bytes from any
//! of them; only time depends on the choice.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    thread::JoinHandle,
};

use crate::{llm::Seen, model::Model};

use super::{
    Error, Options, n_threads,
    radix::Variant,
    scheduler::{Limits, Scheduler},
    worker::{Request, Worker},
};

/// Tokens between two places at which prompts are compared.
const STRIDE: usize = 64;

/// All workers of an engine.
pub struct Workers {
    handles: Vec<WorkerHandle>,
    known: Mutex<Known>,
    /// How many more requests than the least loaded one a worker may have because it knows their beginning.
    slack: usize,
}

/// A loaded model with its cache.
pub struct Ready {
    pub model: Box<dyn Model>,
    /// Blocks of the cache.
    pub n_blocks: usize,
    /// Bytes of the cache, on all cards of the model together.
    pub kv_bytes: usize,
    pub limits: Limits,
}

/// One worker as its askers see it.
struct WorkerHandle {
    // Dropped first: the thread ends when all senders are dropped.
    inbox: Sender<Request>,
    waiting: Arc<AtomicUsize>,
    computed: Arc<AtomicUsize>,
    _thread: Thread,
}

/// A worker's thread. Whoever drops it waits until the thread has ended: only then has the device the model's memory
/// back, of which the next engine may need all.
struct Thread(Option<JoinHandle<()>>);

impl Drop for Thread {
    fn drop(&mut self) {
        // A thread that panicked has told its askers by hanging up.
        let _ = self.0.take().map(JoinHandle::join);
    }
}

/// The prompts so far.
#[derive(Default)]
struct Known {
    /// Their beginnings, apart for each variant: none finds blocks of another.
    seen: BTreeMap<Variant, Seen>,
    affinity: Affinity,
}

/// Which worker last had a prompt with a beginning, by hash. Of the last [`Affinity::REMEMBERED`] distinct beginnings
/// all are known, and at most twice as many, so that it stays small however long a run is.
#[derive(Default)]
struct Affinity {
    recent: HashMap<u64, usize>,
    /// The generation before: what is not met again goes with it.
    older: HashMap<u64, usize>,
}

impl Affinity {
    /// 16 million tokens, since a beginning is entered every [`STRIDE`] of them.
    const REMEMBERED: usize = 1 << 18;

    fn get(&self, beginning: u64) -> Option<usize> {
        self.recent.get(&beginning).or_else(|| self.older.get(&beginning)).copied()
    }

    fn enter(&mut self, beginning: u64, worker: usize) {
        self.recent.insert(beginning, worker);
        if self.recent.len() > Self::REMEMBERED {
            std::mem::swap(&mut self.recent, &mut self.older);
            self.recent.clear();
        }
    }
}

/// A request that has not been answered yet; when it is dropped, it counts no longer.
pub struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// Starts a worker for each loaded model.
    ///
    /// # Errors
    /// Threads that cannot be started.
    pub fn start(models: Vec<Ready>, options: &Options) -> Result<Self, Error> {
        let slack = options.n_rows.max(1) / 4 + 1;
        let start = |(i, ready)| start(i, ready, options);
        let workers = models.into_iter().enumerate().map(start).collect::<Result<_, _>>()?;
        Ok(Self { handles: workers, known: Mutex::default(), slack })
    }

    /// Hands a request to a worker. `None` when that worker's thread has ended.
    pub fn send(&self, mut request: Request) -> Option<Waiting> {
        let prompt = &request.ask.tokens[..request.ask.n_prompt];
        let chosen = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let variant = request.ask.variant;
            request.answer.set_distinct(known.seen.entry(variant).or_default().enter(prompt));
            known.choose(variant, prompt, &self.loads(), self.slack)
        };
        let WorkerHandle { inbox, waiting, .. } = &self.handles[chosen];
        waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(waiting.clone());
        inbox.send(request).ok().map(|()| waiting)
    }

    /// Token positions that all of them have computed so far.
    pub fn computed(&self) -> usize {
        self.handles.iter().map(|worker| worker.computed.load(Ordering::Relaxed)).sum()
    }

    fn loads(&self) -> Vec<usize> {
        self.handles.iter().map(|worker| worker.waiting.load(Ordering::Relaxed)).collect()
    }
}

impl Known {
    /// The worker that knows the longest beginning of a prompt, unless it has much more to do than the least loaded one; and
    /// notes that it has this one.
    fn choose(&mut self, variant: Variant, prompt: &[u32], loads: &[usize], slack: usize) -> usize {
        if loads.len() < 2 {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        variant.hash(&mut hasher);
        let beginnings: Vec<u64> = prompt
            .chunks(STRIDE)
            .map(|tokens| {
                for &id in tokens {
                    hasher.write_u32(id);
                }
                hasher.finish()
            })
            .collect();
        let least_loaded = (0..loads.len()).min_by_key(|&i| loads[i]).unwrap_or(0);
        let knows = beginnings.iter().rev().find_map(|beginning| self.affinity.get(*beginning));
        let chosen = knows.filter(|&i| loads[i] <= loads[least_loaded] + slack).unwrap_or(least_loaded);
        for beginning in beginnings {
            self.affinity.enter(beginning, chosen);
        }
        chosen
    }
}

fn start(
    i: usize,
    Ready { model, n_blocks, limits, .. }: Ready,
    options: &Options,
) -> Result<WorkerHandle, Error> {
    let (sender, inbox) = channel();
    let worker = Worker::new(model, Scheduler::new(limits, n_blocks), inbox, options.drafts);
    let computed = worker.computed();
    let threads = rayon::ThreadPoolBuilder::new().num_threads(options.threads.unwrap_or_else(n_threads));
    let pool = threads.build().map_err(|e| Error::Threads(e.to_string()))?;
    let run = move || pool.install(|| worker.run());
    let thread = std::thread::Builder::new().name(format!("engine {i}"));
    let thread = thread.spawn(run).map_err(|e| Error::Threads(e.to_string()))?;
    Ok(WorkerHandle { inbox: sender, waiting: Arc::default(), computed, _thread: Thread(Some(thread)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_go_where_their_beginning_is_known_unless_that_is_far_busier() {
        let mut known = Known::default();
        let document = |n: u32| (0..200).map(|i| i * n).collect::<Vec<u32>>();
        assert_eq!(known.choose(Variant::default(), &document(3), &[0, 0, 0], 4), 0);
        assert_eq!(
            known.choose(Variant::default(), &document(5), &[1, 0, 0], 4),
            1,
            "an unknown beginning goes to the least_loaded"
        );
        let mut next = document(3);
        next.extend([7; 100]);
        assert_eq!(
            known.choose(Variant::default(), &next, &[4, 1, 0], 4),
            0,
            "a few more requests are worth a known beginning"
        );
        assert_eq!(known.choose(Variant::default(), &next, &[5, 1, 0], 4), 2, "many more are not");
        assert_eq!(
            known.choose(Variant::default(), &next, &[0, 1, 1], 4),
            2,
            "from then on the other one knows it too"
        );
        assert_eq!(
            known.choose(Variant { adapter: Some(0), n_layers: None }, &next, &[1, 0, 2], 4),
            1,
            "a variant has prompts of its own"
        );
        assert_eq!(
            known.choose(Variant::default(), &document(5), &[9], 4),
            0,
            "a single worker has everything"
        );
    }
}
