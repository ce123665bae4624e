//! `tribunal selftest`: recorded verdicts on each instruction set of the processor, and checks of each GPU.

use std::{io::Write, process::ExitCode};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{output::TextOrJson, setup};
use crate::{
    console::args,
    eval::{
        DeviceRequest, KernelSet, Resources,
        models::gpu_check::{self, GpuReport},
        selftest::{self, CpuReport, Difference},
    },
};

/// Checks that this build computes correct results on this machine: instruction sets and GPUs.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Check only the CPU (cpu), or only GPUs: cuda, cuda:N, cuda:N,M
    #[arg(long, default_value_t)]
    device: DeviceRequest,
    /// A model of whose width and formats two layers are checked on GPUs: a card, file or folder
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
pub struct PrintedGpus {
    pub gpus: Vec<GpuReport>,
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
        show(&cpu, &gpus, out)?;
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

fn show(cpu: &[CpuReport], gpus: &[GpuReport], out: &mut dyn Write) -> Result<()> {
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
                writeln!(out, "{gpu}: the tensor core's sums and every product are right ({seconds:.2} s)")?;
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
        show(cpu, gpus, &mut out).unwrap();
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
