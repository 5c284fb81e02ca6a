//! What a memory would show had it been seen from the goal.
//!
//! A camera that moves sideways sees the same things elsewhere in the picture, and a network that is to
//! compare looks, or to copy one, would have to learn how they move: by how many pixels, not by how many
//! tokens. Where poses are known most of that is geometry. Everything is taken to stand on one plane
//! before the goal's camera, where the axes of both cameras meet (who turns while stepping aside keeps
//! looking at the same thing), else at a distance that is set: then every pixel of the goal has its place
//! in the memory (a homography). What stands nearer or farther is off by less than before.
//!
//! It needs latents that are linear in pixels: these are drawn, warped and encoded again, on the
//! device. A frame from the goal itself stays as it is, and so does one that is too far away to be
//! compared.

use far_memory::{Camera, Pose};
use far_tensor::{PatchGrid, Result, Tape, Tensor};

/// The least share of the goal's picture that a frame must show to be seen from there.
const IN_SIGHT: f32 = 0.25;
/// Axes that meet at a smaller angle, by its squared sine, say nothing of where: 3 degrees.
const LEAST_ANGLE: f32 = 0.002_7;
/// How far a pixel must move for a frame to be warped at all.
const LEAST_SHIFT: f32 = 0.02;
/// The farthest step from the goal, as a share of the distance of things: beyond it a plane says little.
const FARTHEST_STEP: f32 = 0.5;
/// Points of the goal's picture that are looked for in a frame, along each side.
const POINTS: usize = 8;

/// Latents that are linear in the pixels of their patches, one patch per token.
#[derive(Clone, Debug)]
pub struct LinearPatches {
    /// How pictures are cut.
    pub grid: PatchGrid,
    /// Weight `[P, V]` and offset `[V]` that lead from a token to its pixels.
    pub decode: [Tensor; 2],
    /// Weight `[V, P]` and offset `[P]` that lead back.
    pub encode: [Tensor; 2],
}

/// How latents look from another camera of the same kind.
#[derive(Clone, Debug)]
pub struct GoalWarp {
    patches: LinearPatches,
    /// Tangents of half the field of view, across and down.
    spread: [f32; 2],
}

/// A projective map of pixels, row by row.
type Map = [f32; 9];

impl GoalWarp {
    /// For latents of pictures of this camera.
    pub fn new(patches: LinearPatches, camera: &Camera) -> Self {
        let angles = [camera.horizontal_field_of_view, camera.vertical_field_of_view];
        Self { patches, spread: angles.map(|angle| (0.5 * angle).tan()) }
    }

    /// Frames [f, T, P] as they would have been seen from their goals. `poses` are theirs in the axes
    /// of their goals' cameras, `distance` is where things are taken to stand, in meters.
    pub(crate) fn of_frames(
        &self,
        tape: &mut Tape,
        frames: &Tensor,
        poses: &[Pose],
        distance: f32,
    ) -> Result<Tensor> {
        let maps = poses.iter().map(|pose| self.map(pose, distance));
        let (moved, maps): (Vec<usize>, Vec<Map>) =
            maps.enumerate().filter_map(|(frame, map)| Some((frame, map?))).unzip();
        if moved.is_empty() {
            return Ok(frames.clone());
        }
        let mut rows: Vec<usize> = (0..poses.len()).collect();
        moved.iter().enumerate().for_each(|(place, frame)| rows[*frame] = poses.len() + place);
        let LinearPatches { grid, decode, encode } = &self.patches;
        let chosen = tape.gather_rows(frames, moved)?;
        let pixels = tape.linear(&chosen, &decode[0], Some(&decode[1]))?;
        let warped = tape.warp(&pixels, *grid, &maps)?;
        let seen = tape.linear(&warped, &encode[0], Some(&encode[1]))?;
        let all = tape.concat(&[frames, &seen], 0)?;
        tape.gather_rows(&all, rows)
    }

