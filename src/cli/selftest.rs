//! `tribunal selftest`: recorded verdicts on each instruction set of the processor, and checks of each GPU. A
//! GPU is checked by it before its first run, too: in a process of its own, which is ended when it takes too
//! long.

use std::{
    collections::BTreeMap,
    io::Write,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant, UNIX_EPOCH},
};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{output::TextOrJson, setup};
use crate::{
    console::{args, loading},
    eval::{
        self, DeviceRequest, KernelSet, ModelSpec, Models, Resources,
        models::gpu_check::{self, GpuReport, Named},
        selftest::{self, CpuReport, Difference},
    },
    files, hub,
    llm::Sampling,
};

/// Checks that this build computes correct results on this machine: instruction sets and GPUs.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Check only the CPU (cpu), or only GPUs: cuda, cuda:N, cuda:N,M
    #[arg(long, default_value_t)]
    device: DeviceRequest,
    /// Check GPUs for this model (a card, file or folder): products of its formats, two layers of its width
    #[arg(long, value_name = "CARD|PATH")]
    model: Option<String>,
    /// The kernels that are checked on GPUs
    #[arg(long, default_value = "auto", value_parser = args::word::<KernelSet>)]
    gpu_kernels: KernelSet,
    #[command(flatten)]
    printed: TextOrJson,
}

/// The output of `--format json`.
#[derive(Serialize)]
struct Printed<'a> {
    version: &'a str,
    segments: usize,
    cpu: &'a [CpuReport],
    gpus: &'a [GpuReport],
}

/// The part of [`Printed`] about GPUs.
#[derive(Deserialize)]
struct PrintedGpus {
    gpus: Vec<GpuReport>,
}

/// Runs `tribunal selftest`: exit code 0 where everything is as recorded, 1 where something differs.
///
/// # Errors
/// There is no such GPU, it has too little memory, or the model cannot be written, read or run.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let check = |device: &DeviceRequest| gpu_check::check(device, args.model.as_deref(), args.gpu_kernels);
    let cpu = match args.device {
        DeviceRequest::Auto | DeviceRequest::Cpu => selftest::check()?,
        DeviceRequest::Cuda | DeviceRequest::Gpus(_) => Vec::new(),
    };
    let gpus = match &args.device {
        DeviceRequest::Cpu => Vec::new(),
        DeviceRequest::Auto => {
            let gpus = gpu_check::gpus(None, &Resources::default()).into_iter();
            let of_each = gpus.map(|gpu| check(&DeviceRequest::Gpus(vec![gpu.ordinal])));
            of_each.collect::<Result<Vec<_>, _>>()?.concat()
        }
        named => check(named)?,
    };
    let remark = if gpus.len() > 1 { gpu_check::peers(&args.device)? } else { None };
    if args.printed.is_json() {
        let printed =
            Printed { version: setup::version(), segments: selftest::n_segments(), cpu: &cpu, gpus: &gpus };
        writeln!(out, "{}", serde_json::to_string(&printed)?)?;
    } else {
        show(&cpu, &gpus, args.model.is_some(), out)?;
        if args.device == DeviceRequest::Auto && gpus.is_empty() {
            writeln!(out, "no GPU was checked: there is none, or this build cannot use it")?;
        }
        if let Some(remark) = remark {
            writeln!(out, "{remark}")?;
        }
    }
    let is_right = cpu.iter().all(|cpu| cpu.wrong.is_none()) && gpus.iter().all(|gpu| gpu.wrong.is_none());
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn show(cpu: &[CpuReport], gpus: &[GpuReport], has_model: bool, out: &mut dyn Write) -> Result<()> {
    let n = selftest::n_segments();
    for CpuReport { isa, seconds, wrong } in cpu {
        match wrong {
            None => writeln!(
                out,
                "{isa}: {n} segments, verdicts and log-probabilities are right ({seconds:.2} s)"
            )?,
            Some(Difference { segment, what, expected, found }) => {
                writeln!(out, "{isa}: segment {segment}: {what}: expected `{expected}`, found `{found}`")?;
            }
        }
    }
    for GpuReport { gpu, seconds, wrong } in gpus {
        match wrong {
            None => {
                let checked = if has_model { "this model's products and layers" } else { "every product" };
                writeln!(out, "{gpu}: the tensor core's sums and {checked} are right ({seconds:.2} s)")?;
            }
            Some(wrong) => writeln!(out, "{gpu}: {wrong}")?,
        }
    }
    if let Some(hint) = hint(cpu, gpus) {
        writeln!(
            out,
            "hint: {hint}; please report the processor or card, and these lines with `tribunal --version`"
        )?;
    }
    Ok(())
}

