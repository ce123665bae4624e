//! Checks that the tasks of an array can run: GPU support in this program, models on this machine, GPUs
//! enough for them. A dry run lists what it cannot check. It submits nothing.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::{Error, Result, bail};

use crate::{
    cli::score,
    engine::{Device, DeviceError, Need, Options},
    eval::{
        DeviceRequest, KernelSet, ModelSpec, forecast,
        models::{
            self, adapter,
            gpu_memory::{self, GpuMemory},
            heads,
        },
    },
    hub,
};

/// Requirements of the tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// GPUs that have one model together.
    pub tensor_parallel: usize,
    /// Reason for more than one such GPU where the command does not give the number.
    pub note: Option<String>,
    /// Checks that a dry run could not make here, in words.
    pub unchecked: Vec<String>,
}

impl Needs {
    /// Notes the failed check of a dry run; of a submission it is an error.
    fn leave(&mut self, is_dry: bool, of: &str, error: Error) -> Result<()> {
        if !is_dry {
            return Err(error);
        }
        let reason = error.to_string();
        self.unchecked.push(format!("{of}: {}", reason.lines().next().unwrap_or_default()));
        Ok(())
    }
}

/// Checks a run's models against the tasks that are to make it.
///
/// # Errors
/// A program without GPU support for tasks with GPUs, a model that is not here, GPUs that do not hold it; of
/// a dry run, an unknown model and GPUs of a given memory that do not hold it.
pub fn needs(args: &score::Args, gpus_per_node: usize) -> Result<Needs> {
    let (resources, is_dry, memory) = (&args.spec.resources, args.run.dry_run, args.run.device_memory);
    let on_gpus = gpus_per_node > 0 && resources.device != DeviceRequest::Cpu;
    let mut needs = Needs { tensor_parallel: resources.tensor_parallel.unwrap_or(1), ..Needs::default() };
    if (on_gpus || !matches!(resources.device, DeviceRequest::Auto | DeviceRequest::Cpu))
        && let Err(error) = built_for_gpus()
    {
        needs.leave(is_dry, "GPU support", error)?;
    }
    let room = GpuMemory::elsewhere(memory);
    if on_gpus && memory.is_none() {
        needs
            .unchecked
            .push(format!("the nodes' GPUs: {} is assumed (`--device-memory SIZE`)", room.in_words()));
    }
    let models = heads::resolved(args.spec.clone())?.models;
    for name in names(&models) {
        let options = Options { context: resources.context, ..Options::for_gpu() };
        let need = match located(&name) {
            Ok(weights) if on_gpus => {
                Some(Need::of(&weights, &options, resources.gpu_kernels == KernelSet::New)?)
            }
            Ok(_) => None,
            Err(error) => {
                let card = hub::find(&name).ok();
                let is_known = card.is_some() || PathBuf::from(&name).components().count() > 1;
                needs.leave(is_dry && is_known, "weights", error)?;
                let of_card = |card| gpu_memory::within(&card, resources.context.unwrap_or(card.context));
                let need = card.and_then(of_card);
                if on_gpus && need.is_none() {
                    needs.unchecked.push(format!("GPU memory: the sizes of `{name}` are not known here"));
                }
                need.filter(|_| on_gpus)
            }
        };
        let Some(need) = need else { continue };
        let n = match together(&name, &need, &room, resources.tensor_parallel, gpus_per_node) {
            Ok(n) => n,
            Err(error) => {
                needs.leave(is_dry && memory.is_none(), "GPU memory", error)?;
                resources.tensor_parallel.unwrap_or(gpus_per_node)
            }
        };
        if n > needs.tensor_parallel {
            needs.tensor_parallel = n;
            let (sum, one) = (gpu_memory::sum(&need), room.in_words());
            let shorter = shorter(args, &need, &room, n)
                .or_else(|error| needs.leave(true, "the longest prompt", error).map(|()| String::new()))?;
            let note =
                format!("`{name}` needs {sum}, and one GPU has {one}: `--tensor-parallel {n}`{shorter}");
            needs.note = Some(note);
        }
    }
    Ok(needs)
}

/// The context with which fewer GPUs hold a model, on a line of its own; empty where there is none. Prompts
/// are counted only where a shorter context would do.
fn shorter(args: &score::Args, need: &Need, room: &GpuMemory, n: usize) -> Result<String> {
    if (1..n).all(|each| need.context_in(room.bytes(), each).is_none()) {
        return Ok(String::new());
    }
    let longest = forecast::longest_call(args.spec.clone())?;
    let shorter = (1..n).find_map(|each| forecast::shorter(need, room, each, longest));
    Ok(shorter.map_or_else(String::new, |shorter| format!("\n`--context N`: {shorter}")))
}

/// The models of a specification, each once.
fn names(models: &ModelSpec) -> BTreeSet<String> {
    let of_roles = models.roles.iter().map(|(_, model)| adapter::split(model).0);
    of_roles.chain([models.model.as_str()]).map(str::to_owned).collect()
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
    let fewest = (1..=gpus_per_node).find(|&n| gpus_per_node.is_multiple_of(n) && room.fits(need, n));
    let n = requested.unwrap_or_else(|| fewest.unwrap_or(gpus_per_node));
    if room.fits(need, n) {
        return Ok(n);
    }
    let instead = match (fewest, need.context_in(room.bytes(), n)) {
        (Some(n), _) => format!("`--tensor-parallel {n}`"),
        (None, Some(context)) => format!("more `--gpus-per-node`, or `--context {context}`"),
        (None, None) => "more `--gpus-per-node`".to_owned(),
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
