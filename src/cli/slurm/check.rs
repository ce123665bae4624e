//! Checks that the tasks of an array can run: GPU support in this program, models on this machine, GPUs
//! enough for them. It submits nothing.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::{Result, bail};

use crate::{
    cli::score,
    engine::{Device, DeviceError, Need, Options},
    eval::{
        DeviceRequest, ModelSpec,
        models::{
            self, adapter,
            gpu_memory::{self, GpuMemory},
            heads,
        },
    },
};

/// Requirements of the tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// GPUs that have one model together.
    pub tensor_parallel: usize,
    /// Reason for more than one such GPU where the command does not give the number.
    pub note: Option<String>,
}

/// Checks a run's models against the tasks that are to make it.
///
/// # Errors
/// A program without GPU support for tasks with GPUs, a model that is not here, GPUs that do not hold it.
pub fn needs(args: &score::Args, gpus_per_node: usize) -> Result<Needs> {
    let resources = &args.spec.resources;
    let on_gpus = gpus_per_node > 0 && resources.device != DeviceRequest::Cpu;
    if on_gpus || !matches!(resources.device, DeviceRequest::Auto | DeviceRequest::Cpu) {
        built_for_gpus()?;
    }
    let mut needs = Needs { tensor_parallel: resources.tensor_parallel.unwrap_or(1), ..Needs::default() };
    let models = heads::resolved(args.spec.clone())?.models;
    for name in names(&models) {
        let weights = located(&name)?;
        if on_gpus {
            let options = Options { context: resources.context, ..Options::for_gpu() };
            let need = Need::of(&weights, &options)?;
            let room = GpuMemory::find(args.run.device_memory);
            let n = together(&name, &need, &room, resources.tensor_parallel, gpus_per_node)?;
            if n > needs.tensor_parallel {
                needs.tensor_parallel = n;
                let room = room.in_words();
                needs.note = Some(format!(
                    "`{name}` needs {}, and one GPU has {room}: `--tensor-parallel {n}`",
                    gpu_memory::sum(&need)
                ));
            }
        }
    }
    Ok(needs)
}

/// Refuses a build without GPU support. Where the command is given, there need be no GPU.
fn built_for_gpus() -> Result<()> {
    match Device::for_models("cuda", 1) {
        Err(DeviceError::NotBuilt(_)) => bail!(
            "the tasks have GPUs, and this binary was built without CUDA\nhint: `scripts/cuda/build.sh` builds one with it, or \
             add `--device cpu`"
        ),
        _ => Ok(()),
    }
}

/// The models of a specification, each once.
fn names(models: &ModelSpec) -> BTreeSet<String> {
    let of_roles = models.roles.iter().map(|(_, model)| adapter::split(model).0);
    of_roles.chain([models.model.as_str()]).map(str::to_owned).collect()
}

/// A model's weights on this machine.
fn located(name: &str) -> Result<PathBuf> {
    let path = PathBuf::from(name);
    Ok(if path.exists() { path } else { models::known(name)?.local()?.weights })
}

/// Number of GPUs that hold a model together: the given one, or the fewest that suffice.
fn together(
    name: &str,
    need: &Need,
    room: &GpuMemory,
    requested: Option<usize>,
    gpus_per_node: usize,
) -> Result<usize> {
    let holds =
        |n: &usize| need.on_each.get(n - 1).is_some_and(|bytes| bytes.is_some_and(|b| b <= room.bytes()));
    let fewest = (1..=gpus_per_node).filter(|n| gpus_per_node.is_multiple_of(*n)).find(|n| holds(n));
    let n = requested.unwrap_or_else(|| fewest.unwrap_or(gpus_per_node));
    if holds(&n) {
        return Ok(n);
    }
    let instead = match fewest {
        Some(n) => format!("`--tensor-parallel {n}`"),
        None => "more `--gpus-per-node`, or a shorter `--context N`".to_owned(),
    };
    bail!(
        "`{name}` needs {}, which {n} GPU{} with {} do not hold\nhint: {instead}; `--device-memory SIZE` where the nodes' \
         GPUs have another memory",
        gpu_memory::sum(need),
        if n == 1 { "" } else { "s" },
        room.in_words()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub;

    fn of(gib: u64, asked: Option<usize>, gpus_per_node: usize) -> Result<usize, String> {
        let need = gpu_memory::of_card(&hub::find("qwen2.5-72b-instruct").unwrap()).unwrap();
        together("big", &need, &GpuMemory::find(Some(gib << 30)), asked, gpus_per_node)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_model_gets_as_few_gpus_as_hold_it() {
        assert_eq!(of(200, None, 8), Ok(1));
        assert_eq!(of(79, None, 8), Ok(2));
        assert_eq!(of(79, None, 2), Ok(2));
        assert_eq!(of(79, Some(4), 8), Ok(4));
        let alone = of(79, Some(1), 8).unwrap_err();
        assert!(
            alone.contains("which 1 GPU with 79.00 GiB") && alone.contains("`--tensor-parallel 2`"),
            "{alone}"
        );
        let none = of(24, None, 2).unwrap_err();
        assert!(
            none.contains("which 2 GPUs with 24.00 GiB") && none.contains("more `--gpus-per-node`"),
            "{none}"
        );
    }
}
