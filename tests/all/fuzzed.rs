//! Bounded runs of the fuzz targets in `fuzz/`: the seeds, with pseudorandom mutations that are the same each
//! time. Nothing may panic, hang or allocate memory without bound; `scripts/fuzz.sh` takes longer, and
//! `cargo fuzz` searches further.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use tribunal::random::SplitMix;

#[path = "../../fuzz/src/lib.rs"]
mod targets;

/// Mutations of each seed in this run. `TRIBUNAL_FUZZ` overrides it with a number for each target.
const MUTATIONS: usize = 400;

/// Bytes that formats give a meaning to.
const TELLING: &[&[u8]] = &[
    b"\0",
    b"\xff\xff\xff\xff",
    b"{",
    b"}",
    b"\"",
    b"null",
    b"-1",
    b"1e999",
    b"\n",
    b"\t",
    b"{{",
    b"%}",
    b"\xc3",
    b"99999999999999999999",
    b"\n#SBATCH --x",
    b"|format(9)",
    b"~s",
];

/// A few changes at random places.
fn mutated(seed: &[u8], random: &mut SplitMix) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] = random.draw() as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at),
            3 => {
                let telling = TELLING[random.below(TELLING.len())];
                bytes.splice(at..at, telling.iter().copied());
            }
            _ => {
                let end = (at + random.below(64)).min(bytes.len());
                let part = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

/// Runs a target over its seeds and their mutations, one in `of` where each takes long.
fn check(name: &str, target: fn(&[u8]), of: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let mut seeds: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{name} has no seeds");
    let all: Option<usize> = std::env::var("TRIBUNAL_FUZZ").ok().map(|n| n.parse().unwrap());
    let (start, mut slowest) = (Instant::now(), Duration::ZERO);
    for seed in &seeds {
        let bytes = fs::read(seed).unwrap();
        target(&bytes);
        let mut random = SplitMix(1);
        for _ in 0..all.map_or(MUTATIONS / of, |all| all.div_ceil(seeds.len())) {
            let (bytes, before) = (mutated(&bytes, &mut random), Instant::now());
            target(&bytes);
            slowest = slowest.max(before.elapsed());
        }
    }
    assert!(slowest.as_secs() < 60, "{name}: one input took {slowest:.0?} of {:.0?}", start.elapsed());
}

#[test]
fn gguf() {
    check("gguf", targets::gguf, 1);
}

#[test]
fn safetensors() {
    check("safetensors", targets::safetensors, 1);
}

#[test]
fn tokenizer() {
    check("tokenizer", targets::tokenizer, 4);
}

#[test]
fn normalizer() {
    check("normalizer", targets::normalizer, 4);
}

#[test]
fn fit() {
    check("fit", targets::fit, 1);
}

#[test]
fn adapter() {
    check("adapter", targets::adapter, 1);
}

#[test]
fn slurm() {
    check("slurm", targets::slurm, 4);
}

#[test]
fn config() {
    check("config", targets::config, 1);
}

#[test]
fn chat_template() {
    check("chat_template", targets::chat_template, 2);
}

#[test]
fn schema() {
    check("schema", targets::schema, 2);
}

#[test]
fn method() {
    check("method", targets::method, 2);
}

#[test]
fn segments() {
    check("segments", targets::segments, 8);
}

#[test]
fn testset() {
    check("testset", targets::testset, 2);
}

#[test]
fn layout() {
    check("layout", targets::layout, 4);
}

#[test]
fn journal() {
    check("journal", targets::journal, 1);
}

#[test]
fn answers() {
    check("answers", targets::answers, 40);
}

#[test]
fn folder() {
    check("folder", targets::folder, 4);
}
