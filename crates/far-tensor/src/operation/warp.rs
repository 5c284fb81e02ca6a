//! Images as seen by another camera: every pixel is sampled where a homography maps it.
//!
//! y at (u, v) is x at (a/c, b/c) with (a, b, c) = M·(u, v, 1), in pixels from the upper left
//! corner (the center of the first is ½), with bilinear interpolation; outside the image its border
//! is repeated. Images are stored as patches: x [F, rows·columns, colors·side²], one map per image
//! → the same shape. No gradient flows through a warp.

use super::row::for_rows;
use crate::storage::Storage;
use crate::tensor::Origin;
use crate::{Result, Tape, Tensor};
use std::sync::Arc;

/// Lower bound of the third coordinate: points behind the camera are mapped far outside the image.
const LEAST_DEPTH: f32 = 1e-6;

/// How images are cut: rows and columns of square patches, each as planes (color, row, column).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchGrid {
    /// Patches from top to bottom.
    pub rows: usize,
    /// Patches from left to right.
    pub columns: usize,
    /// Planes of a patch.
    pub colors: usize,
    /// Pixels along the side of a patch.
    pub side: usize,
}

impl PatchGrid {
    /// Values of a patch.
    pub fn values(&self) -> usize {
        self.colors * self.side * self.side
    }

    /// Width and height of an image in pixels.
    pub fn resolution(&self) -> [usize; 2] {
        [self.columns, self.rows].map(|patches| patches * self.side)
    }

    /// Offsets of a pixel in an image's values: the parts that depend on its column and on its row.
    fn places(&self) -> [Vec<usize>; 2] {
        let ([width, height], Self { side, .. }) = (self.resolution(), *self);
        let across = (0..width).map(|u| u / side * self.values() + u % side);
        let band = self.columns * self.values();
        let down = (0..height).map(|v| v / side * band + v % side * side);
        [across.collect(), down.collect()]
    }
}

impl Tape {
    /// Images [F, rows·columns, colors·side²], each warped by its map (row by row).
    ///
    /// # Errors
    /// If the images have another layout, there is not one map for each, or a gradient would have
    /// to flow.
    pub fn warp(&mut self, x: &Tensor, grid: PatchGrid, maps: &[[f32; 9]]) -> Result<Tensor> {
        let patches = grid.rows * grid.columns;
        let expected = [maps.len(), patches, grid.values()];
        x.expect("warp", x.shape().extents() == expected && grid.values() > 0, || {
            format!("{expected:?} is needed for {} maps of {grid:?}", maps.len())
        })?;
        x.expect("warp", !self.wants(x), || "what is warped is data".into())?;
        if let Some(cuda) = self.cuda() {
            let storage = Storage::given(cuda.warp(x, grid, maps)?);
            return Ok(Tensor::new(*x.shape(), Arc::new(storage), 0, Origin::Constant));
        }
        let mut output = self.device().buffer(x.shape().elements());
        let places = grid.places();
        let (values, numbers) = (grid.values(), patches * grid.values());
        for_rows(&mut output, values, 4 * values, |row, patch| {
            let (picture, place) = (row / patches, row % patches);
            let source = &x.values()[picture * numbers..(picture + 1) * numbers];
            let corner = [place % grid.columns, place / grid.columns].map(|at| at * grid.side);
            warp_patch(patch, source, grid, &places, corner, &maps[picture]);
        });
        Ok(Tensor::of_host(*x.shape(), output, Origin::Constant))
    }
}

/// One patch of the result, whose first pixel is at `corner`.
fn warp_patch(
    patch: &mut [f32],
    picture: &[f32],
    grid: PatchGrid,
    [columns, rows]: &[Vec<usize>; 2],
    corner: [usize; 2],
    map: &[f32; 9],
) {
    let plane = grid.side * grid.side;
    for pixel in 0..plane {
        let at = [corner[0] + pixel % grid.side, corner[1] + pixel / grid.side];
        let ([left, right], across) = neighbors(map, at, 0, columns);
        let ([upper, lower], down) = neighbors(map, at, 1, rows);
        let corners = [left + upper, right + upper, left + lower, right + lower];
        for color in 0..grid.colors {
            let [a, b, c, d] = corners.map(|place| picture[place + color * plane]);
            let (above, below) = (a + across * (b - a), c + across * (d - c));
            patch[color * plane + pixel] = above + down * (below - above);
        }
    }
}