/// The remedy where something differs.
fn hint(cpu: &[CpuReport], gpus: &[GpuReport]) -> Option<String> {
    let right = cpu.iter().rfind(|cpu| cpu.wrong.is_none());
    if cpu.iter().any(|cpu| cpu.wrong.is_some()) {
        return Some(right.map_or_else(
            || {
                "no scores of this build can be trusted on this machine: install it again, or build it here"
                    .into()
            },
            |right| format!("`--device cpu --cpu-tier {}` computes what it should", right.isa),
        ));
    }
    let is_wrong = gpus.iter().any(|gpu| gpu.wrong.is_some());
    is_wrong.then(|| "`--gpu-kernels proven`, or `plain` if that differs too, or `--device cpu`".into())
}

/// Time limit for the check of one GPU. It takes under a second where nothing is wrong; a kernel that hangs
/// never ends.
const LIMIT: Duration = Duration::from_secs(20);

/// Results of checks, by GPU, driver, build and model.
type Known = BTreeMap<String, KernelSet>;

/// In their order: from the kernels that are taken on request only to the reference ones.
const SETS: [KernelSet; 4] = [KernelSet::New, KernelSet::Auto, KernelSet::Proven, KernelSet::Plain];

/// Loads models onto GPUs that are checked first; as [`loading::load`] otherwise.
///
/// # Errors
/// The errors of [`loading::load`], and a GPU that computes wrong results by all kernels.
pub fn load(model: &ModelSpec, resources: &Resources, sampling: Sampling) -> eval::Result<Models> {
    let mut resources = resources.clone();
    UsedGpus::find(model, &resources).settle(&mut resources)?;
    loading::load(model, &resources, sampling)
}

/// The GPUs that a run takes for each of its models, found before these take their memory.
pub struct UsedGpus {
    /// Each model's name, and a GPU that it takes.
    gpus: Vec<(String, Named)>,
    /// The kernels that were requested.
    requested: KernelSet,
}

impl UsedGpus {
    /// Finds them. It loads nothing.
    pub fn find(model: &ModelSpec, resources: &Resources) -> Self {
        let of_model = |name: &str| {
            let gpus = gpu_check::gpus(Some(name), resources);
            gpus.into_iter().map(|gpu| (name.to_owned(), gpu)).collect::<Vec<_>>()
        };
        let gpus = gpu_check::models(model).into_iter().flat_map(of_model).collect();
        Self { gpus, requested: resources.gpu_kernels }
    }

    /// Checks them, each once for its driver, this build and each model. Where a check finds a difference,
    /// fails or does not end, the run takes slower kernels and prints a warning.
    ///
    /// # Errors
    /// A GPU that computes wrong results by all kernels.
    pub fn settle(&self, resources: &mut Resources) -> eval::Result<()> {
        let mut slowest = self.requested as usize;
        let Some(limit) = limit().filter(|_| slowest <= KernelSet::Auto as usize) else { return Ok(()) };
        for (name, gpu) in &self.gpus {
            slowest = slowest.max(Checks::new(gpu, name, self.requested).right(limit)?);
        }
        resources.gpu_kernels = SETS[slowest];
        Ok(())
    }

