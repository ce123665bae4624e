//! Steps that are launched as a whole. The launches of a padded step of a known layout equal those of the
//! last one, arguments included, so they are recorded once (a CUDA graph) and then started by one call. It
//! chooses no kernel and moves no bit: exactly the recorded launches run.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::{collections::HashMap, sync::Arc};

use cudarc::driver::{
    CudaContext, CudaStream, result,
    sys::{
        self, CUgraphInstantiate_flags as Flags, CUresult::CUDA_ERROR_OUT_OF_MEMORY as OUT_OF_MEMORY,
        CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED,
    },
};

use super::{Error, driver::failed, plan::Layout};
use tribunal_model::backend::LogitsStatus;

/// The most layouts in memory. The least recently used one is evicted.
const MOST: usize = 128;

/// The recordings of a model's steps, by layout.
pub(super) struct Graphs {
    stream: Arc<CudaStream>,
    known: HashMap<Layout, Known>,
    /// Steps so far, the clock of the least recent use.
    n_steps: u64,
    /// The layout of the step that is being recorded.
    recording: Option<Layout>,
    /// True if the device had no memory for a recording after all others had been discarded.
    full: bool,
}

struct Known {
    /// `None` before the layout has occurred twice: most are not worth a recording.
    graph: Option<Graph>,
    last_step: u64,
}

/// The way to run a step of some layout.
pub(super) enum Run {
    /// Launch by launch. It may be recorded now.
    Launches,
    /// It was launched as a whole; its logits are at this address.
    Whole(u64),
}

impl Graphs {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Self {
        Self { stream: stream.clone(), known: HashMap::new(), n_steps: 0, recording: None, full: false }
    }

    /// Discards all recordings, after memory that they use has moved.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Launches a recorded step, begins to record one of a layout that occurs again, or stores a new layout.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn begin(&mut self, layout: &Layout) -> Result<Run, Error> {
        self.n_steps += 1;
        let n_steps = self.n_steps;
        if self.full {
            return Ok(Run::Launches);
        }
        if let Some(known) = self.known.get_mut(layout) {
            known.last_step = n_steps;
            if let Some(graph) = &known.graph {
                graph.launch(&self.stream)?;
                return Ok(Run::Whole(graph.logits));
            }
            // Other threads may go on allocating meanwhile.
            // SAFETY: `self.stream` keeps the stream alive, and only this thread uses it during a step.
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

    /// Returns true if a step of this layout is launched as a whole or recorded: it is not the first one.
    pub(super) fn knows(&self, layout: &Layout) -> bool {
        !self.full && self.known.contains_key(layout)
    }

    pub(super) fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Ends the recording of a step whose logits are at `logits`, and launches it. Does nothing without a
    /// recording. Where the device has no memory for it, all others are discarded; where that is not enough,
    /// nothing is recorded from then on, and this step's operations must be called again.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn end(&mut self, logits: u64) -> Result<LogitsStatus, Error> {
        let Some(layout) = self.recording.take() else { return Ok(LogitsStatus::Ready) };
        let mut graph = Graph::end(logits, &self.stream)?;
        if !graph.start(&self.stream)? {
            self.forget();
            if !graph.start(&self.stream)? {
                self.full = true;
                return Ok(LogitsStatus::Rerun);
            }
        }
        self.known.insert(layout, Known { graph: Some(graph), last_step: self.n_steps });
        Ok(LogitsStatus::Ready)
    }

    /// Ends a recording left unfinished by an error.
    pub(super) fn abandon(&mut self) {
        if self.recording.take().is_some() {
            // A device that fails in the middle of a step has already returned its error.
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
    /// The address to which it writes its logits.
    logits: u64,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Graph {}
// SAFETY: one thread at a time uses the handles: launches need `&mut Graphs`.
unsafe impl Sync for Graph {}

impl Graph {
    fn end(logits: u64, stream: &CudaStream) -> Result<Self, Error> {
        // SAFETY: the `Arc` keeps the stream alive, and its capture was begun by `begin`.
        let graph =
            unsafe { result::stream::end_capture(stream.cu_stream()) }.map_err(failed("record a step"))?;
        let context = stream.context().clone();
        Ok(Self { recorded: graph, executable: std::ptr::null_mut(), context, logits })
    }

    /// Instantiates and launches it. Returns false where the device has no memory for that.
    fn start(&mut self, stream: &CudaStream) -> Result<bool, Error> {
        if self.executable.is_null() {
            // SAFETY: the graph was recorded, and has not been instantiated.
            match unsafe { result::graph::instantiate(self.recorded, Flags(0)) } {
                Ok(executable) => self.executable = executable,
                Err(error) if error.0 == OUT_OF_MEMORY => return Ok(false),
                Err(error) => return Err(failed("record a step")(error)),
            }
        }
        // SAFETY: the executable is not null; the memory that it reads and writes is alive, as for `launch`.
        match unsafe { result::graph::launch(self.executable, stream.cu_stream()) } {
            Ok(()) => Ok(true),
            Err(error) if error.0 == OUT_OF_MEMORY => Ok(false),
            Err(error) => Err(failed("launch a recorded step")(error)),
        }
    }

    fn launch(&self, stream: &CudaStream) -> Result<(), Error> {
        // SAFETY: everything that the recorded launches name is alive: weights, cache and arena as
        // long as the backend, and `forget` is called when tables, arena or cache move.
        unsafe { result::graph::launch(self.executable, stream.cu_stream()) }
            .map_err(failed("launch a recorded step"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // A lost device has no memory to free.
        let _ = self.context.bind_to_thread();
        if !self.executable.is_null() {
            // SAFETY: the handle is not null and was made by `instantiate`; this is its only owner, and the
            // driver frees the graph after its last launch.
            let _ = unsafe { result::graph::exec_destroy(self.executable) };
        }
        if !self.recorded.is_null() {
            // SAFETY: the handle is not null and came from `end_capture`; this is its only owner.
            let _ = unsafe { result::graph::destroy(self.recorded) };
        }
    }
}
