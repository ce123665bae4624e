//! The device of a model: `--device auto|cpu|cuda[:N[,M...]]`. It opens the device, or explains why that
//! fails. Memory requirements are checked elsewhere.

use tribunal_cpu::{Compute, Cpu};
use tribunal_cuda::{self as cuda, Gpu, Group, KernelSet};
use tribunal_model::{self as model, Config, Decoder, Encoder, Model, Weights};

/// An opened device.
#[derive(Clone, Debug, Default)]
pub enum Device {
    /// This machine's processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU.
    Cuda(Gpu),
    /// Several GPUs that share one model.
    Group(Group),
}

/// Errors of opening a device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is unknown.
    #[error(
        "`{0}` is not a device; hint: `auto`, `cpu`, `cuda`, `cuda:N` or `cuda:N,M`, where N counts from 0"
    )]
    Name(String),
    #[error("`{0}` names a GPU twice")]
    Twice(String),
    /// Tensor cores of another generation round otherwise.
    #[error(
        "`{0}`: these GPUs are of different generations, whose scores differ; hint: name GPUs of one kind"
    )]
    Different(String),
    #[error("a model is spread over {0} GPUs only where GPUs are named")]
    NotGpus(usize),
    #[error("models on {n_cards} GPUs each need a multiple of {n_cards} GPUs, and {n_devices} are named")]
    Groups { n_cards: usize, n_devices: usize },
    #[error("a model on {n_cards} GPUs needs {n_cards} of them, and there are {n_devices}")]
    TooFew { n_cards: usize, n_devices: usize },
    #[error("{n_cards} GPUs for one model: {reason}")]
    Group { n_cards: usize, reason: cuda::Error },
    /// The binary has no CUDA kernels.
    #[error(
        "`{0}`: this binary was built without CUDA; hint: `scripts/cuda/build.sh` builds one with it, or choose `cpu`"
    )]
    NotBuilt(String),
    /// The binary could use CUDA, but there is no such device here.
    #[error("`{name}`: no CUDA device: {reason}{}", hint(reason))]
    NoDevice { name: String, reason: cuda::Error },
}

/// The remedy, unless the reason contains one.
fn hint(reason: &cuda::Error) -> String {
    match reason {
        cuda::Error::OldDriver { .. } | cuda::Error::NoKernels { .. } | cuda::Error::Memory { .. } => {
            String::new()
        }
        cuda::Error::NoDevice(1..) => {
            "\nhint: `nvidia-smi` lists them; the scores are the same on any number".into()
        }
        _ => "\nhint: `nvidia-smi` lists the devices where the driver is installed; or choose `cpu`".into(),
    }
}

impl Device {
    /// Opens the devices with this name; one, unless several GPUs are named. `auto` takes the first GPU if
    /// there is one, else the CPU.
    ///
    /// # Errors
    /// An unknown name; a GPU given by name that does not exist or that the binary cannot use; GPUs that do
    /// not compute alike.
    pub fn named(name: &str) -> Result<Vec<Self>, Error> {
        match name.split_once(':').unwrap_or((name, "0")) {
            ("cpu", _) if name == "cpu" => Ok(vec![Self::Cpu]),
            ("auto", _) if name == "auto" => Ok(vec![Gpu::open(0).map_or(Self::Cpu, Self::Cuda)]),
            ("cuda", ordinals) => gpus(name, ordinals),
            _ => Err(Error::Name(name.to_owned())),
        }
    }

    /// Opens the devices with this name for models that are spread over `n_cards` GPUs each: `cuda` and
    /// `auto` are the first so many.
    ///
    /// # Errors
    /// Those of [`Device::named`] and [`Device::grouped`].
    pub fn for_models(name: &str, n_cards: usize) -> Result<Vec<Self>, Error> {
        if n_cards <= 1 || !["auto", "cuda"].contains(&name) {
            return Self::grouped(Self::named(name)?, n_cards);
        }
        let ordinals: Vec<String> = (0..n_cards).map(|n| n.to_string()).collect();
        match Self::named(&format!("cuda:{}", ordinals.join(","))) {
            Err(Error::NoDevice { reason: cuda::Error::NoDevice(n_devices), .. }) if n_devices > 0 => {
                Err(Error::TooFew { n_cards, n_devices })
            }
            devices => Self::grouped(devices?, n_cards),
        }
    }

    /// Number of GPUs of this machine; 0 for a CPU.
    pub fn n_of_machine(&self) -> usize {
        if self.is_cpu() { 0 } else { Gpu::count() }
    }

    /// The numbers of its GPUs; none for a CPU.
    pub fn ordinals(&self) -> Vec<usize> {
        self.gpus().iter().map(Gpu::ordinal).collect()
    }

    /// All GPUs of this machine that compute like this one and as fast, itself among them, in order; none for
    /// a CPU.
    pub fn alike(&self) -> Vec<Self> {
        self.gpus().first().map(Gpu::alike).unwrap_or_default().into_iter().map(Self::Cuda).collect()
    }

