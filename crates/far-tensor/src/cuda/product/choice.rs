//! Which of the library's ways computes a product fastest.

use super::{Answer, Call, Cuda, Plan, WORKSPACE};
use crate::Result;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;

/// How many ways of computing a product are tried when it is first met.
const CANDIDATES: usize = 24;
/// Multiplications from which the ways are timed; below, the library's first choice is taken.
const WORTH_TIMING: usize = 1 << 28;

impl Cuda {
    /// The fastest of the library's first suggestions, timed on the operands themselves.
    pub(super) fn choose(&self, call: &Call, plan: &Plan) -> Answer<sys::cublasLtMatmulAlgo_t> {
        let suggestions = self.suggestions(call, plan)?;
        let [rows, inner, columns] = plan.sizes;
        // What accumulates would count every trial.
        if rows * inner * columns < WORTH_TIMING || plan.accumulate || suggestions.len() < 2 {
            return Ok(suggestions[0]);
        }
        let mut best = (f32::INFINITY, suggestions[0]);
        for suggestion in suggestions {
            let Some(time) = self.trial(call, &suggestion) else { continue };
            if time < best.0 {
                best = (time, suggestion);
            }
        }
        Ok(best.1)
    }

    fn trial(&self, call: &Call, algorithm: &sys::cublasLtMatmulAlgo_t) -> Option<f32> {
        self.shortest(|| self.call(call, algorithm).ok())
    }

    /// The time of the shortest of a few runs.
    fn shortest(&self, mut work: impl FnMut() -> Option<()>) -> Option<f32> {
        use cudarc::driver::result::event;
        let flags = cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
        let (start, end) = (event::create(flags).ok()?, event::create(flags).ok()?);
        let stream = self.context().stream();
        let mut shortest = None;
        for _ in 0..3 {
            // SAFETY: events and stream are alive.
            let time = unsafe {
                event::record(start, stream).ok()?;
                work()?;
                event::record(end, stream).ok()?;
                event::synchronize(end).ok()?;
                event::elapsed(start, end).ok()?
            };
            shortest = Some(shortest.map_or(time, |known: f32| known.min(time)));
        }
        // SAFETY: both are alive and destroyed once.
        unsafe {
            let _ = (event::destroy(start), event::destroy(end));
        }
        shortest
    }

    /// A product and what follows it, by the faster of two ways that write the same: fused, which may not be
    /// possible, or apart. Both are tried where the sizes are met for the first time and it is worth it.
    pub(crate) fn fused_or_apart<T>(
        &self,
        sizes: [usize; 3],
        fused: impl Fn() -> Result<Option<T>>,
        apart: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let choices = || self.products.fused.lock().expect("nobody panics while looking");
        let known = choices().get(&sizes).copied();
        if known != Some(false)
            && let Some(made) = fused()?
        {
            if known.is_some() || sizes.iter().product::<usize>() < WORTH_TIMING {
                return Ok(made);
            }
            let times = [
                self.shortest(|| fused().ok().flatten().map(drop)),
                self.shortest(|| apart().ok().map(drop)),
            ];
            let faster = matches!(times, [Some(fused), Some(apart)] if fused < apart);
            choices().insert(sizes, faster);
            if faster {
                // The other way was the last to write.
                return Ok(fused()?.unwrap_or(made));
            }
        }
        apart()
    }

    fn suggestions(&self, call: &Call, plan: &Plan) -> Answer<Vec<sys::cublasLtMatmulAlgo_t>> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Of;
        let preference = result::create_matmul_pref()?;
        let [left, right, target] = plan.alignment;
        let settings = [
            (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, right),
            (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, left),
            (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, target),
            (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, target),
        ];
        let limit = WORKSPACE as u64;
        // SAFETY: preference, descriptions and the array are alive; sizes are those of the values.
        unsafe {
            let of = Of::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            result::set_matmul_pref_attribute(
                preference,
                of,
                std::ptr::from_ref(&limit).cast(),
                8,
            )?;
            for (of, value) in &settings {
                let value = std::ptr::from_ref(value).cast();
                result::set_matmul_pref_attribute(preference, *of, value, 4)?;
            }
            let mut found: [sys::cublasLtMatmulHeuristicResult_t; CANDIDATES] = std::mem::zeroed();
            let mut count = 0;
            let asked = sys::cublasLtMatmulAlgoGetHeuristic(
                self.products.handle,
                call.description,
                call.layouts[0],
                call.layouts[1],
                call.layouts[2],
                call.layouts[2],
                preference,
                CANDIDATES as i32,
                found.as_mut_ptr(),
                &mut count,
            );
            let _ = result::destroy_matmul_pref(preference);
            asked.result()?;
            let usable = found[..count as usize].iter().filter(|one| one.state.result().is_ok());
            let usable: Vec<_> = usable.map(|one| one.algo).collect();
            if usable.is_empty() {
                return Err(CublasError(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED));
            }
            Ok(usable)
        }
    }
}
