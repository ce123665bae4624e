//! `cargo fuzz run slurm`: see the target of this name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tribunal_fuzz::slurm(bytes));