    /// Devices of `n_cards` GPUs each, for models that are spread over as many (tensor parallelism). GPUs are
    /// taken in the given order.
    ///
    /// # Errors
    /// A number that does not divide that of the devices, devices other than GPUs, GPUs that are not alike.
    pub fn grouped(devices: Vec<Self>, n_cards: usize) -> Result<Vec<Self>, Error> {
        if n_cards <= 1 {
            return Ok(devices);
        }
        let n_devices = devices.len();
        let gpu = |device| if let Self::Cuda(gpu) = device { Some(gpu) } else { None };
        let gpus: Option<Vec<Gpu>> = devices.into_iter().map(gpu).collect();
        let gpus = gpus.ok_or(Error::NotGpus(n_cards))?;
        if !n_devices.is_multiple_of(n_cards) {
            return Err(Error::Groups { n_cards, n_devices });
        }
        let group = |gpus: &[Gpu]| {
            Group::new(gpus.to_vec()).map(Self::Group).map_err(|reason| Error::Group { n_cards, reason })
        };
        gpus.chunks(n_cards).map(group).collect()
    }

    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }

    /// Its GPUs; none for a CPU.
    pub fn gpus(&self) -> &[Gpu] {
        match self {
            Self::Cpu => &[],
            Self::Cuda(gpu) => std::slice::from_ref(gpu),
            Self::Group(group) => group.gpus(),
        }
    }

    /// A remark for the user on how it works, if any.
    pub fn remark(&self) -> Option<String> {
        if let Self::Group(group) = self { group.remark() } else { None }
    }

    /// The configuration of one GPU's part of a model: all of it for a single GPU.
    ///
    /// # Errors
    /// A number of GPUs that the model cannot be spread over.
    pub fn share(&self, config: &Config) -> Result<Config, model::Error> {
        match self {
            Self::Group(group) => Ok(group.config(config)?),
            Self::Cpu | Self::Cuda(_) => Ok(config.clone()),
        }
    }

    /// This device with every kernel of a GPU launched by itself instead of recorded steps. It moves no bit;
    /// for finding faults.
    #[must_use]
    pub fn without_graphs(self) -> Self {
        self.map(Gpu::without_graphs)
    }

    /// This device with these kernels on a GPU.
    #[must_use]
    pub fn with_kernels(self, set: KernelSet) -> Self {
        self.map(|gpu| gpu.with_kernels(set))
    }

    /// This device with each of its GPUs changed.
    fn map(self, change: impl Fn(&Gpu) -> Gpu) -> Self {
        match self {
            Self::Cpu => Self::Cpu,
            Self::Cuda(gpu) => Self::Cuda(change(&gpu)),
            Self::Group(group) => Self::Group(group.map(change)),
        }
    }

    /// Loads a checkpoint's weights. The cache must then be [reserved](model::backend::Runtime::reserve).
    ///
    /// # Errors
    /// Tensors that are missing or of another shape than in the configuration, too little memory, or a model
    /// that is not supported on GPUs.
    pub fn load(&self, weights: &Weights, compute: Compute) -> Result<Box<dyn Model>, model::Error> {
        match self {
            Self::Cpu => {
                let cpu = Cpu::new(weights.config(), compute);
                if weights.config().encoder.is_some() {
                    return Ok(Box::new(Encoder::load(weights, cpu)?));
                }
                Ok(Box::new(Decoder::load(weights, cpu)?))
            }
            Self::Cuda(gpu) => cuda::load(gpu, weights),
            Self::Group(group) => cuda::load_on_group(group, weights),
        }
    }
}

fn gpus(name: &str, ordinals: &str) -> Result<Vec<Device>, Error> {
    let ordinals = ordinals.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>();
    let ordinals = ordinals.map_err(|_| Error::Name(name.to_owned()))?;
    if (1..ordinals.len()).any(|i| ordinals[..i].contains(&ordinals[i])) {
        return Err(Error::Twice(name.to_owned()));
    }
    if !cuda::BUILT_IN {
        return Err(Error::NotBuilt(name.to_owned()));
    }
    let several = ordinals.len() > 1;
    let open = |ordinal| {
        let named = |reason| match reason {
            reason @ cuda::Error::Driver { .. } if several => reason.on_card(ordinal),
            reason => reason,
        };
        let no_device = |reason| Error::NoDevice { name: name.to_owned(), reason: named(reason) };
        Gpu::open(ordinal).map_err(no_device)
    };
    let gpus = ordinals.into_iter().map(open).collect::<Result<Vec<Gpu>, _>>()?;
    if gpus.iter().any(|gpu| gpu.generation() != gpus[0].generation()) {
        return Err(Error::Different(name.to_owned()));
    }
    Ok(gpus.into_iter().map(Device::Cuda).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_always_there() {
        assert!(Device::named("cpu").unwrap()[0].is_cpu());
        assert!(Device::named("auto").is_ok());
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_are_known() {
        for name in ["gpu", "", "cpu:0", "auto:1", "cuda:", "cuda:-1", "cuda:x", "cuda:0,", "CUDA"] {
            let error = Device::named(name).unwrap_err();
            assert!(matches!(&error, Error::Name(n) if n == name), "{name}: {error}");
            assert!(error.to_string().contains("`cuda:N`"));
        }
        assert!(matches!(Device::named("cuda:0,0"), Err(Error::Twice(_))));
    }

    /// No machine has this many GPUs, so the error must occur on every machine.
    #[test]
    fn a_gpu_that_is_not_there_is_an_error_not_the_cpu() {
        let error = Device::named("cuda:4096").unwrap_err();
        let built_in = matches!(error, Error::NoDevice { .. });
        assert_eq!(built_in, cuda::BUILT_IN, "{error}");
        assert!(error.to_string().starts_with("`cuda:4096`: "), "{error}");
    }
}
