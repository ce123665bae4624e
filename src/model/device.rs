//! Where a model runs: `--device auto|cpu|cuda[:N]`. It opens the device and says plainly why it cannot; it
//! knows nothing of what fits into the device's memory.

use candle_core::Device;

use super::cuda;

/// Why a device cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is none of those that are known.
    #[error("`{0}` is no device; hint: `auto`, `cpu`, `cuda` or `cuda:N`, where N counts from 0")]
    Name(String),
    /// The binary has no CUDA kernels.
    #[error(
        "`{0}`: this binary was built without CUDA; hint: `scripts/cuda/build.sh` builds one with it, or choose `cpu`"
    )]
    NotBuilt(String),
    /// The binary could use CUDA, but there is no such device here.
    #[error(
        "`{name}`: no CUDA device: {reason}; hint: `nvidia-smi` lists the devices, `scripts/cuda/run.sh` finds the CUDA libraries, or choose `cpu`"
    )]
    NoDevice { name: String, reason: String },
}

/// Opens the device with this name. `auto` takes the first GPU where there is one, else the CPU.
///
/// # Errors
/// An unknown name; or a GPU was asked for by name and there is none, or the binary cannot use it.
pub fn device(name: &str) -> Result<Device, Error> {
    match name.split_once(':').unwrap_or((name, "0")) {
        ("cpu", _) if name == "cpu" => Ok(Device::Cpu),
        ("auto", _) if name == "auto" => Ok(cuda::open(0).unwrap_or(Device::Cpu)),
        ("cuda", ordinal) => {
            let ordinal = ordinal.parse().map_err(|_| Error::Name(name.to_owned()))?;
            gpu(name, ordinal)
        }
        _ => Err(Error::Name(name.to_owned())),
    }
}

fn gpu(name: &str, ordinal: usize) -> Result<Device, Error> {
    if !cuda::BUILT_IN {
        return Err(Error::NotBuilt(name.to_owned()));
    }
    cuda::open(ordinal).map_err(|e| Error::NoDevice { name: name.to_owned(), reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_always_there() {
        assert!(device("cpu").unwrap().is_cpu());
        assert!(device("auto").is_ok());
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_those_that_are() {
        for name in ["gpu", "", "cpu:0", "auto:1", "cuda:", "cuda:-1", "cuda:x", "CUDA"] {
            let error = device(name).unwrap_err();
            assert!(matches!(&error, Error::Name(n) if n == name), "{name}: {error}");
            assert!(error.to_string().contains("`cuda:N`"));
        }
    }

    /// No machine has this many GPUs, so the error must come whatever this one has.
    #[test]
    fn a_gpu_that_is_not_there_is_an_error_not_the_cpu() {
        let error = device("cuda:4096").unwrap_err();
        let built_in = matches!(error, Error::NoDevice { .. });
        assert_eq!(built_in, cuda::BUILT_IN, "{error}");
        assert!(error.to_string().starts_with("`cuda:4096`: "), "{error}");
    }
}
