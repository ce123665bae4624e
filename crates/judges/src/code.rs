//! What the presets `code` of several methods share. They follow the authors' published programs to the letter, faults
//! included, as evidence of what the papers' figures rest on; nobody needs to read them to follow a method. Each judge
//! keeps its own in `NAME/code.rs`.

pub mod gemba_api;

pub mod python;