    /// Remembers that these kernels of a run were wrong, so that the next one takes slower ones.
    pub fn remember_wrong(&self, kernels: KernelSet) {
        for (name, gpu) in &self.gpus {
            Checks::new(gpu, name, self.requested).remember(SETS[(kernels as usize + 1).min(SETS.len() - 1)]);
        }
    }
}

/// Time limit of the check: `TRIBUNAL_GPU_CHECK` in seconds; `None` where it is `off`.
fn limit() -> Option<Duration> {
    match std::env::var("TRIBUNAL_GPU_CHECK").ok().as_deref() {
        Some("off") => None,
        Some(seconds) => Some(seconds.parse().map_or(LIMIT, Duration::from_secs)),
        None => Some(LIMIT),
    }
}

/// The checks of one GPU for one model.
struct Checks<'a> {
    gpu: &'a Named,
    model: &'a str,
    requested: KernelSet,
    /// `gpu-checks.json`; `None` where nothing can be kept.
    path: Option<PathBuf>,
    /// Key of a kept result.
    key: String,
}

impl<'a> Checks<'a> {
    fn new(gpu: &'a Named, model: &'a str, requested: KernelSet) -> Self {
        let driver = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
        let driver = driver.lines().next().unwrap_or("unknown driver");
        let path = hub::home::home().ok().map(|home| home.join("gpu-checks.json"));
        let of_new = if requested == KernelSet::New { "; new" } else { "" };
        let key = format!("{}; {driver}; {}; {model}{of_new}", gpu.name, program());
        Self { gpu, model, requested, path, key }
    }

    /// The fastest kernels that are right, by their place in [`SETS`].
    fn right(&self, limit: Duration) -> eval::Result<usize> {
        let known = self.path.as_ref().map(read).unwrap_or_default();
        if let Some(&set) = known.get(&self.key) {
            return Ok(set as usize);
        }
        let (mut last, mut has_difference) = (String::new(), false);
        for (idx, set) in SETS.into_iter().enumerate().skip(self.requested as usize) {
            match outcome(self.gpu, self.model, set, limit) {
                Outcome::Right => {
                    if idx > self.requested as usize {
                        say!(
                            "warning: this run takes `--gpu-kernels {set}`, which are slower (and, after `new`, change the signature); `tribunal selftest --device cuda` shows more\n\
                             hint: please report the card, its driver and these lines"
                        );
                    }
                    self.remember(set);
                    return Ok(idx);
                }
                Outcome::Late => say!(
                    "warning: {}: the check of its `{set}` kernels did not end within {} s\nhint: `TRIBUNAL_GPU_CHECK=SECONDS` \
                     gives it longer",
                    self.gpu.name,
                    limit.as_secs()
                ),
                Outcome::Wrong(wrong) => {
                    has_difference = true;
                    if wrong != last {
                        say!("warning: {}: {wrong}", self.gpu.name);
                    }
                    last = wrong;
                }
                // Nothing is kept, so that the next run checks.
                Outcome::Unknown => return Ok(idx),
            }
        }
        if !has_difference {
            // Every check was too late, none found a difference.
            say!("warning: this run takes `--gpu-kernels plain`, which are slower");
            return Ok(SETS.len() - 1);
        }
        Err(eval::Error::WrongGpu { gpu: self.gpu.name.clone(), wrong: last })
    }

    /// Keeps a result. A folder that cannot be written means that the check is made again.
    fn remember(&self, set: KernelSet) {
        let Some(path) = &self.path else { return };
        let mut known = read(path);
        known.insert(self.key.clone(), set);
        let _ = files::write(path, |file| Ok(serde_json::to_writer_pretty(file, &known)?));
    }
}

/// Identity of this build. Its version does not suffice, where the sources have changes.
fn program() -> String {
    let file = std::env::current_exe().and_then(std::fs::metadata).ok();
    let modified = file.as_ref().and_then(|file| file.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    let (bytes, seconds) = (file.map_or(0, |file| file.len()), modified.map_or(0, |time| time.as_secs()));
    format!("tribunal {} of {bytes} bytes and {seconds} s", env!("CARGO_PKG_VERSION"))
}

fn read(path: &PathBuf) -> Known {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap_or_default()).unwrap_or_default()
}