/// Along one axis: the offsets of the two pixels around a pixel's source, and its distance from the
/// first.
fn neighbors(map: &[f32; 9], at: [usize; 2], axis: usize, places: &[usize]) -> ([usize; 2], f32) {
    let [u, v] = at.map(|pixel| pixel as f32 + 0.5);
    let row = |row: usize| map[3 * row] * u + map[3 * row + 1] * v + map[3 * row + 2];
    let last = places.len() - 1;
    // `max` first: NaN becomes 0.
    let source = (row(axis) / row(2).max(LEAST_DEPTH) - 0.5).max(0.0).min(last as f32);
    let first = source as usize;
    ([places[first], places[(first + 1).min(last)]], source - first as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::testing::{evaluate, normal};
    use proptest::prelude::*;

    const IDENTITY: [f32; 9] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];

    /// A pixel of an image by plain indexing.
    fn pixel(picture: &[f32], grid: PatchGrid, [u, v, color]: [usize; 3]) -> f32 {
        let (side, patch) = (grid.side, v / grid.side * grid.columns + u / grid.side);
        picture[((patch * grid.colors + color) * side + v % side) * side + u % side]
    }

    /// The definition in double precision, pixel by pixel: a sum over all pixels of the source,
    /// weighted by proximity.
    fn reference(x: &Tensor, grid: PatchGrid, maps: &[[f32; 9]]) -> Vec<f32> {
        let [width, height] = grid.resolution();
        let numbers = width * height * grid.colors;
        let mut result = x.values().to_vec();
        for (picture, map) in maps.iter().enumerate() {
            let source = &x.values()[picture * numbers..(picture + 1) * numbers];
            for (v, u) in (0..height).flat_map(|v| (0..width).map(move |u| (v, u))) {
                let middle = [u as f64 + 0.5, v as f64 + 0.5, 1.0];
                let row = |row: usize| -> f64 {
                    (0..3).map(|column| f64::from(map[3 * row + column]) * middle[column]).sum()
                };
                let depth = row(2).max(1e-6);
                let at = [row(0) / depth - 0.5, row(1) / depth - 0.5];
                let at =
                    [at[0].clamp(0.0, width as f64 - 1.0), at[1].clamp(0.0, height as f64 - 1.0)];
                let near = |pixel: usize, at: f64| (1.0 - (pixel as f64 - at).abs()).max(0.0);
                for color in 0..grid.colors {
                    let mut sum = 0.0;
                    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
                        let value = f64::from(pixel(source, grid, [x, y, color]));
                        sum += near(x, at[0]) * near(y, at[1]) * value;
                    }
                    let (side, patch) = (grid.side, v / grid.side * grid.columns + u / grid.side);
                    let place = ((patch * grid.colors + color) * side + v % side) * side + u % side;
                    result[picture * numbers + place] = sum as f32;
                }
            }
        }
        result
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn pixels_match_the_reference(
            rows in 1usize..4, columns in 1usize..4, colors in 1usize..4, side in 1usize..5,
            pictures in 1usize..4, seed in 0u64..99,
        ) {
            let grid = PatchGrid { rows, columns, colors, side };
            let x = normal([pictures, rows * columns, grid.values()], seed);
            let shifts = normal([pictures, 9], seed + 1);
            let maps: Vec<[f32; 9]> = shifts.values().chunks_exact(9).map(|shift| {
                // Rotations, shifts and a little perspective; some leave the image.
                let sizes = [0.3, 0.3, 2.0, 0.3, 0.3, 2.0, 0.02, 0.02, 0.1];
                std::array::from_fn(|place| IDENTITY[place] + sizes[place] * shift[place])
            }).collect();
            let found = evaluate(|tape| tape.warp(&x, grid, &maps));
            let expected = reference(&x, grid, &maps);
            for (found, expected) in found.values().iter().zip(&expected) {
                prop_assert!((found - expected).abs() < 1e-3, "{} {}", found, expected);
            }
        }
    }

    #[test]
    fn the_identity_is_exact_and_a_shift_moves() {
        let grid = PatchGrid { rows: 2, columns: 3, colors: 2, side: 4 };
        let x = normal([1, 6, 32], 3);
        let mut tape = Tape::inference(&Device::cpu());
        assert_eq!(tape.warp(&x, grid, &[IDENTITY]).unwrap().values(), x.values());
        let mut map = IDENTITY;
        map[2] = 5.0;
        let moved = tape.warp(&x, grid, &[map]).unwrap();
        let at = |values: &Tensor, u| pixel(values.values(), grid, [u, 6, 1]);
        assert_eq!(at(&moved, 3), at(&x, 8));
        // Beyond the right edge the last column is repeated.
        assert_eq!(at(&moved, 10), at(&x, 11));
    }

    #[test]
    fn hostile_maps_stay_inside_the_picture() {
        let grid = PatchGrid { rows: 1, columns: 1, colors: 1, side: 3 };
        let x = normal([4, 1, 9], 5);
        let maps = [[f32::NAN; 9], [f32::INFINITY; 9], [-1e30; 9], [0.0; 9]];
        let warped = Tape::inference(&Device::cpu()).warp(&x, grid, &maps).unwrap();
        assert!(warped.values().iter().all(|value| value.is_finite()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let grid = PatchGrid { rows: 1, columns: 2, colors: 1, side: 2 };
        let mut tape = Tape::recording(&Device::cpu());
        let x = normal([1, 2, 4], 1);
        for maps in [&[][..], &[IDENTITY; 2]] {
            let error = tape.warp(&x, grid, maps).unwrap_err().to_string();
            assert!(error.starts_with("warp: [1, 2, 4] is not accepted"), "{error}");
        }
        let learned = tape.variable(&x);
        let error = tape.warp(&learned, grid, &[IDENTITY]).unwrap_err().to_string();
        assert!(error.contains("what is warped is data"), "{error}");
    }
}