    /// Where pixels of the goal's picture lie in that of a camera with this pose in its axes; `None` if
    /// they lie at the same places, too few lie in it, or it was too far away.
    fn map(&self, pose: &Pose, distance: f32) -> Option<Map> {
        let step = pose.position.iter().map(|part| part * part).sum::<f32>().sqrt();
        if step.is_nan() || step > FARTHEST_STEP * distance {
            return None;
        }
        let map = self.in_pixels(plane_map(pose, meeting(pose, distance)));
        let resolution = self.patches.grid.resolution().map(|side| side as f32);
        let (mut inside, mut moved) = (0, 0.0f32);
        for point in 0..POINTS * POINTS {
            let at = [point % POINTS, point / POINTS].map(|at| (at as f32 + 0.5) / POINTS as f32);
            let [u, v] = [at[0] * resolution[0], at[1] * resolution[1]];
            let [a, b, c] = [0, 3, 6].map(|row| map[row] * u + map[row + 1] * v + map[row + 2]);
            let [x, y] = [a / c, b / c];
            let within = |place, side| (0.0..=side).contains(&place);
            inside += usize::from(c > 0.0 && within(x, resolution[0]) && within(y, resolution[1]));
            moved = moved.max((x - u).abs()).max((y - v).abs());
        }
        let enough = inside as f32 >= IN_SIGHT * (POINTS * POINTS) as f32;
        (enough && moved > LEAST_SHIFT).then_some(map)
    }

    /// A map of directions (right, down, 1) as one of pixels.
    fn in_pixels(&self, map: Map) -> Map {
        let [width, height] = self.patches.grid.resolution().map(|side| side as f32);
        let middle = [0.5 * width, 0.5 * height];
        let focus = [middle[0] / self.spread[0], middle[1] / self.spread[1]];
        // From pixels to directions, column by column of the map; then from directions to pixels.
        let columns = |row: usize| {
            let [a, b, c] = [map[3 * row], map[3 * row + 1], map[3 * row + 2]];
            let (a, b) = (a / focus[0], b / focus[1]);
            [a, b, c - a * middle[0] - b * middle[1]]
        };
        let [across, down, ahead] = [0, 1, 2].map(columns);
        std::array::from_fn(|place| match place {
            0..3 => focus[0] * across[place] + middle[0] * ahead[place],
            3..6 => focus[1] * down[place - 3] + middle[1] * ahead[place - 3],
            _ => ahead[place - 6],
        })
    }
}

/// How far ahead of the goal's camera the axis of another one passes, or `distance` where it does not
/// tell: where they are all but parallel, or meet behind a camera or at less than half or more than
/// twice that distance.
fn meeting(pose: &Pose, distance: f32) -> f32 {
    let (axis, eye) = (pose.forward(), pose.position);
    let along: f32 = axis.iter().zip(eye).map(|(axis, eye)| axis * eye).sum();
    let parallel = 1.0 - axis[2] * axis[2];
    let own = (eye[2] - axis[2] * along) / parallel;
    let other = (axis[2] * eye[2] - along) / parallel;
    let told =
        parallel > LEAST_ANGLE && other > 0.0 && own > 0.5 * distance && own < 2.0 * distance;
    if told { own } else { distance }
}

