//! Checks that GPUs compute their kernels correctly, before a model judges on them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Instant,
};

use serde::{Deserialize, Serialize};
use tribunal_cuda as cuda;
use tribunal_cuda::{Gpu, Group, KernelSet};
use tribunal_model::Weights;

use super::{adapter::split, known, options, spread};
use crate::{
    engine,
    engine::Device,
    error::{Error, Result},
    spec::{DeviceRequest, ModelSpec, Resources},
};

/// A GPU as runs name it.
#[derive(Clone, Debug)]
pub struct Named {
    pub ordinal: usize,
    /// `NVIDIA H200 (0)`.
    pub name: String,
}

/// Result of the check of a GPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GpuReport {
    pub gpu: String,
    /// Unit: seconds.
    pub seconds: f64,
    /// Differences and failures, in words; `None` where everything is right.
    pub wrong: Option<String>,
}

/// The GPUs that a run takes for a model; empty if it uses none or one cannot be opened. Where the model does
/// not fit one GPU, the GPUs that it is spread over; without a model, those of the resources.
pub fn gpus(model: Option<&str>, resources: &Resources) -> Vec<Named> {
    let devices = Device::for_models(&resources.device.to_string(), resources.tensor_parallel.unwrap_or(1));
    let mut devices = devices.unwrap_or_default();
    if resources.tensor_parallel.is_none()
        && devices.iter().any(|device| !device.gpus().is_empty())
        && let Some(model) = model
        && let (Ok(weights), Ok(options)) = (file(model), options(resources))
        && let Ok(Some((_, spread))) = spread::fewest(&weights, &options, &resources.device)
    {
        devices = spread;
    }
    let named = |gpu: &Gpu| Named { ordinal: gpu.ordinal(), name: format!("{gpu:?}") };
    devices.iter().flat_map(Device::gpus).map(named).collect()
}

/// Checks each GPU of `device` with these kernels: the tensor core's sums, every kernel of a product beside
/// the plain one, and two seeded layers of the width and formats of `model`.
///
/// # Errors
/// There is no such GPU, it has too little memory, or the model cannot be read or run there.
pub fn check(device: &DeviceRequest, model: Option<&str>, kernels: KernelSet) -> Result<Vec<GpuReport>> {
    let devices = Device::for_models(&device.to_string(), 1)?;
    let gpus: Vec<_> = devices.iter().flat_map(Device::gpus).collect();
    if gpus.is_empty() {
        return Err(Error::NotAGpu(device.clone()));
    }
    let weights = model.map(weights).transpose()?;
    let check = |gpu: &&Gpu| {
        let start = Instant::now();
        let wrong = match gpu.with_kernels(kernels).check(weights.as_ref()) {
            Ok(difference) => difference.map(|difference| difference.to_string()),
            // For example, a kernel that accesses memory outside its buffers.
            Err(error) => match cuda::Error::of_model(&error) {
                Some(failure @ cuda::Error::Driver { .. }) => Some(failure.to_string()),
                _ => return Err(engine::Error::Model(error).into()),
            },
        };
        Ok(GpuReport { gpu: format!("{gpu:?}"), seconds: start.elapsed().as_secs_f64(), wrong })
    };
    gpus.iter().map(check).collect()
}

/// Describes how the GPUs of `device` read each other's memory; `None` for a single GPU, for unlike ones, or
/// without a remark.
///
/// # Errors
/// There is no such GPU, or the driver fails.
pub fn peers(device: &DeviceRequest) -> Result<Option<String>> {
    let gpus: Vec<Gpu> =
        Device::for_models(&device.to_string(), 1)?.iter().flat_map(Device::gpus).cloned().collect();
    if gpus.len() < 2 || !gpus.iter().all(|gpu| gpu.is_like(&gpus[0])) {
        return Ok(None);
    }
    Ok(Group::new(gpus).map_err(|error| engine::Error::Model(error.into()))?.remark())
}

/// The models of a specification, each once, without their adapters.
pub fn models(spec: &ModelSpec) -> BTreeSet<&str> {
    let of_roles = spec.roles.iter().map(|(_, model)| model.as_str());
    of_roles.chain([spec.model.as_str()]).map(|model| split(model).0).collect()
}

/// The settings of a model, whose weights are neither read nor hashed, since the check takes seconds only.
fn weights(model: &str) -> Result<Weights> {
    Ok(Weights::open(&file(model)?).map_err(engine::Error::Model)?)
}

/// The file or folder of a model's weights.
fn file(model: &str) -> Result<PathBuf> {
    Ok(if Path::new(model).exists() { PathBuf::from(model) } else { known(model)?.local()?.weights })
}