/// Outcome of a check in a process of its own.
enum Outcome {
    Right,
    Wrong(String),
    /// The check was ended at its limit of time.
    Late,
    /// The check could not be made, for example with too little memory. The run fails for the same reason and
    /// reports it.
    Unknown,
}

fn outcome(gpu: &Named, model: &str, set: KernelSet, limit: Duration) -> Outcome {
    let Ok(program) = std::env::current_exe() else { return Outcome::Unknown };
    let mut command = Command::new(program);
    command.args(["selftest", "--format", "json", "--model", model, "--gpu-kernels", &set.to_string()]);
    command.args(["--device", &format!("cuda:{}", gpu.ordinal)]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return Outcome::Unknown };
    let start = Instant::now();
    while start.elapsed() < limit {
        let Ok(Some(status)) = child.try_wait() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let printed = child.wait_with_output().map(|output| output.stdout).unwrap_or_default();
        let found = serde_json::from_slice::<PrintedGpus>(&printed).map(|printed| printed.gpus);
        return match found {
            Ok(found) => {
                found.into_iter().find_map(|found| found.wrong).map_or(Outcome::Right, Outcome::Wrong)
            }
            Err(_) if status.code() == Some(2) => Outcome::Unknown,
            Err(_) => Outcome::Wrong(format!("the check of its kernels ended with {status}")),
        };
    }
    let _ = child.kill();
    let _ = child.wait();
    Outcome::Late
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(isa: &'static str, is_wrong: bool) -> CpuReport {
        let wrong = Difference {
            segment: 7,
            what: "log-probability of token 3".into(),
            expected: "-1.5".into(),
            found: "-1.25".into(),
        };
        CpuReport { isa, seconds: 0.25, wrong: is_wrong.then_some(wrong) }
    }

    fn gpu(wrong: Option<&str>) -> GpuReport {
        GpuReport { gpu: "NVIDIA H200 (0)".into(), seconds: 0.5, wrong: wrong.map(str::to_owned) }
    }

    fn shown(cpu: &[CpuReport], gpus: &[GpuReport]) -> String {
        let mut out = Vec::new();
        show(cpu, gpus, false, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_printed() {
        insta::assert_snapshot!(shown(&[cpu("portable", false), cpu("avx2", false)], &[gpu(None)]), @"
        portable: 20 segments, verdicts and log-probabilities are right (0.25 s)
        avx2: 20 segments, verdicts and log-probabilities are right (0.25 s)
        NVIDIA H200 (0): the tensor core's sums and every product are right (0.50 s)
        ");
        insta::assert_snapshot!(shown(&[cpu("portable", false), cpu("avx2", true)], &[]), @"
        portable: 20 segments, verdicts and log-probabilities are right (0.25 s)
        avx2: segment 7: log-probability of token 3: expected `-1.5`, found `-1.25`
        hint: `--device cpu --cpu-tier portable` computes what it should; please report the processor or card, and these lines with `tribunal --version`
        ");
        insta::assert_snapshot!(shown(&[cpu("portable", true)], &[]), @"
        portable: segment 7: log-probability of token 3: expected `-1.5`, found `-1.25`
        hint: no scores of this build can be trusted on this machine: install it again, or build it here; please report the processor or card, and these lines with `tribunal --version`
        ");
        insta::assert_snapshot!(shown(&[cpu("portable", false)], &[gpu(Some("a kernel differs"))]), @"
        portable: 20 segments, verdicts and log-probabilities are right (0.25 s)
        NVIDIA H200 (0): a kernel differs
        hint: `--gpu-kernels proven`, or `plain` if that differs too, or `--device cpu`; please report the processor or card, and these lines with `tribunal --version`
        ");
    }
}
