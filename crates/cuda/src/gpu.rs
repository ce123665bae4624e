//! Opening a GPU and loading the kernels onto it.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use cudarc::driver::{CudaContext, result, sys, sys::CUdevice_attribute_enum as Attribute};

use super::{
    Error,
    driver::failed,
    image::{self, Target},
    launch::{KernelTime, Kernels},
    products,
};
use tribunal_model::backend::Recheck;

/// The set of kernels to choose from. Where all of them are right, no choice moves a bit, except that `new`
/// rounds weights in `Q8_0`, `Q4_K`, `Q6_K` and MXFP4 ([`Gpu::packs`]) and splits long sums differently
/// ([`Gpu::k_slice`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelSet {
    /// Also those that have run on an emulated card only: attention and experts by TMA and wgmma, fewer
    /// launches, and quantised weights that are rounded in registers.
    New,
    /// The fastest of those that have run on a card.
    #[default]
    Auto,
    /// The kernels with the longest record on cards: products by `mma.sync`, and no programmatic dependent
    /// launch.
    Proven,
    /// The plain ones, which the others are checked against, each launched by itself. Slow.
    Plain,
}

impl std::fmt::Display for KernelSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::New => "new",
            Self::Proven => "proven",
            Self::Plain => "plain",
        })
    }
}