/// Directions (right, down, 1) in the goal's camera as directions in another one's, for what stands so
/// far ahead.
fn plane_map(pose: &Pose, distance: f32) -> Map {
    let origin = Pose { position: [0.0; 3], rotation: pose.rotation };
    // The columns: where the camera has the axes, the third less the way to its eye.
    let [x, y, z] = pose.position;
    let ends = [[distance, 0.0, 0.0], [0.0, distance, 0.0], [-x, -y, distance - z]];
    let columns = ends.map(|end| origin.to_camera(end));
    std::array::from_fn(|place| columns[place % 3][place / 3] / distance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{goal_view, normal};
    use far_tensor::Device;

    /// Four patches of three by three pixels in one color.
    fn view() -> GoalWarp {
        let grid = PatchGrid { rows: 2, columns: 2, colors: 1, side: 3 };
        goal_view(grid, &Camera::from_degrees(90.0, 70.0))
    }

    /// A goal and a camera beside it that looks at the same point, `far` ahead of the goal.
    fn beside(side: f32, far: f32) -> Pose {
        let goal = Pose::from_yaw_pitch([1.0, 2.0, 1.5], 0.7, -0.4);
        let eye = goal.to_world([side, 0.0, 0.0]);
        let point = goal.to_world([0.0, 0.0, far]);
        let [dx, dy, dz] = std::array::from_fn(|axis| point[axis] - eye[axis]);
        let pose = Pose::from_yaw_pitch(eye, dy.atan2(dx), dz.atan2(dx.hypot(dy)));
        pose.relative_to(&goal)
    }

    /// Points on the plane are where the camera of the other pose has them.
    #[test]
    fn maps_agree_with_the_camera() {
        let (view, camera) = (view(), Camera::from_degrees(90.0, 70.0));
        let goal = Pose { position: [0.0; 3], rotation: [1.0, 0.0, 0.0, 0.0] };
        for (side, far) in [(0.4, 1.5), (-0.3, 1.1), (0.2, 2.0)] {
            let pose = beside(side, far);
            assert!((meeting(&pose, 1.5) - far).abs() < 1e-3, "{}", meeting(&pose, 1.5));
            let map = view.map(&pose, 1.5).unwrap();
            for [u, v] in [[3.0, 3.0], [1.5, 2.5], [5.0, 4.0]] {
                let point = [u / 3.0 - 1.0, (v / 3.0 - 1.0) * 35f32.to_radians().tan(), 1.0];
                let expected = camera.project(&pose, point.map(|part| far * part)).unwrap();
                let [a, b, c] = [0, 3, 6].map(|row| map[row] * u + map[row + 1] * v + map[row + 2]);
                let found = [a / c / 3.0 - 1.0, b / c / 3.0 - 1.0];
                let off = (found[0] - expected[0]).abs() + (found[1] - expected[1]).abs();
                assert!(off < 1e-3, "{found:?} {expected:?}");
            }
        }
        assert_eq!(view.map(&goal, 1.5), None);
    }

    /// Axes that do not meet where things may stand leave the distance that is set.
    #[test]
    fn the_distance_is_kept_where_axes_do_not_tell() {
        let aside = Pose { position: [0.2, 0.0, 0.0], rotation: [1.0, 0.0, 0.0, 0.0] };
        for pose in [aside, beside(0.4, 0.5), beside(0.4, 4.0), beside(0.4, -1.5)] {
            assert_eq!(meeting(&pose, 1.5), 1.5);
        }
    }

    /// What is out of sight, too far or not a place at all stays as it was; so does what was seen from
    /// the goal itself, to the bit.
    #[test]
    fn frames_that_cannot_be_compared_stay() {
        let view = view();
        let turned = Pose::from_yaw_pitch([0.0; 3], 2.5, 0.0).relative_to(&Pose::identity());
        let far = Pose { position: [0.0, 0.0, 0.8], rotation: [1.0, 0.0, 0.0, 0.0] };
        let nowhere = Pose { position: [f32::NAN; 3], rotation: [1.0, 0.0, 0.0, 0.0] };
        let goal = Pose { position: [0.0; 3], rotation: [1.0, 0.0, 0.0, 0.0] };
        let poses = [turned, far, nowhere, goal, beside(0.4, 1.5)];
        let frames = Tensor::from_slice(&normal(5 * 36, "frames", 1), [5, 4, 9]).unwrap();
        let mut tape = Tape::inference(&Device::cpu());
        let seen = view.of_frames(&mut tape, &frames, &poses, 1.5).unwrap();
        assert_eq!(seen.shape(), frames.shape());
        assert_eq!(seen.values()[..4 * 36], frames.values()[..4 * 36]);
        // The fifth is warped in pixels, whatever their scale.
        let map = view.map(&poses[4], 1.5).unwrap();
        let own = tape.gather_rows(&frames, vec![4]).unwrap();
        let expected = tape.warp(&own, view.patches.grid, &[map]).unwrap();
        let pairs = seen.values()[4 * 36..].iter().zip(expected.values());
        assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-4));
        assert!(pairs.zip(own.values()).any(|((a, _), own)| (a - own).abs() > 0.1));
    }
}
