//! From [`Resources`] to the engine's options.

use std::time::Duration;

use crate::{
    engine::{Activations, Compute, Device, Format, Isa, KvType, Options},
    error::{CpuSetting, Error, Result},
    spec::{DeviceRequest, Dtype, Resources},
};

/// Sequences that a GPU takes by default where its memory suits them.
const MOST_ROWS: usize = 1024;

/// Sequences that all GPUs of a run take together by default, each with a thread of the judge.
const ROWS_OF_ALL: usize = 2048;

/// The engine's options. Impossible ones are rejected before anything is loaded.
///
/// # Errors
/// A device or tier that this machine does not have.
pub fn options(resources: &Resources) -> Result<Options> {
    let mut devices =
        Device::for_models(&resources.device.to_string(), resources.tensor_parallel.unwrap_or(1))?;
    devices = devices.into_iter().map(|device| device.with_kernels(resources.gpu_kernels)).collect();
    if !resources.graphs {
        devices = devices.into_iter().map(Device::without_graphs).collect();
    }
    let device = devices.remove(0);
    if !device.is_cpu() && resources.device != DeviceRequest::Auto {
        on_gpu(resources)?;
    }
    let tier = match resources.cpu_tier.as_str() {
        "auto" => Isa::detect(),
        name => Isa::named(name).ok_or_else(|| {
            let available = Isa::available().map(Isa::name).collect::<Vec<_>>().join(", ");
            Error::Isa { isa: name.to_owned(), available }
        })?,
    };
    let floats = match resources.dtype {
        Dtype::Auto => None,
        Dtype::Bf16 => Some(Format::Bf16),
        Dtype::F16 => Some(Format::F16),
        Dtype::F32 => Some(Format::F32),
        Dtype::Q8_0 => Some(Format::Q8_0),
    };
    let default = Options::on(device);
    let most_rows = MOST_ROWS.min(ROWS_OF_ALL / (1 + devices.len()).next_power_of_two());
    Ok(Options {
        more_devices: devices,
        compute: Compute { tier, activations: resources.activations, floats },
        kv: resources.kv_dtype,
        context: resources.context,
        kv_bytes: resources.kv_cache.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        n_rows: resources.batch.unwrap_or(default.n_rows),
        most_rows: if resources.batch.is_none() { most_rows } else { 0 },
        prefix_cache: resources.prefix_cache,
        drafts: resources.drafts,
        hung_after: Duration::try_from_secs_f64(resources.hung_after).ok().filter(|limit| !limit.is_zero()),
        recheck_every: resources.recheck_every,
        threads: resources.threads,
        ..default
    })
}

/// Refuses what a GPU does not do.
fn on_gpu(resources: &Resources) -> Result<()> {
    let setting = if resources.activations == Activations::Float {
        CpuSetting::FloatActivations
    } else if resources.kv_dtype != KvType::Bf16 {
        CpuSetting::CacheType(resources.kv_dtype)
    } else if resources.cpu_tier != "auto" {
        CpuSetting::Isa(resources.cpu_tier.clone())
    } else {
        return Ok(());
    };
    Err(Error::OnlyOnCpu { setting, device: resources.device.clone() })
}