/// An opened GPU, with the kernels loaded.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Gpu {
    inner: Arc<Inner>,
    /// True if sequences that share a prefix read its keys together.
    pub(super) cascade: bool,
    /// True if small steps of a known layout are recorded and launched as a whole.
    pub(super) graphs: bool,
    /// True if a step's kernels may start before the one before them has ended.
    pub(super) dependent_launch: bool,
    /// True if the buffers of a step are allocations of their own.
    pub(super) apart: bool,
    /// The kernels that products are chosen from.
    pub(super) products_by: products::Kernels,
    /// True if attention is computed by the plain kernels.
    plain_attention: bool,
    /// True if kernels that no card has run may be taken.
    pub(super) new_kernels: bool,
    /// See [`Self::packs`] and [`Self::k_slice`].
    new_products: bool,
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
    /// Steps that were launched as a whole.
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
    /// The program has no kernels; there is no driver or no such GPU, or one of them is too old.
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
        image::check_driver(version)?;
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
        let target = Target::of_gpu(&name, capability, version)?;
        let attribute =
            |attribute| context.attribute(attribute).map(|n| n as usize).map_err(failed("ask the device"));
        let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let shared_bytes = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let kernels = Kernels::load(&context, target, shared_bytes, version)?;
        let whole_steps = AtomicUsize::new(0);
        let inner = Inner { context, kernels, name, capability, multiprocessors, shared_bytes, whole_steps };
        let products_by = products::Kernels::for_gpu(capability, multiprocessors);
        Ok(Self {
            inner: Arc::new(inner),
            cascade: true,
            graphs: true,
            // It has run on 9.0 alone.
            dependent_launch: capability == (9, 0),
            apart: false,
            products_by,
            plain_attention: false,
            new_kernels: false,
            new_products: false,
        })
    }

    /// The GPU's number.
    pub fn ordinal(&self) -> usize {
        self.inner.context.ordinal()
    }

    /// The GPU's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns true if the other GPU computes alike and as fast.
    pub fn is_like(&self, other: &Self) -> bool {
        let of = |gpu: &Self| {
            (gpu.inner.name.clone(), gpu.inner.capability, gpu.inner.multiprocessors, gpu.inner.shared_bytes)
        };
        of(self) == of(other)
    }

    /// Its generation as far as that can move a bit: the rounding of tensor cores. GPUs of one major compute
    /// capability round alike.
    pub fn generation(&self) -> String {
        self.inner.capability.0.to_string()
    }

    /// All GPUs of this machine that compute alike and as fast, itself among them, in order. GPUs that cannot
    /// be opened are left out.
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

    /// Number of GPUs of this machine, if the driver has been opened: 0 before one is open.
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

    /// This GPU with each sequence reading the keys of a shared prefix for itself. It moves no bit: a measure
    /// of the gain from reading them together.
    #[must_use]
    pub fn without_cascade(&self) -> Self {
        Self { cascade: false, ..self.clone() }
    }

    /// This GPU with every kernel of every step launched by itself. It moves no bit; for finding faults.
    #[must_use]
    pub fn without_graphs(&self) -> Self {
        Self { graphs: false, ..self.clone() }
    }

    /// This GPU without programmatic dependent launch: a kernel starts when the one before it has ended. It
    /// moves no bit; for finding faults.
    #[must_use]
    pub fn without_dependent_launch(&self) -> Self {
        Self { dependent_launch: false, ..self.clone() }
    }

    /// This GPU with the buffers of a step as allocations of their own if `apart`, so that an emulated GPU or
    /// a sanitizer detects writes past their ends; otherwise in one, the default. It moves no bit.
    #[must_use]
    pub fn with_buffers(&self, apart: bool) -> Self {
        Self { apart, ..self.clone() }
    }

    /// This GPU with attention by the plain kernels.
    pub(super) fn with_plain_attention(&self) -> Self {
        Self { plain_attention: true, ..self.clone() }
    }

    /// This GPU with these kernels. Once it has had `new`, products keep the definition of `new`
    /// ([`Self::packs`], [`Self::k_slice`]) with any other set.
    #[must_use]
    pub fn with_kernels(&self, set: KernelSet) -> Self {
        let new_kernels = set == KernelSet::New;
        let new_products = self.new_products || new_kernels;
        let gpu = Self { new_kernels, new_products, ..self.clone() };
        match set {
            KernelSet::New | KernelSet::Auto => gpu,
            KernelSet::Proven => gpu.with_products_by(products::Kernels::MmaSync).without_dependent_launch(),
            KernelSet::Plain => gpu
                .with_products_by(products::Kernels::Reference)
                .with_plain_attention()
                .without_dependent_launch()
                .without_graphs(),
        }
    }

    /// This GPU with the kernels for second computations of steps, each launched by itself. On a GPU
    /// restricted to the plain ones, those.
    pub(super) fn rechecked_by(&self, recheck: Recheck) -> Self {
        let is_plain = self.products_by == products::Kernels::Reference;
        let set = if is_plain { KernelSet::Plain } else { KernelSet::Proven };
        let gpu = self.with_kernels(set).without_graphs();
        if recheck == Recheck::PlainAttention { gpu.with_plain_attention() } else { gpu }
    }

    /// Returns true if weights of all quantised formats are packed and rounded to `bf16`
    /// ([`products::Way::Packed`]). It moves bits of `Q8_0`, `Q4_K`, `Q6_K` and MXFP4, which otherwise are
    /// not rounded.
    pub fn packs(&self) -> bool {
        self.new_products
    }

    /// The length of the slices of a product with a weight `[n, k]` ([`products::k_slice`]). It moves bits.
    pub fn k_slice(&self, n: usize, k: usize) -> usize {
        products::k_slice([n, k], self.new_products)
    }

    /// Returns true if kernels by TMA that no card has run may be taken.
    pub(super) fn takes_new_tma(&self) -> bool {
        self.new_kernels && self.has_tma()
    }

    /// Returns true if it has TMA.
    pub fn has_tma(&self) -> bool {
        self.inner.capability == (9, 0)
    }

    /// This GPU with products by these kernels, where it runs them. It moves no bit; for finding faults.
    #[must_use]
    pub fn with_products_by(&self, kernels: products::Kernels) -> Self {
        let usual = products::Kernels::for_gpu(self.inner.capability, self.inner.multiprocessors);
        let runs = self.has_tma() || kernels <= products::Kernels::MmaSync;
        Self { products_by: if runs { kernels } else { usual }, ..self.clone() }
    }

    /// Begins to time each launch on this GPU, until [`Self::take_times`]; those that graphs replay are not
    /// seen. For measurements.
    pub fn start_timing(&self) {
        self.kernels().start_timing();
    }

    /// Launches since [`Self::start_timing`] by kernel, in the order of their first ones.
    ///
    /// # Errors
    /// The driver fails.
    pub fn take_times(&self) -> Result<Vec<KernelTime>, Error> {
        self.kernels().take_times()
    }

    /// Steps so far that were launched as a whole, from a recording.
    pub fn whole_steps(&self) -> usize {
        self.inner.whole_steps.load(Ordering::Relaxed)
    }

    pub(super) fn count_whole_step(&self) {
        self.inner.whole_steps.fetch_add(1, Ordering::Relaxed);
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
