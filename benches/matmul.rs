//! Products of packed weights against the limits of the machine, both measured in this run, and against
//! candle's own. It checks no value: the tests do.
//!
//! `cargo bench --bench matmul -- [threads=1] [formats=q8_0,q4k] [m=1,8,64,512] [shapes=2048x2048] [peer=off]`
#![expect(clippy::print_stdout, reason = "a benchmark's result")]

#[path = "matmul/peer.rs"]
mod peer;

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use tribunal::model::cpu::peak::{Memory, Peak};
use tribunal::model::cpu::{Activations, Format, Packed, Tier};

/// How long one cell is measured; the least of its times counts, since the machine may be shared.
const CELL: Duration = Duration::from_millis(250);

/// At m = 1 as many copies of the matrix take turns as exceed any cache, in bytes: a model's layers do so too.
const COLD: usize = 160 << 20;

struct Options {
    n_threads: usize,
    formats: Vec<Format>,
    m: Vec<usize>,
    shapes: Vec<(usize, usize)>,
    modes: Vec<Activations>,
    tier: Tier,
    peer: bool,
}

/// Operations (bytes) per second of all threads.
struct Limits {
    int8: Option<f64>,
    bf16: Option<f64>,
    f32: Option<f64>,
    memory: f64,
}

fn main() {
    let options = Options::read();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.n_threads).build().expect("a thread pool");
    pool.install(|| {
        let limits = limits(options.n_threads);
        let giga = |limit: Option<f64>| limit.map_or("none".to_owned(), |limit| format!("{:.0}", limit / 1e9));
        println!(
            "{} thread(s), {:?}. Peaks: int8 {} GF/s, bf16 {} GF/s, f32 {} GF/s; memory {:.1} GB/s",
            options.n_threads,
            options.tier,
            giga(limits.int8),
            giga(limits.bf16),
            giga(limits.f32),
            limits.memory / 1e9
        );
        println!("cell: GF/s (fraction of the format's peak), for m = 1 also the fraction of memory bandwidth, [candle's GF/s]\n");
        for &(n, k) in &options.shapes {
            for &mode in &options.modes {
                shape(&options, &limits, (n, k), mode);
            }
        }
    });
}

fn shape(options: &Options, limits: &Limits, (n, k): (usize, usize), mode: Activations) {
    print!("{:<16}", format!("{n}x{k} {mode:?}"));
    options.m.iter().for_each(|m| print!("{:>28}", format!("m={m}")));
    println!();
    for &format in options.formats.iter().filter(|format| k.is_multiple_of(format.block())) {
        let blocks = random_blocks(format, n, k);
        let pack = || Packed::pack(format, n, k, &blocks).expect("whole blocks");
        let packed: Vec<Packed> = (0..COLD.div_ceil(blocks.len())).map(|_| pack()).collect();
        let candle = options.peer.then(|| peer::Layer::new(format, n, k, &blocks)).flatten();
        print!("{:<16}", format!("{format:?}"));
        for &m in &options.m {
            let x: Vec<f32> = (0..m * k).map(|i| ((i * 7919) % 255) as f32 / 127.0 - 1.0).collect();
            let mut out = vec![0.0; m * n];
            let mut layers = packed.iter().take(if m == 1 { usize::MAX } else { 1 }).cycle();
            let time = least(CELL, || {
                let layer = layers.next().expect("there is a copy");
                layer.matmul(&x, m, black_box(&mut out), mode, options.tier);
            });
            let speed = 2.0 * (m * n * k) as f64 / time;
            let peak = match (mode, format) {
                (Activations::Float, _) | (_, Format::F32 | Format::F16) => limits.f32,
                (_, Format::Bf16) => limits.bf16,
                _ => limits.int8,
            };
            let mut cell = format!("{:.0}", speed / 1e9);
            if let Some(peak) = peak {
                write!(cell, " ({:.2})", speed / peak).expect("a string takes all that is written");
            }
            if m == 1 {
                write!(cell, " {:.2} bw", packed[0].bytes() as f64 / time / limits.memory)
                    .expect("a string takes all that is written");
            }
            if let Some(layer) = &candle {
                let time = least(CELL, || layer.forward(&x, m));
                write!(cell, " [{:.0}]", 2.0 * (m * n * k) as f64 / time / 1e9)
                    .expect("a string takes all that is written");
            }
            print!("{cell:>28}");
        }
        println!();
    }
    println!();
}

