//! Kernels by name, and how they are launched.

use super::Cuda;
use super::context::failed;
use super::memory::Element;
use super::program::{self, Program};
use super::tensor_map::TensorMap;
use crate::Result;
use cudarc::driver::{result, sys};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

/// The most arguments a kernel has.
const MOST_ARGUMENTS: usize = 40;
/// Shared memory that a block may have without asking.
const PLAIN_SHARED: usize = 48 * 1024;

/// A kernel: its program and its name without the ending that says the element type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub program: &'static Program,
    pub name: &'static str,
}

/// How many threads run a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// Blocks along x, y and z.
    pub grid: [usize; 3],
    /// Threads of a block.
    pub threads: usize,
    /// Bytes of dynamic shared memory of a block.
    pub shared: usize,
}

impl Launch {
    /// One thread for each of `count` elements, in blocks of 256.
    pub(crate) fn elements(count: usize) -> Self {
        Self::blocks(count.div_ceil(256), 256)
    }

    /// `blocks` blocks of `threads` threads.
    pub(crate) fn blocks(blocks: usize, threads: usize) -> Self {
        Self { grid: [blocks.max(1), 1, 1], threads, shared: 0 }
    }
}

/// One argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument<'a> {
    /// An address on the GPU, or null.
    Pointer(u64),
    /// `int`.
    Int(i32),
    /// `i64`.
    Long(i64),
    /// `float`.
    Float(f32),
    /// A description of a tensor, by value.
    Map(&'a TensorMap),
}

impl<'a> From<&'a TensorMap> for Argument<'a> {
    fn from(map: &'a TensorMap) -> Self {
        Self::Map(map)
    }
}

macro_rules! argument_from {
    ($($kind:ty => $variant:ident),+) => {
        $(impl From<$kind> for Argument<'_> {
            fn from(value: $kind) -> Self {
                Self::$variant(value)
            }
        })+
    };
}
argument_from!(u64 => Pointer, i32 => Int, i64 => Long, f32 => Float);

impl From<usize> for Argument<'_> {
    /// Sizes are 64 bits wide in kernels.
    fn from(value: usize) -> Self {
        Self::Long(value as i64)
    }
}

impl From<bool> for Argument<'_> {
    fn from(value: bool) -> Self {
        Self::Int(value.into())
    }
}

/// The arguments of a launch: addresses as `u64`, sizes as `usize` (`i64` in the kernel), `i32`,
/// `f32`, and `bool` (`int` in the kernel).
macro_rules! arguments {
    ($($value:expr),* $(,)?) => { &[$($crate::cuda::Argument::from($value)),*] };
}
pub(crate) use arguments;

/// The arguments of a launch in groups: each is an array of values of one kind.
macro_rules! argument_groups {
    ($($group:expr),* $(,)?) => {
        [$(&$group.map($crate::cuda::Argument::from)[..]),*].concat()
    };
}
pub(crate) use argument_groups;

#[derive(Clone, Copy)]
struct Function(sys::CUfunction);

