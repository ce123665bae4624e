//! Images of the kernels: machine code of several generations of GPUs, and PTX for later ones. The driver of
//! a GPU decides which of them it loads; nothing is loaded here.

use super::Error;

/// Kernels of one target, by its name as the compiler has it: `sm_90a`, `compute_90`.
pub(super) type Image = (&'static str, &'static [u8]);

/// The images of each file of `kernels/*.cu`, by its name.
pub(super) const IMAGES: &[(&str, &[Image])] = include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// Aligned, since the driver reads the ELF file in place.
#[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "the list is empty"))]
#[repr(align(64))]
struct Aligned<T>(T);

/// The first version of the driver's interface that loads machine code of CUDA 12, as the driver counts:
/// 12.2.
const MACHINE_CODE: i32 = 12_020;
/// The first one with Blackwell.
const BLACKWELL: i32 = 12_080;
/// A driver rejects PTX of a compiler newer than itself (`scripts/cuda/toolkit.sh`).
const PTX: i32 = 12_090;

/// The images for a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub name: &'static str,
    /// The first version of the driver's interface that loads them.
    pub driver: i32,
}

impl Target {
    /// The target among these for a GPU of this compute capability: machine code for the latest generation
    /// that it runs, else PTX. `None` where the binary has neither.
    pub(super) fn choose(
        names: impl Iterator<Item = &'static str>,
        (major, minor): (i32, i32),
    ) -> Option<Self> {
        // Code of one minor capability runs on the later ones of the same major, but `sm_90a` on 9.0 alone.
        let rank = |name: &'static str| {
            let (is_code, version) = match name.strip_prefix("sm_") {
                Some(version) => (true, version),
                None => (false, name.strip_prefix("compute_")?),
            };
            let (exact, version) = match version.strip_suffix('a') {
                Some(version) => (true, version),
                None => (false, version),
            };
            let version: i32 = version.parse().ok()?;
            let gpu = 10 * major + minor;
            let runs = match (is_code, exact) {
                (_, true) => version == gpu,
                (true, false) => version / 10 == major && version <= gpu,
                (false, false) => version <= gpu,
            };
            runs.then_some((is_code, version, name))
        };
        let (is_code, version, name) = names.filter_map(rank).max()?;
        let driver = match version {
            _ if !is_code => PTX,
            100.. => BLACKWELL,
            _ => MACHINE_CODE,
        };
        Some(Self { name, driver })
    }

    /// The target of this binary for a GPU, whose driver has this version.
    ///
    /// # Errors
    /// The binary has no kernels for it, or the driver loads none of them.
    pub(super) fn of_gpu(name: &str, capability: (i32, i32), driver: i32) -> Result<Self, Error> {
        let names = IMAGES.first().map_or(&[][..], |(_, images)| images).iter().map(|&(name, _)| name);
        let target = Self::choose(names, capability).ok_or_else(|| Error::NoKernels {
            name: name.to_owned(),
            major: capability.0,
            minor: capability.1,
        })?;
        target.check_driver(driver, Some(name)).map(|()| target)
    }

    fn check_driver(self, version: i32, gpu: Option<&str>) -> Result<(), Error> {
        let gpu = gpu.filter(|_| self.driver > MACHINE_CODE).map(str::to_owned);
        let needed = self.driver;
        if version < needed { Err(Error::OldDriver { version, needed, gpu }) } else { Ok(()) }
    }
}

/// Rejects drivers that load no image for any GPU.
///
/// # Errors
/// The version is below 12.2.
pub(super) fn check_driver(version: i32) -> Result<(), Error> {
    Target { name: "", driver: MACHINE_CODE }.check_driver(version, None)
}

/// The first driver's release with a version of the interface.
pub(super) fn release(driver: i32) -> u32 {
    match driver {
        PTX.. => 575,
        BLACKWELL.. => 570,
        _ => 535,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 7] = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120", "compute_90"];
    /// Those of a wheel.
    const WHEEL: [&str; 3] = ["sm_80", "sm_90a", "compute_90"];

    #[test]
    fn a_gpu_gets_the_machine_code_of_its_generation_else_ptx() {
        let choose = |names: &[&'static str], capability| {
            Target::choose(names.iter().copied(), capability).map(|target| (target.name, target.driver))
        };
        for (capability, of_all, of_wheel) in [
            ((8, 0), Some(("sm_80", 12_020)), Some(("sm_80", 12_020))),
            ((8, 6), Some(("sm_86", 12_020)), Some(("sm_80", 12_020))),
            ((8, 7), Some(("sm_86", 12_020)), Some(("sm_80", 12_020))),
            ((8, 9), Some(("sm_89", 12_020)), Some(("sm_80", 12_020))),
            ((9, 0), Some(("sm_90a", 12_020)), Some(("sm_90a", 12_020))),
            ((10, 0), Some(("sm_100", 12_080)), Some(("compute_90", 12_090))),
            ((10, 3), Some(("sm_100", 12_080)), Some(("compute_90", 12_090))),
            ((11, 0), Some(("compute_90", 12_090)), Some(("compute_90", 12_090))),
            ((12, 0), Some(("sm_120", 12_080)), Some(("compute_90", 12_090))),
            ((12, 1), Some(("sm_120", 12_080)), Some(("compute_90", 12_090))),
            ((7, 5), None, None),
        ] {
            assert_eq!(choose(&ALL, capability), of_all, "{capability:?}");
            assert_eq!(choose(&WHEEL, capability), of_wheel, "{capability:?}");
        }
        assert_eq!(choose(&["sm_90a", "compute_90"], (8, 0)), None);
    }

    #[test]
    fn a_driver_below_the_floor_is_refused_with_both_versions() {
        assert!(check_driver(12_020).is_ok());
        assert_eq!(
            check_driver(12_010).unwrap_err().to_string(),
            "the driver supports CUDA 12.1, and this binary needs 12.2; hint: install a driver of version 535 or later"
        );
        let refused = |names: &[&'static str], driver| {
            let target = Target::choose(names.iter().copied(), (10, 0)).unwrap();
            target.check_driver(driver, Some("NVIDIA B200")).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&ALL, 12_080), None);
        assert_eq!(
            refused(&ALL, 12_040).unwrap(),
            "the driver supports CUDA 12.4, and this binary needs 12.8 on `NVIDIA B200`; hint: install a driver of \
             version 570 or later"
        );
        assert_eq!(
            refused(&WHEEL, 12_080).unwrap(),
            "the driver supports CUDA 12.8, and this binary needs 12.9 on `NVIDIA B200`; hint: install a driver of \
             version 575 or later"
        );
    }
}
