//! The decoder and its kernels.

pub mod cpu;
