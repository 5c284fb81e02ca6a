//! Which of the library's ways computes a product fastest.

use super::{Answer, Call, Cuda, Plan, WORKSPACE};
use crate::Result;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;

/// How many ways of computing a product are tried when it is first met.
const CANDIDATES: usize = 24;
/// How often the terms of a sum outnumber rows and columns where the result is too small to fill a GPU: the
/// gradient of a weight, which sums over tokens.
const DEEP: usize = 8;
/// Into how many parts such sums are cut for a trial; which fill the GPU in whole rounds depends on the tiles.
const SPLITS: [i32; 8] = [1, 2, 3, 4, 5, 6, 8, 11];
/// Multiplications from which the ways are timed; below, the library's first choice is taken.
const WORTH_TIMING: usize = 1 << 28;

impl Cuda {
    /// The fastest of the library's first suggestions, timed on the operands themselves.
    pub(super) fn choose(&self, call: &Call, plan: &Plan) -> Answer<sys::cublasLtMatmulAlgo_t> {
        let mut suggestions = self.suggestions(call, plan)?;
        let [rows, inner, columns] = plan.sizes;
        // What accumulates would count every trial.
        if rows * inner * columns < WORTH_TIMING || plan.accumulate {
            return Ok(suggestions[0]);
        }
        if inner >= DEEP * rows.max(columns) {
            self.add_splits(call, &mut suggestions);
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
        // SAFETY: events and stream are alive.
        let mut time = || unsafe {
            event::record(start, stream).ok()?;
            work()?;
            event::record(end, stream).ok()?;
            event::synchronize(end).ok()?;
            event::elapsed(start, end).ok()
        };
        let times: Option<Vec<f32>> = (0..3).map(|_| time()).collect();
        // SAFETY: both are alive and destroyed once.
        unsafe {
            let _ = (event::destroy(start), event::destroy(end));
        }
        times?.into_iter().reduce(f32::min)
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
        if known == Some(false) {
            return apart();
        }
        // What the library suggests and then refuses is not possible either.
        let Some(made) = fused().ok().flatten() else {
            choices().insert(sizes, false);
            return apart();
        };
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
        apart()
    }

    /// Adds what is suggested with its sums cut into other numbers of parts, as far as the library can.
    fn add_splits(&self, call: &Call, suggestions: &mut Vec<sys::cublasLtMatmulAlgo_t>) {
        use sys::cublasLtMatmulAlgoConfigAttributes_t as Of;
        use sys::cublasLtReductionScheme_t as Scheme;
        for suggestion in suggestions.clone() {
            for parts in SPLITS {
                // The parts are added up as they were computed, in f32.
                let scheme = match parts {
                    1 => Scheme::CUBLASLT_REDUCTION_SCHEME_NONE,
                    _ => Scheme::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
                } as u32;
                let mut split = suggestion;
                let [layout, other, target] = call.layouts;
                // SAFETY: algorithm, descriptions and the result are alive; sizes are those of the values.
                let found = unsafe {
                    let mut found: sys::cublasLtMatmulHeuristicResult_t = std::mem::zeroed();
                    let set = |split: &mut sys::cublasLtMatmulAlgo_t, of, value: *const u32| {
                        sys::cublasLtMatmulAlgoConfigSetAttribute(split, of, value.cast(), 4)
                            .result()
                    };
                    set(&mut split, Of::CUBLASLT_ALGO_CONFIG_SPLITK_NUM, (&raw const parts).cast())
                        .and_then(|()| {
                            set(&mut split, Of::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme)
                        })
                        .and_then(|()| {
                            let handle = self.products.handle;
                            sys::cublasLtMatmulAlgoCheck(
                                handle,
                                call.description,
                                layout,
                                other,
                                target,
                                target,
                                &split,
                                &mut found,
                            )
                            .result()
                        })
                        .map(|()| found)
                };
                let usable = found.is_ok_and(|found| {
                    found.state.result().is_ok() && found.workspaceSize <= WORKSPACE
                });
                if usable && !suggestions.contains(&split) {
                    suggestions.push(split);
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use crate::cuda::{Element, Epilogue, Operand, Product};
    use crate::testing::{assert_close, gpus, normal};

    /// However a long sum is cut, it is the same product.
    #[test]
    fn every_way_of_a_deep_product_is_that_product() {
        let [rows, inner, columns] = [128, 40_000, 192];
        let (left, right) = (normal([inner, rows], 1), normal([inner, columns], 2));
        for (precision, device) in gpus() {
            let cuda = device.gpu().expect("it is one");
            let element = cuda.element();
            let target = cuda.buffer(Element::F32, rows * columns).unwrap();
            let product = Product {
                sizes: [rows, inner, columns],
                left: Operand::transposed(left.pointer(cuda, element).unwrap(), element),
                right: Operand::plain(right.pointer(cuda, element).unwrap(), element),
                target: target.pointer(),
                target_element: Element::F32,
                accumulate: false,
                epilogue: Epilogue::None,
            };
            let (call, plan) = cuda.prepare(&product).unwrap();
            let mut ways = cuda.suggestions(&call, &plan).unwrap();
            let suggested = ways.len();
            cuda.add_splits(&call, &mut ways);
            println!("{precision}: {suggested} ways are suggested, {} known", ways.len());
            let found: Vec<Vec<f32>> = ways
                .iter()
                .map(|way| {
                    cuda.fill_bytes(target.pointer(), 0xff, 4 * rows * columns).unwrap();
                    cuda.call(&call, way).unwrap();
                    let mut values = vec![0.0; rows * columns];
                    target.read(&mut values).unwrap();
                    // Sums of so many terms are of the order of their root.
                    values.iter().map(|value| value / (inner as f32).sqrt()).collect()
                })
                .collect();
            let expected = found[0].clone();
            // Some round f32 to tf32, others cut it; a part that is missing would be off by a tenth and more.
            found.iter().for_each(|found| assert_close(found, &expected, 5e-3));
            let first: f64 = (0..inner)
                .map(|place| {
                    let (left, right) =
                        (left.values()[place * rows], right.values()[place * columns]);
                    f64::from(left) * f64::from(right)
                })
                .sum();
            assert_close(&expected[..1], &[(first / (inner as f64).sqrt()) as f32], 2e-2);
        }
    }
}
