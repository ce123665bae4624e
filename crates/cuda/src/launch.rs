//! Kernels by name, and their launches. Number and sizes of a kernel's parameters are compared with those
//! from a driver that has them, so that a kernel and its caller cannot drift apart.

#![expect(unsafe_code, reason = "a kernel launch trusts its arguments")]

use std::{collections::HashMap, ffi::CString, sync::Arc};

use cudarc::driver::{CudaContext, CudaEvent, DriverError, result, sys};
use parking_lot::{Mutex, RwLock};

use super::{
    Error,
    driver::failed,
    image::{IMAGES, Image, Target},
    tensor_map::TensorMap,
};

/// The most blocks of a grid in y and in z.
const MOST_BLOCKS: u32 = 65_535;

/// Ten times the compute capability that a kernel's source was compiled for: code for 8.0 does not wait,
/// whichever card it runs on.
const COMPILED_FOR: sys::CUfunction_attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_PTX_VERSION;

/// The first capability for which kernels wait by themselves.
const AWAITS: i32 = 90;

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    /// An address on the device; 0 is a null pointer.
    At(u64),
    Int(i32),
    Float(f32),
}

impl Argument {
    /// A size or an index.
    pub(super) fn size(n: usize) -> Self {
        Self::Int(i32::try_from(n).expect("sizes are checked when a model is loaded and a step begins"))
    }

    fn bytes(self) -> usize {
        match self {
            Self::At(_) => 8,
            Self::Int(_) | Self::Float(_) => 4,
        }
    }

    fn bits(self) -> u64 {
        match self {
            Self::At(at) => at,
            Self::Int(n) => u64::from(n.cast_unsigned()),
            Self::Float(x) => u64::from(x.to_bits()),
        }
    }
}

/// Grid, block and shared memory of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 2],
    pub shared_bytes: u32,
}

impl Shape {
    pub(super) fn new(grid: [usize; 2], threads: u32) -> Self {
        Self { grid: [grid[0] as u32, grid[1] as u32, 1], block: [threads, 1], shared_bytes: 0 }
    }

    /// Rejects sizes that no GPU launches, with the kernel's name.
    fn check(self, kernel: &'static str) -> Result<(), Error> {
        if self.grid[1..].iter().any(|&n| n > MOST_BLOCKS) {
            return Err(Error::Grid { kernel, grid: self.grid });
        }
        Ok(())
    }
}

/// The earliest start of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// When everything before it on its stream has ended.
    After,
    /// Once every block of the kernel before it has been started, where the kernel was compiled to wait by
    /// itself (`await_earlier` in `kernels/common.cuh`); otherwise as [`Start::After`]. It moves no bit.
    Early,
}

/// All kernels on one GPU.
pub(super) struct Kernels {
    /// The most shared memory that a block can be allowed.
    shared_bytes: i32,
    modules: Vec<(&'static str, Module)>,
    parameter_info: Option<ParameterInfo>,
    known: RwLock<HashMap<&'static str, Arc<Kernel>>>,
    context: Arc<CudaContext>,
    /// The launches since timing began; `None`: launches are not timed.
    timed: Mutex<Option<Vec<Timed>>>,
}

/// A launch between two events.
struct Timed {
    kernel: &'static str,
    begin: CudaEvent,
    end: CudaEvent,
}

/// The launches of one kernel.
#[derive(Clone, Debug, serde::Serialize)]
pub struct KernelTime {
    pub kernel: &'static str,
    pub launches: usize,
    /// Of all launches together, with the gaps before each.
    pub seconds: f64,
}

struct Module(sys::CUmodule);

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: the handle is never written after `load`.
unsafe impl Sync for Module {}

struct Kernel {
    function: sys::CUfunction,
    /// Bytes of each parameter; `None` where the driver cannot be asked.
    parameters: Option<Vec<usize>>,
    /// True if its machine code waits for the kernels before it.
    awaits: bool,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Kernel {}
// SAFETY: a kernel is never written after `find`.
unsafe impl Sync for Kernel {}

impl Kernels {
    /// Loads the images of a target by a driver of this version.
    ///
    /// # Errors
    /// The driver rejects an image.
    pub(super) fn load(
        context: &Arc<CudaContext>,
        target: Target,
        shared_bytes: usize,
        driver: i32,
    ) -> Result<Self, Error> {
        context.bind_to_thread().map_err(failed("use the device"))?;
        let load = |&(name, images): &(&'static str, &[Image])| {
            let image = images.iter().find(|(of_target, _)| *of_target == target.name);
            let (_, image) = image.expect("every kernel is compiled for the same targets");
            // SAFETY: the image is a whole cubin, or PTX with a zero byte behind it, and static.
            let module = unsafe { result::module::load_data(image.as_ptr().cast()) };
            Ok((name, Module(module.map_err(failed("load the kernels"))?)))
        };
        let modules = IMAGES.iter().map(load).collect::<Result<_, Error>>()?;
        let shared_bytes = shared_bytes as i32;
        Ok(Self {
            shared_bytes,
            modules,
            parameter_info: parameter_info(driver),
            known: RwLock::default(),
            context: context.clone(),
            timed: Mutex::new(None),
        })
    }

