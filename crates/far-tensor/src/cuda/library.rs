//! The libraries a GPU needs, found at run time: the driver, NVRTC and cuBLASLt.
//!
//! The loader beneath panics where a library is missing, so each is looked for first; what is missing
//! or too old is said in words, with the version that was found.

use crate::{Error, Result};
use cudarc::{cublaslt, driver, nvrtc};
use std::fmt;

/// The oldest CUDA whose driver and compiler are known to do: it knows Hopper.
const OLDEST_CUDA: i32 = 12_000;

/// The versions of the libraries found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    /// What the driver supports: 1000·major + 10·minor.
    pub driver: i32,
    /// The compiler's version: major and minor.
    pub compiler: [i32; 2],
    /// cuBLASLt's version, major·10000 + minor·100 + patch.
    pub products: usize,
}

impl fmt::Display for Versions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor] = self.compiler;
        let driver = spoken(self.driver);
        write!(formatter, "driver for CUDA {driver}, NVRTC {major}.{minor}, cuBLASLt ")?;
        let products = self.products;
        write!(formatter, "{}.{}.{}", products / 10_000, products / 100 % 100, products % 100)
    }
}

fn spoken(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

pub(super) fn unusable(problem: impl Into<String>, remedy: &'static str) -> Error {
    Error::NoCuda { problem: problem.into(), remedy }
}

/// Finds all three libraries and starts the driver.
pub(super) fn find() -> Result<Versions> {
    const TOOLKIT: &str = "install the CUDA toolkit, or put the folder with its libraries into \
                           LD_LIBRARY_PATH; --device cpu needs none";
    const DRIVER: &str = "install NVIDIA's driver, or use --device cpu";
    // SAFETY: looking for a library opens and closes it; NVIDIA's run no code of note on loading.
    let [has_driver, has_compiler, has_products] = unsafe {
        [
            driver::sys::is_culib_present(),
            nvrtc::sys::is_culib_present(),
            cublaslt::sys::is_culib_present(),
        ]
    };
    if !has_driver {
        return Err(unusable("the driver library (libcuda) was not found", DRIVER));
    }
    if !has_compiler {
        return Err(unusable("the run-time compiler (libnvrtc) was not found", TOOLKIT));
    }
    if !has_products {
        return Err(unusable("the matrix library (libcublasLt) was not found", TOOLKIT));
    }
    driver::result::init()
        .map_err(|error| unusable(format!("the driver does not start: {error}"), DRIVER))?;
    let (mut version, mut compiler) = (0, [0; 2]);
    // SAFETY: each call writes to the integers given, and the libraries are there.
    let products = unsafe {
        let asked = driver::sys::cuDriverGetVersion(&mut version).result();
        asked.map_err(|error| unusable(format!("the driver has no version: {error}"), DRIVER))?;
        let [major, minor] = &mut compiler;
        let asked = nvrtc::sys::nvrtcVersion(major, minor).result();
        asked.map_err(|error| unusable(format!("NVRTC has no version: {error}"), TOOLKIT))?;
        cublaslt::sys::cublasLtGetVersion()
    };
    let versions = Versions { driver: version, compiler, products };
    versions.check()?;
    Ok(versions)
}

impl Versions {
    /// Whether these do, and do together.
    fn check(&self) -> Result<()> {
        let oldest = spoken(OLDEST_CUDA);
        if self.driver < OLDEST_CUDA {
            let problem = format!("CUDA {oldest} or newer is needed; found: {self}");
            return Err(unusable(problem, "update NVIDIA's driver, or use --device cpu"));
        }
        let [major, minor] = self.compiler;
        if 1000 * major + 10 * minor < OLDEST_CUDA {
            let problem = format!("NVRTC {oldest} or newer is needed; found: {self}");
            return Err(unusable(problem, "update the CUDA toolkit, or use --device cpu"));
        }
        if self.driver / 1000 < major {
            let problem =
                format!("the driver is older than the compiler's CUDA {major}; found: {self}");
            return Err(unusable(problem, "update NVIDIA's driver, or use an older toolkit"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_or_unmatched_versions_are_named() {
        let good = Versions { driver: 13_000, compiler: [13, 0], products: 130_002 };
        assert!(good.check().is_ok());
        assert_eq!(good.to_string(), "driver for CUDA 13.0, NVRTC 13.0, cuBLASLt 13.0.2");
        let problem = |versions: Versions| versions.check().unwrap_err().to_string();
        let old = problem(Versions { driver: 11_080, ..good });
        assert!(old.contains("12.0 or newer") && old.contains("driver for CUDA 11.8"), "{old}");
        let compiler = problem(Versions { compiler: [11, 4], ..good });
        assert!(compiler.contains("NVRTC 12.0 or newer"), "{compiler}");
        let unmatched = problem(Versions { driver: 12_040, ..good });
        assert!(unmatched.contains("older than the compiler's CUDA 13"), "{unmatched}");
    }
}