fn limits(n_threads: usize) -> Limits {
    let operations = |peak: Peak| {
        const ROUNDS: usize = 100_000;
        let done = peak.run(ROUNDS)? as f64;
        Some(
            n_threads as f64 * done
                / least(CELL, || {
                    on_all(n_threads, |_| {
                        black_box(peak.run(ROUNDS));
                    });
                }),
        )
    };
    let memory = Memory::new(256 << 20).expect("memory to read");
    let time = least(4 * CELL, || {
        on_all(n_threads, |i| {
            black_box(memory.read(i, n_threads));
        });
    });
    Limits {
        int8: operations(Peak::Int8),
        bf16: operations(Peak::Bf16),
        f32: operations(Peak::F32),
        memory: memory.bytes() as f64 / time,
    }
}

fn on_all(n_threads: usize, work: impl Fn(usize) + Sync + Send) {
    (0..n_threads).into_par_iter().with_max_len(1).for_each(work);
}

/// Seconds: the least over as many repeats as fit in `during`, at least three.
fn least(during: Duration, mut work: impl FnMut()) -> f64 {
    let (start, mut least, mut repeats) = (Instant::now(), f64::INFINITY, 0);
    while repeats < 3 || start.elapsed() < during {
        let begin = seconds(start);
        work();
        least = least.min(seconds(start) - begin);
        repeats += 1;
    }
    least
}

fn seconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64()
}

/// Blocks with plausible scales: every byte of an `f16` scale (and of the values, which do not matter to the
/// time) is 0x2c, so that a scale is 0.07.
fn random_blocks(format: Format, n: usize, k: usize) -> Vec<u8> {
    let mut bytes = vec![0x2c; n * format.row_bytes(k)];
    if format.block() == 1 {
        bytes.iter_mut().step_by(7).for_each(|byte| *byte = 0x2a);
    }
    bytes
}

impl Options {
    fn read() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let value = |name: &str| {
            arguments
                .iter()
                .find_map(|argument| argument.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
        };
        let numbers = |text: &str, separator: char| -> Vec<usize> {
            text.split(separator).map(|number| number.parse().expect("a number")).collect()
        };
        let names = value("formats").map(|names| names.to_lowercase());
        let formats = Format::ALL.into_iter().filter(|format| {
            let name = format!("{format:?}").to_lowercase();
            names.as_ref().is_none_or(|names| names.split(',').any(|wanted| wanted == name))
        });
        let shapes = value("shapes").unwrap_or_else(|| "2048x2048,1536x8960,4864x896,896x896".to_owned());
        Self {
            n_threads: value("threads").map_or(1, |n| n.parse().expect("a number of threads")),
            formats: formats.collect(),
            m: numbers(&value("m").unwrap_or_else(|| "1,8,64,512".to_owned()), ','),
            shapes: shapes.split(',').map(|shape| numbers(shape, 'x')).map(|nk| (nk[0], nk[1])).collect(),
            modes: match value("mode").as_deref() {
                Some("float") => vec![Activations::Float],
                Some("both") => vec![Activations::Q8, Activations::Float],
                _ => vec![Activations::Q8],
            },
            tier: match value("tier").as_deref() {
                Some("avx2") => Tier::Avx2,
                Some("portable") => Tier::Portable,
                _ => Tier::detect(),
            },
            peer: value("peer").as_deref() != Some("off"),
        }
    }
}