    /// Begins to time launches. Those that a graph replays are not among them.
    pub(super) fn start_timing(&self) {
        *self.timed.lock() = Some(Vec::new());
    }

    /// Ends timing: the launches by kernel, in the order of their first ones.
    ///
    /// # Errors
    /// The driver fails.
    pub(super) fn take_times(&self) -> Result<Vec<KernelTime>, Error> {
        let mut times: Vec<KernelTime> = Vec::new();
        for Timed { kernel, begin, end } in self.timed.lock().take().unwrap_or_default() {
            let seconds = f64::from(begin.elapsed_ms(&end).map_err(failed("measure time"))?) / 1e3;
            match times.iter_mut().find(|time| time.kernel == kernel) {
                Some(time) => (time.launches, time.seconds) = (time.launches + 1, time.seconds + seconds),
                None => times.push(KernelTime { kernel, launches: 1, seconds }),
            }
        }
        Ok(times)
    }

    /// An event behind what was launched on the stream.
    fn event(&self, stream: sys::CUstream) -> Result<CudaEvent, Error> {
        let event = self.context.new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT));
        let event = event.map_err(failed("an event"))?;
        // SAFETY: the event and the stream are alive, and of this context.
        unsafe { result::event::record(event.cu_event(), stream) }.map_err(failed("measure time"))?;
        Ok(event)
    }

    /// Launches `kernel` of the file `module`.
    ///
    /// # Errors
    /// There is no such kernel, it takes other arguments, or the driver rejects the launch.
    ///
    /// # Safety
    /// Every address in `arguments` is device memory of at least the length that the kernel's header derives
    /// from the size arguments, with the alignment that it states, and is not freed before the stream has
    /// executed the launch.
    pub(super) unsafe fn launch(
        &self,
        stream: sys::CUstream,
        (module, kernel): (&'static str, &'static str),
        shape: Shape,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        // SAFETY: the same conditions; there are no maps.
        unsafe { self.launch_over((stream, Start::After), (module, kernel), shape, &[], arguments) }
    }

    /// Launches a kernel whose first arguments are maps of matrices, and which may be started early.
    ///
    /// # Errors
    /// Those of [`Self::launch`].
    ///
    /// # Safety
    /// The conditions of [`Self::launch`], also for the memory of the maps.
    pub(super) unsafe fn launch_over(
        &self,
        (stream, start): (sys::CUstream, Start),
        (module, kernel): (&'static str, &'static str),
        shape: Shape,
        maps: &[TensorMap],
        arguments: &[Argument],
    ) -> Result<(), Error> {
        if shape.grid.contains(&0) {
            return Ok(()); // nothing to do
        }
        shape.check(kernel)?;
        let known = self.kernel(module, kernel)?;
        if let Some(parameters) = &known.parameters {
            let bytes = arguments.iter().map(|argument| argument.bytes());
            if !maps.iter().map(|_| TensorMap::BYTES).chain(bytes).eq(parameters.iter().copied()) {
                return Err(Error::Arguments { kernel });
            }
        }
        let mut bits: Vec<u64> = arguments.iter().map(|argument| argument.bits()).collect();
        let mut maps = maps.to_vec();
        let mut pointers: Vec<_> = maps.iter_mut().map(TensorMap::pointer).collect();
        pointers.extend(bits.iter_mut().map(|bits| std::ptr::from_mut(bits).cast()));
        let mut early = early();
        let attributes = if start == Start::Early && known.awaits { &mut early[..] } else { &mut [] };
        let [x, y, z] = shape.grid;
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: shape.block[0],
            blockDimY: shape.block[1],
            blockDimZ: 1,
            sharedMemBytes: shape.shared_bytes,
            hStream: stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let mut timed = self.timed.lock();
        let begin = timed.is_some().then(|| self.event(stream)).transpose()?;
        let none = std::ptr::null_mut();
        // SAFETY: `pointers` has one pointer to each parameter, whose number and sizes were compared with the
        // kernel's, or were when this binary's kernels were tested with a newer driver; `config`, `bits` and
        // `maps` outlive the call. The memory at their addresses meets this function's safety section.
        unsafe { sys::cuLaunchKernelEx(&raw const config, known.function, pointers.as_mut_ptr(), none) }
            .result()
            .map_err(failed(kernel))?;
        if let (Some(begin), Some(timed)) = (begin, &mut *timed) {
            timed.push(Timed { kernel, begin, end: self.event(stream)? });
        }
        Ok(())
    }

