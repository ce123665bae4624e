//! Shared parts of the presets `code`. They reproduce the authors' published programs to the letter, faults
//! included, as evidence for the papers' figures; a method can be understood without them. The parts of a
//! single judge are in `NAME/code.rs`.

pub mod gemba_api;
