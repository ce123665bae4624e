//! Products of packed weights against the limits of the machine, both measured in this run, and against
//! candle's own. Values are checked by the tests, not here.
//!
//! `cargo bench -p tribunal-bench --bench matmul -- [threads=1] [formats=q8_0,q4k] [m=1,8,64,512]
//! [shapes=2048x2048] [peer=off]`
#![expect(clippy::print_stdout, reason = "a benchmark's result")]

#[path = "matmul/peer.rs"]
mod peer;

use std::time::Duration;

use tribunal_bench::machine::{self, Limits, least};
use tribunal_bench::ops::{self, Product};
use tribunal_cpu::{Activations, Isa};
use tribunal_model::weights::Format;

/// Time for which one cell is measured; the least of its times counts, since the machine may be shared.
const CELL: Duration = Duration::from_millis(250);

struct Options {
    n_threads: usize,
    formats: Vec<Format>,
    m: Vec<usize>,
    shapes: Vec<(usize, usize)>,
    modes: Vec<Activations>,
    tier: Isa,
    peer: bool,
}

fn main() {
    let options = Options::read();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.n_threads).build().expect("a thread pool");
    pool.install(|| {
        let limits = machine::limits(options.tier, CELL).expect("memory to read");
        println!(
            "{} thread(s), {}. Peaks: int8 {:.0} GF/s, bf16 {:.0} GF/s, f32 {:.0} GF/s; memory {:.1} GB/s",
            options.n_threads,
            options.tier.name(),
            limits.int8 / 1e9,
            limits.bf16 / 1e9,
            limits.f32 / 1e9,
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

fn shape(options: &Options, limits: &Limits, (n, k): (usize, usize), activations: Activations) {
    print!("{:<16}", format!("{n}x{k} {activations:?}"));
    options.m.iter().for_each(|m| print!("{:>28}", format!("m={m}")));
    println!();
    for &format in options.formats.iter().filter(|format| k.is_multiple_of(format.block())) {
        let product = Product { format, n, k, activations, tier: options.tier, cached: false };
        let candle =
            options.peer.then(|| peer::Layer::new(format, n, k, &ops::blocks(format, n, k))).flatten();
        print!("{:<16}", format!("{format:?}"));
        for cell in ops::product(product, &options.m, limits, CELL) {
            let memory = if cell.m == 1 { format!(" {:.2} bw", cell.of_memory) } else { String::new() };
            let peer = candle.as_ref().map_or(String::new(), |layer| {
                let x = ops::inputs(cell.m, k);
                let time = least(CELL, || layer.forward(&x, cell.m));
                format!(" [{:.0}]", 2.0 * (cell.m * n * k) as f64 / time / 1e9)
            });
            let text = format!("{:.0} ({:.2}){memory}{peer}", cell.speed / 1e9, cell.of_peak);
            print!("{text:>28}");
        }
        println!();
    }
    println!();
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
                Some(name) => Isa::named(name).expect("a tier of this machine"),
                None => Isa::detect(),
            },
            peer: value("peer").as_deref() != Some("off"),
        }
    }
}
