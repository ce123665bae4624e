//! The default number of threads: one for each physical performance core. A second thread of a core competes
//! for the same units, and a parallel region ends with its slowest thread. It starts no thread.

use std::{collections::BTreeSet, fs, path::Path};

/// Physical performance cores that this process may run on; where the system does not report them (Linux and
/// macOS do), the available parallelism.
pub fn n_threads() -> usize {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    #[cfg(target_os = "macos")]
    if let Some(fast) = fast_on_macos() {
        return fast.clamp(1, available);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    allowed.map_or(available, |allowed| {
        physical(Path::new("/sys/devices"), &numbers(allowed)).clamp(1, available)
    })
}

/// Physical cores among some logical ones; without slow ones, unless there are no others.
fn physical(devices: &Path, allowed: &BTreeSet<usize>) -> usize {
    let read = |file: String| fs::read_to_string(devices.join(file)).ok().map(|text| numbers(&text));
    // Only machines with two kinds of cores have this file.
    let fast = read("cpu_core/cpus".into()).unwrap_or_else(|| strong(devices, allowed));
    let fast = Some(&fast & allowed).filter(|fast| !fast.is_empty());
    let core = |&cpu: &usize| {
        let siblings = read(format!("system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        siblings.and_then(|siblings| siblings.first().copied()).unwrap_or(cpu)
    };
    fast.as_ref().unwrap_or(allowed).iter().map(core).collect::<BTreeSet<_>>().len()
}

/// Of ARM's cores, those with at least half the capacity of the strongest; all where no capacity is reported.
fn strong(devices: &Path, allowed: &BTreeSet<usize>) -> BTreeSet<usize> {
    let capacity = |&cpu: &usize| -> usize {
        let file = devices.join(format!("system/cpu/cpu{cpu}/cpu_capacity"));
        fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    let most = allowed.iter().map(capacity).max().unwrap_or(0);
    allowed.iter().copied().filter(|cpu| 2 * capacity(cpu) >= most).collect()
}

/// Physical cores of the fastest kind.
#[cfg(target_os = "macos")]
fn fast_on_macos() -> Option<usize> {
    let (mut n, mut size) = (0_i32, size_of::<i32>());
    let name = c"hw.perflevel0.physicalcpu".as_ptr();
    // SAFETY: the system writes at most `size` bytes to `n`.
    let status =
        unsafe { libc::sysctlbyname(name, (&raw mut n).cast(), &raw mut size, std::ptr::null_mut(), 0) };
    usize::try_from(n).ok().filter(|&n| status == 0 && n > 0)
}

/// Numbers as the kernel lists them: `0-3,8`.
fn numbers(list: &str) -> BTreeSet<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], allowed: &str, expected: usize) {
        let devices = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let file = devices.path().join(name);
            fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
        assert_eq!(physical(devices.path(), &numbers(allowed)), expected, "{files:?}, {allowed}");
    }

    #[test]
    fn second_threads_and_efficiency_cores_are_left_out() {
        let siblings = |cpu: usize, list: &'static str| {
            (format!("system/cpu/cpu{cpu}/topology/thread_siblings_list"), list)
        };
        let files = [siblings(0, "0-1\n"), siblings(1, "0-1\n"), siblings(2, "2,3\n"), siblings(3, "2,3\n")];
        let mut files: Vec<(&str, &str)> = files.iter().map(|(name, list)| (name.as_str(), *list)).collect();
        check(&files, "\t0-3\n", 2);
        check(&files, "0-2", 2);
        check(&files, "1", 1);
        check(&[], "0-4,9", 6);
        files.push(("cpu_core/cpus", "0-3\n"));
        check(&files, "0-7", 2);
        check(&files, "4-7", 4);
    }

    #[test]
    fn weak_cores_of_arm_are_left_out() {
        let capacity = |cpu: usize| format!("system/cpu/cpu{cpu}/cpu_capacity");
        let names: Vec<String> = (0..4).map(capacity).collect();
        let files: Vec<(&str, &str)> =
            names.iter().map(String::as_str).zip(["1024\n", "870\n", "260\n", "260\n"]).collect();
        check(&files, "0-3", 2);
        check(&files, "2-3", 2);
    }

    #[test]
    fn this_machine_has_a_thread() {
        assert!(n_threads() >= 1);
    }
}
