//! Opening a GPU and loading the kernels onto it.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use cudarc::driver::{CudaContext, result, sys, sys::CUdevice_attribute_enum as Attribute};

use super::{Error, driver::failed, launch::Kernels, products};

/// The first version of the driver's interface that loads this binary's kernels.
const DRIVER: i32 = 13_000;

/// Which kernels are chosen from. No choice moves a bit where all of them are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelSet {
    /// The fastest.
    #[default]
    Auto,
    /// Those with the longest record on cards: products by `mma.sync`, and no programmatic dependent launch.
    Proven,
    /// The plain ones, which the others are checked against, each launched by itself. Slow.
    Plain,
}

/// A GPU that is there, with the kernels on it.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Gpu {
    inner: Arc<Inner>,
    /// Whether sequences read the keys of a prefix that they share together.
    cascade: bool,
    /// Whether small steps that come again are recorded and launched whole.
    graphs: bool,
    /// Whether a step's kernels may start before the one before them has ended.
    dependent_launch: bool,
    /// Whether the buffers of a step are allocations of their own.
    apart: bool,
    /// The kernels that products are chosen from.
    products_by: products::Kernels,
    /// Whether attention is computed by the plain kernels.
    plain_attention: bool,
}

struct Inner {
    context: Arc<CudaContext>,
    kernels: Kernels,
    name: String,
    /// Major and minor compute capability.
    capability: (i32, i32),
    multiprocessors: usize,
    /// The most dynamic shared memory that a block can be allowed.
    shared_bytes: usize,
    /// Steps that were launched whole.
    whole_steps: AtomicUsize,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.inner.name, self.inner.context.ordinal())
    }
}