// SAFETY: a function belongs to its context, not to a thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// The programs that are loaded, and their functions.
#[derive(Default)]
pub(super) struct Kernels {
    functions: RwLock<HashMap<(&'static str, Option<Element>), Function>>,
    modules: Mutex<HashMap<&'static str, usize>>,
}

impl Cuda {
    /// Launches the version of a kernel for an element type, called `name_f32` or `name_bf16`.
    ///
    /// # Errors
    /// If the kernel does not compile or the GPU refuses.
    pub(crate) fn launch(
        &self,
        kernel: Kernel,
        element: Element,
        launch: Launch,
        arguments: &[Argument<'_>],
    ) -> Result<()> {
        self.launch_function(kernel, Some(element), launch, arguments)
    }

    /// Launches a kernel that has one version, by its whole name.
    ///
    /// # Errors
    /// As [`Cuda::launch`].
    pub(crate) fn launch_plain(
        &self,
        kernel: Kernel,
        launch: Launch,
        arguments: &[Argument<'_>],
    ) -> Result<()> {
        self.launch_function(kernel, None, launch, arguments)
    }

    fn launch_function(
        &self,
        kernel: Kernel,
        element: Option<Element>,
        launch: Launch,
        arguments: &[Argument<'_>],
    ) -> Result<()> {
        self.context().bind()?;
        let function = self.function(kernel, element)?;
        let mut values = [0_u64; MOST_ARGUMENTS];
        let mut places = [std::ptr::null_mut::<c_void>(); MOST_ARGUMENTS];
        // The driver reads as many bytes of each as the kernel declares; little-endian machines
        // have them first.
        for ((place, value), argument) in places.iter_mut().zip(&mut values).zip(arguments) {
            *value = match *argument {
                Argument::Pointer(value) => value,
                Argument::Int(value) => u64::from(value as u32),
                Argument::Long(value) => value as u64,
                Argument::Float(value) => u64::from(value.to_bits()),
                Argument::Map(map) => {
                    *place = map.bytes();
                    continue;
                }
            };
            *place = std::ptr::from_mut(value).cast();
        }
        let [x, y, z] = launch.grid.map(|blocks| blocks as u32);
        let threads = launch.threads as u32;
        self.timed(kernel.name, || {
            // SAFETY: the function is loaded; callers pass the arguments that the kernel declares,
            // whose buffers live in the order of this stream.
            let launched = unsafe {
                result::launch_kernel(
                    function.0,
                    (x, y, z),
                    (threads, 1, 1),
                    launch.shared as u32,
                    self.context().stream(),
                    &mut places[..arguments.len()],
                )
            };
            launched.map_err(failed("launching a kernel"))
        })
    }

    /// Runs `work` on the stream; where times are recorded, waits for it and adds its time.
    pub(super) fn timed(
        &self,
        name: &'static str,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let Some(profile) = self.profile() else { return work() };
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
        let made = [result::event::create(flags), result::event::create(flags)];
        let [Ok(start), Ok(end)] = made else { return work() };
        let stream = self.context().stream();
        // SAFETY: events and stream are alive, and destroyed once.
        unsafe {
            result::event::record(start, stream).map_err(failed("timing a kernel"))?;
            work()?;
            result::event::record(end, stream).map_err(failed("timing a kernel"))?;
            result::event::synchronize(end).map_err(failed("timing a kernel"))?;
            let spent = result::event::elapsed(start, end).map_err(failed("timing a kernel"))?;
            profile.add(name, Duration::from_secs_f32(spent.max(0.0) / 1e3));
            let _ = (result::event::destroy(start), result::event::destroy(end));
        }
        Ok(())
    }

    fn function(&self, kernel: Kernel, element: Option<Element>) -> Result<Function> {
        let key = (kernel.name, element);
        let known = self.kernels.functions.read().expect("nobody panics while looking");
        if let Some(function) = known.get(&key) {
            return Ok(*function);
        }
        drop(known);
        let module = self.module(kernel.program)?;
        let name = match element {
            Some(element) => format!("{}_{}", kernel.name, element.suffix()),
            None => kernel.name.to_owned(),
        };
        let name = CString::new(name).expect("names are text");
        // SAFETY: the module is loaded and never unloaded.
        let function = unsafe { result::module::get_function(module as sys::CUmodule, name) };
        let function = function.map_err(failed("finding a kernel"))?;
        self.allow_shared(function)?;
        let function = Function(function);
        let mut known = self.kernels.functions.write().expect("nobody panics while looking");
        known.insert(key, function);
        Ok(function)
    }

    /// Lets a kernel ask for as much dynamic shared memory as the GPU has.
    fn allow_shared(&self, function: sys::CUfunction) -> Result<()> {
        use sys::CUfunction_attribute_enum as Of;
        // SAFETY: the function is loaded.
        unsafe {
            let of = Of::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
            let fixed = result::function::get_function_attribute(function, of);
            let fixed = fixed.map_err(failed("reading a kernel's size"))? as usize;
            let most = self.shared_limit.saturating_sub(fixed);
            if most > PLAIN_SHARED {
                let of = Of::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                let set = result::function::set_function_attribute(function, of, most as i32);
                set.map_err(failed("raising a kernel's shared memory"))?;
            }
        }
        Ok(())
    }

    /// The loaded module of a program.
    fn module(&self, program: &'static Program) -> Result<usize> {
        let mut modules = self.kernels.modules.lock().expect("nobody panics while loading");
        if let Some(module) = modules.get(program.name) {
            return Ok(*module);
        }
        let load = || {
            let image = program::image(program, self.context(), &self.versions)?;
            // SAFETY: the image is a whole program of the compiler, or was one when it was cached;
            // the driver checks it.
            let loaded = unsafe { result::module::load_data(image.as_ptr().cast()) };
            loaded.map_err(failed("loading a kernel"))
        };
        let module = load().or_else(|_| {
            program::forget(program, self.context(), &self.versions);
            load()
        })?;
        modules.insert(program.name, module as usize);
        Ok(module as usize)
    }
}
