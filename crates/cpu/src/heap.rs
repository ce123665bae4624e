//! Settings of the system's allocator. It allocates nothing.

/// The largest buffer that comes from the heap: the most that glibc takes, and more than a step's largest.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGEST: i32 = 32 << 20;

/// Lets the process keep freed buffers for the next layer instead of giving them back to the system. Every
/// layer of every step needs the same few buffers; fresh pages would cost a fault and a clearing for each 4
/// KiB, on one thread, while the others wait. To be called before other threads are started; it does nothing
/// except on Linux with glibc.
pub fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in
        [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, LARGEST), (libc::M_TRIM_THRESHOLD, i32::MAX)]
    {
        // SAFETY: it sets a number of the allocator and has no other effect; a failure changes nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}