impl Gpu {
    /// Opens the GPU with this number.
    ///
    /// # Errors
    /// The program has no kernels; there is no driver, no such GPU, or one of them is too old.
    pub fn open(ordinal: usize) -> Result<Self, Error> {
        if !super::BUILT_IN {
            return Err(Error::NotBuilt);
        }
        // SAFETY: it looks for a library of the system and opens it.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::NoDriver);
        }
        result::init().map_err(failed("start the driver"))?;
        let mut version = 0;
        // SAFETY: the driver writes one number.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(failed("ask the driver"))?;
        if version < DRIVER {
            return Err(Error::OldDriver(version));
        }
        let count = CudaContext::device_count().map_err(failed("count the devices"))? as usize;
        if ordinal >= count {
            return Err(Error::NoDevice(count));
        }
        let context = CudaContext::new(ordinal).map_err(failed("open the device"))?;
        let name = context.name().map_err(failed("ask the device"))?;
        let capability = context.compute_capability().map_err(failed("ask the device"))?;
        if capability.0 < 8 {
            return Err(Error::OldDevice { name, major: capability.0, minor: capability.1 });
        }
        let attribute =
            |attribute| context.attribute(attribute).map(|n| n as usize).map_err(failed("ask the device"));
        let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let shared_bytes = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let kernels = Kernels::load(&context, shared_bytes)?;
        let whole_steps = AtomicUsize::new(0);
        let inner = Inner { context, kernels, name, capability, multiprocessors, shared_bytes, whole_steps };
        let products_by = products::Kernels::of(capability, multiprocessors);
        Ok(Self {
            inner: Arc::new(inner),
            cascade: true,
            graphs: true,
            // It has run on 9.0 alone.
            dependent_launch: capability == (9, 0),
            apart: false,
            products_by,
            plain_attention: false,
        })
    }

    /// The GPU's number.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.inner.context.ordinal()
    }

    /// What the GPU is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Whether the other computes alike and as fast.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let of = |gpu: &Self| {
            (gpu.inner.name.clone(), gpu.inner.capability, gpu.inner.multiprocessors, gpu.inner.shared_bytes)
        };
        of(self) == of(other)
    }

    /// Its generation as far as that can move a bit: how tensor cores round. GPUs of one major compute capability
    /// round alike.
    #[must_use]
    pub fn generation(&self) -> String {
        self.inner.capability.0.to_string()
    }

    /// All GPUs of this machine that compute alike and as fast, itself among them, in order. One that cannot be opened is
    /// not.
    #[must_use]
    pub fn alike(&self) -> Vec<Self> {
        let open = |ordinal| {
            if ordinal == self.ordinal() {
                return Some(self.clone());
            }
            let other = Self::open(ordinal).ok().filter(|other| self.is_like(other))?;
            Some(Self { inner: other.inner, ..self.clone() })
        };
        (0..Self::count()).filter_map(open).collect()
    }

    /// How many GPUs this machine has, as far as the driver is asked already: 0 before one is open.
    #[must_use]
    pub fn count() -> usize {
        CudaContext::device_count().unwrap_or(0) as usize
    }

    /// Bytes that can still be allocated, and all bytes.
    ///
    /// # Errors
    /// The device fails.
    pub fn memory(&self) -> Result<(usize, usize), Error> {
        self.inner.context.mem_get_info().map_err(failed("ask for free memory"))
    }

    /// The same GPU, where each sequence reads the keys of a shared prefix for itself. It moves no bit: a measure of what
    /// reading them together is worth.
    #[must_use]
    pub fn without_cascade(&self) -> Self {
        Self { cascade: false, ..self.clone() }
    }

    /// The same GPU, where every kernel of every step is launched by itself. It moves no bit; for finding faults.
    #[must_use]
    pub fn without_graphs(&self) -> Self {
        Self { graphs: false, ..self.clone() }
    }

    /// The same GPU without programmatic dependent launch: a kernel starts when the one before it has ended. It moves no bit;
    /// for finding faults.
    #[must_use]
    pub fn without_dependent_launch(&self) -> Self {
        Self { dependent_launch: false, ..self.clone() }
    }

    /// The same GPU, where the buffers of a step are allocations of their own and not places in one, so that an emulated GPU
    /// or a sanitizer sees what is written past the end of one. It moves no bit.
    #[must_use]
    pub fn with_buffers_apart(&self) -> Self {
        Self { apart: true, ..self.clone() }
    }

    /// The same GPU with all buffers of a step in one allocation, as it is opened.
    #[must_use]
    pub fn with_buffers_in_one(&self) -> Self {
        Self { apart: false, ..self.clone() }
    }

    /// The same GPU with attention by the plain kernels.
    pub(super) fn with_plain_attention(&self) -> Self {
        Self { plain_attention: true, ..self.clone() }
    }

    /// The same GPU with these kernels.
    #[must_use]
    pub fn with_kernels(&self, set: KernelSet) -> Self {
        match set {
            KernelSet::Auto => self.clone(),
            KernelSet::Proven => self.with_products_by(products::Kernels::MmaSync).without_dependent_launch(),
            KernelSet::Plain => self
                .with_products_by(products::Kernels::Reference)
                .with_plain_attention()
                .without_dependent_launch()
                .without_graphs(),
        }
    }

    /// The same GPU with the kernels that steps are computed with a second time: the proven ones, or the plain ones of a GPU that
    /// takes no others, each launched by itself.
    pub(super) fn proven(&self) -> Self {
        let is_plain = self.products_by == products::Kernels::Reference;
        let set = if is_plain { KernelSet::Plain } else { KernelSet::Proven };
        self.with_kernels(set).without_graphs()
    }

    /// Whether it has TMA.
    #[must_use]
    pub fn has_tma(&self) -> bool {
        self.inner.capability == (9, 0)
    }

    /// The same GPU with products by these kernels, where it runs them. It moves no bit; for finding faults.
    #[must_use]
    pub fn with_products_by(&self, kernels: products::Kernels) -> Self {
        let own = products::Kernels::of(self.inner.capability, self.inner.multiprocessors);
        let runs = self.has_tma() || kernels <= products::Kernels::MmaSync;
        Self { products_by: if runs { kernels } else { own }, ..self.clone() }
    }

    /// Steps so far that were launched whole, from a recording.
    #[must_use]
    pub fn whole_steps(&self) -> usize {
        self.inner.whole_steps.load(Ordering::Relaxed)
    }

    pub(super) fn count_whole_step(&self) {
        self.inner.whole_steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn records(&self) -> bool {
        self.graphs
    }

    /// Whether a step's kernels may be started before the one before them has ended.
    pub(super) fn starts_early(&self) -> bool {
        self.dependent_launch
    }

    pub(super) fn is_apart(&self) -> bool {
        self.apart
    }

    pub(super) fn products_by(&self) -> products::Kernels {
        self.products_by
    }

    pub(super) fn cascades(&self) -> bool {
        self.cascade
    }

    /// Makes it the current context of this thread.
    pub(super) fn here(&self) -> Result<(), Error> {
        self.inner.context.bind_to_thread().map_err(failed("use the device"))
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.inner.context
    }

    pub(super) fn capability(&self) -> (i32, i32) {
        self.inner.capability
    }

    pub(super) fn multiprocessors(&self) -> usize {
        self.inner.multiprocessors
    }

    pub(super) fn shared_bytes(&self) -> usize {
        self.inner.shared_bytes
    }

    /// Shared memory that attention may use: none for the plain kernels.
    pub(super) fn attention_bytes(&self) -> usize {
        if self.plain_attention { 0 } else { self.inner.shared_bytes }
    }

    pub(super) fn kernels(&self) -> &Kernels {
        &self.inner.kernels
    }
}