    fn kernel(&self, module: &'static str, kernel: &'static str) -> Result<Arc<Kernel>, Error> {
        let known = self.known.read().get(kernel).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = Arc::new(self.find(module, kernel).map_err(failed(kernel))?);
        self.known.write().insert(kernel, found.clone());
        Ok(found)
    }

    fn find(&self, module: &str, kernel: &str) -> Result<Kernel, DriverError> {
        use sys::CUfunction_attribute_enum as Attribute;
        let missing = DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND);
        let module = self.modules.iter().find(|(name, _)| *name == module).ok_or(missing)?;
        let name = CString::new(kernel).map_err(|_| missing)?;
        // SAFETY: the module is loaded and never unloaded; the name ends with a zero byte.
        let function = unsafe { result::module::get_function(module.1.0, name) }?;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: the driver writes one number.
            unsafe { sys::cuFuncGetAttribute(&raw mut value, which, function) }.result().map(|()| value)
        };
        // As much dynamic shared memory as the device has beside the kernel's own. Without this a block may
        // have 48 KiB in all.
        let static_bytes = attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is loaded.
        unsafe {
            result::function::set_function_attribute(function, most, self.shared_bytes - static_bytes)
        }?;
        let parameters = self.parameter_info.map(|info| {
            let mut parameters = Vec::new();
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the driver writes two numbers, and returns an error for a parameter that does not
            // exist.
            while unsafe { info(function, parameters.len(), &raw mut offset, &raw mut size) }
                == sys::CUresult::CUDA_SUCCESS
            {
                parameters.push(size);
            }
            parameters
        });
        let version = attribute(COMPILED_FOR)?;
        Ok(Kernel { function, parameters, awaits: version >= AWAITS })
    }
}

/// The driver's function for the offset and size of a kernel's parameter, `cuFuncGetParamInfo`.
type ParameterInfo = unsafe extern "C" fn(sys::CUfunction, usize, *mut usize, *mut usize) -> sys::CUresult;

/// The first version of the driver's interface with [`ParameterInfo`].
const HAS_PARAMETER_INFO: i32 = 12_040;

fn parameter_info(driver: i32) -> Option<ParameterInfo> {
    if driver < HAS_PARAMETER_INFO {
        return None;
    }
    // SAFETY: the driver has been opened, and its function of this name has this type.
    unsafe { sys::culib().get::<ParameterInfo>(b"cuFuncGetParamInfo\0") }.ok().map(|function| *function)
}

/// The launch attribute of an early start (programmatic dependent launch).
fn early() -> [sys::CUlaunchAttribute; 1] {
    let value = sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 };
    let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    [sys::CUlaunchAttribute { id, pad: [0; 4], value }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products;

    #[test]
    fn a_grid_is_refused_where_no_gpu_launches_it() {
        assert!(Shape::new([1 << 20, 65_535], 32).check("k").is_ok());
        let error = Shape::new([1, 65_536], 32).check("k").unwrap_err().to_string();
        assert_eq!(
            error,
            "the CUDA kernel `k` was to be launched over [1, 65536, 1] blocks; a grid has at most 65535 in y and z"
        );
        // The outputs and rows of the largest vocabularies and prompts.
        for shape in [products::panel(262_144, 8192), products::merge(16_384, 262_144)] {
            assert!(shape.check("k").is_ok(), "{shape:?}");
        }
    }
}
