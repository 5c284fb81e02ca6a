//! Kernels as programs: sources in this crate, compiled for the GPU at hand and cached on disk.
//!
//! A cache file is named by the source, the architecture and the compiler's version, all hashed: a
//! change in any of them compiles anew. A file that does not load is compiled anew too.

use super::context::Context;
use super::kernel::Kernel;
use super::library::Versions;
use crate::{Error, Result};
use cudarc::nvrtc::{result, sys};
use std::collections::hash_map::DefaultHasher;
use std::ffi::{CStr, CString};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What every source begins with.
const PRELUDE: &str = include_str!("kernels/prelude.cuh");

/// One source file of kernels.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its name without the ending.
    pub name: &'static str,
    /// Its parts in order, behind what all share.
    pub sources: &'static [&'static str],
}

impl Program {
    /// One of its kernels.
    pub(crate) fn kernel(&'static self, name: &'static str) -> Kernel {
        Kernel { program: self, name }
    }
}

/// Declares programs by their files.
macro_rules! programs {
    ($($(#[$comment:meta])* $constant:ident = $name:literal: $($file:literal),+;)+) => {
        $(
            $(#[$comment])*
            pub(crate) const $constant: Program = Program {
                name: $name,
                sources: &[$(
                    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cuda/kernels/", $file))
                ),+],
            };
        )+
    };
}
pub(crate) use programs;

/// The machine language of a program for a GPU: from the cache, or compiled and put there.
pub(super) fn image(program: &Program, context: &Context, versions: &Versions) -> Result<Vec<u8>> {
    let architecture = architecture(context.capability);
    let place =
        cache_folder().map(|folder| folder.join(file_name(program, &architecture, versions)));
    if let Some(image) = place.as_ref().and_then(|place| std::fs::read(place).ok()) {
        return Ok(image);
    }
    let image = compile(program, &architecture)?;
    if let Some(place) = place {
        // Without a cache everything works, only the next start is slower.
        let _ = store(&place, &image);
    }
    Ok(image)
}

/// Forgets a cached program that does not load.
pub(super) fn forget(program: &Program, context: &Context, versions: &Versions) {
    let name = file_name(program, &architecture(context.capability), versions);
    if let Some(folder) = cache_folder() {
        let _ = std::fs::remove_file(folder.join(name));
    }
}

/// The compiler's name of an architecture; from Hopper on with the features of that chip alone.
fn architecture([major, minor]: [i32; 2]) -> String {
    let own = if major >= 9 { "a" } else { "" };
    format!("sm_{major}{minor}{own}")
}

fn file_name(program: &Program, architecture: &str, versions: &Versions) -> String {
    let mut hasher = DefaultHasher::new();
    (PRELUDE, program.sources, versions.compiler).hash(&mut hasher);
    format!("{}-{architecture}-{:016x}.cubin", program.name, hasher.finish())
}

/// Where compiled kernels are kept: FAR_CACHE, or the user's folder for caches.
fn cache_folder() -> Option<PathBuf> {
    let of =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = of("FAR_CACHE")
        .or_else(|| of("XDG_CACHE_HOME").map(|folder| folder.join("far")))
        .or_else(|| of("HOME").map(|folder| folder.join(".cache/far")))?;
    Some(base.join("kernels"))
}

/// Writes a file whole or not at all.
fn store(place: &Path, image: &[u8]) -> std::io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let folder = place.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let beside = place.with_extension(format!("{}-{number}.part", std::process::id()));
    std::fs::write(&beside, image)?;
    std::fs::rename(&beside, place)
}

fn compile(program: &Program, architecture: &str) -> Result<Vec<u8>> {
    let mut source = PRELUDE.to_owned();
    program.sources.iter().for_each(|part| source.push_str(part));
    let source = CString::new(source).expect("kernels are text without zeros");
    let name = CString::new(format!("{}.cu", program.name)).expect("names are text");
    let failed = |reason: String| Error::Cuda { action: "compiling a kernel", reason };
    let handle = result::create_program(&source, Some(&name))
        .map_err(|error| failed(format!("{}: {error:?}", program.name)))?;
    let options = [format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned()];
    // SAFETY: the program was just created, and is destroyed once, at the end.
    unsafe {
        let compiled = result::compile_program(handle, &options);
        let image = match compiled {
            Ok(()) => {
                binary(handle).map_err(|error| failed(format!("{}: {error:?}", program.name)))
            }
            Err(error) => {
                let log = result::get_program_log(handle).unwrap_or_default();
                let log = CStr::from_ptr(if log.is_empty() { c"".as_ptr() } else { log.as_ptr() });
                let log = log.to_string_lossy();
                Err(failed(format!("{} for {architecture}: {error:?}\n{log}", program.name)))
            }
        };
        let _ = result::destroy_program(handle);
        image
    }
}

/// # Safety
/// The program was compiled and not destroyed.
unsafe fn binary(handle: sys::nvrtcProgram) -> std::result::Result<Vec<u8>, result::NvrtcError> {
    let mut size = 0;
    // SAFETY: the program is compiled, and the buffer has the size that was asked for.
    unsafe {
        sys::nvrtcGetCUBINSize(handle, &mut size).result()?;
        let mut image = vec![0_u8; size];
        sys::nvrtcGetCUBIN(handle, image.as_mut_ptr().cast()).result()?;
        Ok(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_file_is_named_by_all_that_it_depends_on() {
        let versions = Versions { driver: 13_000, compiler: [13, 0], products: 130_000 };
        let program = Program { name: "toy", sources: &["a"] };
        let name = file_name(&program, "sm_90a", &versions);
        assert!(name.starts_with("toy-sm_90a-") && name.ends_with(".cubin"), "{name}");
        let other = Program { name: "toy", sources: &["b"] };
        assert_ne!(name, file_name(&other, "sm_90a", &versions));
        assert_ne!(name, file_name(&program, "sm_80", &versions));
        let newer = Versions { compiler: [13, 1], ..versions };
        assert_ne!(name, file_name(&program, "sm_90a", &newer));
    }

    #[test]
    fn hopper_is_compiled_for_as_itself() {
        assert_eq!(architecture([9, 0]), "sm_90a");
        assert_eq!(architecture([8, 6]), "sm_86");
        assert_eq!(architecture([12, 0]), "sm_120a");
    }
}
