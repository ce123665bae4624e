//! Steps that are launched whole. The launches of a padded step of a known layout are the same as those of the last
//! one, arguments included, so they are recorded once (a CUDA graph) and then started by one call. It chooses no kernel
//! and moves no bit: what runs is what was recorded.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::{collections::HashMap, sync::Arc};

use cudarc::driver::{
    CudaContext, CudaStream, result,
    sys::{
        self, CUgraphInstantiate_flags as Flags, CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED,
    },
};

use super::{Error, driver::failed, memory::Pool, plan::Layout};

/// The most layouts that are remembered. One that was not used for longest makes room.
const MOST: usize = 128;

/// What a model's steps of one layout after another came to.
pub(super) struct Graphs {
    stream: Arc<CudaStream>,
    known: HashMap<Layout, Known>,
    /// The buffers of padded steps, of no others: a recording writes to the same ones whenever it runs.
    pool: Arc<Pool>,
    /// Steps so far; says which layout was not used for longest.
    n_steps: u64,
    /// The layout of the step that is being recorded.
    recording: Option<Layout>,
}

struct Known {
    /// None before the layout has been seen twice: most are not worth a recording.
    graph: Option<Graph>,
    last_step: u64,
}

/// How a step of some layout is to be run.
pub(super) enum Run {
    /// Launch by launch. It may be recorded now.
    Launches,
    /// It was launched whole; its logits are at this address.
    Whole(u64),
}

impl Graphs {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Self {
        let (pool, known) = (Pool::new(stream.context()), HashMap::new());
        Self { stream: stream.clone(), known, pool, n_steps: 0, recording: None }
    }

    /// Where padded steps take their buffers from.
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Forgets all recordings: memory that they use has moved.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Launches a recorded step, begins to record one of a layout that comes again, or remembers a new one.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn begin(&mut self, layout: &Layout) -> Result<Run, Error> {
        self.n_steps += 1;
        let n_steps = self.n_steps;
        if let Some(known) = self.known.get_mut(layout) {
            known.last_step = n_steps;
            if let Some(graph) = &known.graph {
                graph.launch(&self.stream)?;
                return Ok(Run::Whole(graph.logits));
            }
            // Other threads may go on allocating meanwhile.
            // SAFETY: the stream is alive, and only this thread uses it during a step.
            unsafe { result::stream::begin_capture(self.stream.cu_stream(), CU_STREAM_CAPTURE_MODE_RELAXED) }
                .map_err(failed("record a step"))?;
            self.recording = Some(layout.clone());
            return Ok(Run::Launches);
        }
        if self.known.len() >= MOST {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.last_step);
            if let Some(layout) = oldest.map(|(layout, _)| layout.clone()) {
                self.known.remove(&layout);
            }
        }
        self.known.insert(layout.clone(), Known { graph: None, last_step: n_steps });
        Ok(Run::Launches)
    }

    /// Ends the recording of a step whose logits are at `logits`, and launches it. Nothing to do where none was begun.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn end(&mut self, logits: u64) -> Result<(), Error> {
        let Some(layout) = self.recording.take() else { return Ok(()) };
        let graph = Graph::end(logits, &self.stream)?;
        graph.launch(&self.stream)?;
        if let Some(known) = self.known.get_mut(&layout) {
            known.graph = Some(graph);
        }
        Ok(())
    }

    /// Ends a recording that an error has left behind.
    pub(super) fn abandon(&mut self) {
        if self.recording.take().is_some() {
            // A device that fails in the middle of a step has said so already.
            let _ = Graph::end(0, &self.stream);
        }
    }
}

impl Drop for Graphs {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// The launches of one step.
struct Graph {
    recorded: sys::CUgraph,
    executable: sys::CUgraphExec,
    context: Arc<CudaContext>,
    /// Where it writes its logits.
    logits: u64,
}

// SAFETY: the driver's handles may be used from any thread, and one at a time does: launches need `&mut Graphs`.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    fn end(logits: u64, stream: &CudaStream) -> Result<Self, Error> {
        // SAFETY: the stream is alive.
        let graph =
            unsafe { result::stream::end_capture(stream.cu_stream()) }.map_err(failed("record a step"))?;
        let context = stream.context().clone();
        let mut ended = Self { recorded: graph, executable: std::ptr::null_mut(), context, logits };
        // SAFETY: the graph was just made.
        ended.executable =
            unsafe { result::graph::instantiate(graph, Flags(0)) }.map_err(failed("record a step"))?;
        Ok(ended)
    }

    fn launch(&self, stream: &CudaStream) -> Result<(), Error> {
        // SAFETY: everything that the recorded launches name is alive: weights and cache as long as the backend, the
        // buffers as long as the pool, and `forget` is called when tables, numbers or the cache move.
        unsafe { result::graph::launch(self.executable, stream.cu_stream()) }
            .map_err(failed("launch a recorded step"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // A device that is lost has nothing to give back.
        let _ = self.context.bind_to_thread();
        if !self.executable.is_null() {
            // SAFETY: nobody else has it; the driver waits until it has run.
            let _ = unsafe { result::graph::exec_destroy(self.executable) };
        }
        if !self.recorded.is_null() {
            // SAFETY: as above.
            let _ = unsafe { result::graph::destroy(self.recorded) };
        }
    }
}
