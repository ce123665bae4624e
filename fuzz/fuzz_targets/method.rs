//! `cargo fuzz run method`: see the target of this name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tribunal_fuzz::method(bytes));
