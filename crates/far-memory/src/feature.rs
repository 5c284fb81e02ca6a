//! The features of the metadata scorer, and how a query is folded into its first layer.
//!
//! The feature set `relative-pose-time-1` has 26 numbers. Lengths are divided by `length`, times by
//! `time`; `slog(x) = sign(x)·ln(1 + |x|)`; frames are level (heading only), as in
//! [`Pose::displacement_from`].
//!
//! | index | feature |
//! |---|---|
//! | 0–6 | memory in the frame of the current pose: forward, left, up, sin turn, cos turn, sin tilt, cos tilt |
//! | 7–13 | the same seven numbers in the frame of the goal pose |
//! | 14, 15 | distance of the memory to the current position and to the goal position |
//! | 16, 17 | `slog` of the time from the memory to now and from the memory to the goal |
//! | 18–24 | action: forward, left, up, sin turn, cos turn, sin tilt, cos tilt |
//! | 25 | `slog` of the stride |
//!
//! Features 0 to 15 are 0 if the query has no pose. If it has one and a memory has none, the memory
//! has no score.
//!
//! All but four of them are linear in seven stored numbers of the memory (position, sines and
//! cosines of its angles), with coefficients that depend on the query alone. A first layer
//! `W·features + b` is therefore, for one query, a layer with [`INPUTS`] inputs: the seven stored
//! numbers, two distances and two time gaps. [`QueryFrame::fold`] computes that layer. Positions
//! are made relative to the current position first, so that no precision is lost ten kilometers
//! from the origin.

use crate::activation::{signed_log, signed_log_reference};
use crate::block::angle_sines;
use crate::{Displacement, Pose, RecallQuery};
use pulp::Simd;

/// Name of the feature set, as written in retriever files.
pub const FEATURE_SET: &str = "relative-pose-time-1";
/// Numbers in the feature set.
pub const FEATURES: usize = 26;
/// Numbers per memory after the query is folded into the first layer.
pub const INPUTS: usize = 11;

/// Units of the features.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeatureScale {
    /// Meters that count as 1.
    pub length: f32,
    /// Seconds that count as 1.
    pub time: f32,
}

/// The features of one memory for one query in plain code; `None` if the query has a pose and the memory
/// has none. This is the definition: training uses
/// it, and the folded form is tested against it.
///
/// ```
/// use far_memory::{FeatureScale, Pose, RecallQuery, features};
/// let query = RecallQuery::new(10.0, Pose::identity(), Pose::identity());
/// let memory = Pose::from_yaw_pitch([4.0, 0.0, 0.0], 0.0, 0.0);
/// let scale = FeatureScale { length: 2.0, time: 1.0 };
/// let features = features(&query, 9.0, Some(&memory), scale).unwrap();
/// assert_eq!(features[0], 2.0); // four meters ahead
/// assert!((features[16] - 2f32.ln()).abs() < 1e-6); // one second ago
/// ```
pub fn features(
    query: &RecallQuery,
    time: f64,
    pose: Option<&Pose>,
    scale: FeatureScale,
) -> Option<[f32; FEATURES]> {
    let gap = query.time - time;
    let goal_gap = gap + f64::from(query.stride);
    let mut features = [0.0; FEATURES];
    if let Some(frames) = query.way() {
        let pose = pose?;
        for (at, frame) in frames.into_iter().enumerate() {
            let seen = displacement_features(pose.displacement_from(frame), scale);
            features[7 * at..7 * (at + 1)].copy_from_slice(&seen);
            features[14 + at] = pose.distance(frame) / scale.length;
        }
    }
    features[16] = signed_log_reference(gap as f32 / scale.time);
    features[17] = signed_log_reference(goal_gap as f32 / scale.time);
    features[18..25].copy_from_slice(&displacement_features(query.action, scale));
    features[25] = signed_log_reference(query.stride / scale.time);
    Some(features)
}

fn displacement_features(displacement: Displacement, scale: FeatureScale) -> [f32; 7] {
    let Displacement { forward, left, up, turn, tilt } = displacement;
    let [forward, left, up] = [forward, left, up].map(|meters| meters / scale.length);
    [forward, left, up, turn.sin(), turn.cos(), tilt.sin(), tilt.cos()]
}

/// The query's side of the features, computed once per recall.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryFrame {
    time: f64,
    /// Whether the query has poses.
    pub(crate) posed: bool,
    position: [f32; 3],
    stride: f32,
    scale: FeatureScale,
    /// Sines and cosines of yaw and pitch of the current pose and of the goal.
    angles: [[f32; 4]; 2],
    /// From the current position to the goal, in units of length.
    goal: [f32; 3],
    action: [f32; 8],
}

impl QueryFrame {
    pub(crate) fn new(query: &RecallQuery, scale: FeatureScale) -> Self {
        let mut action = [0.0; 8];
        action[..7].copy_from_slice(&displacement_features(query.action, scale));
        action[7] = signed_log_reference(query.stride / scale.time);
        // Without poses their features have no weight, so any pose will do.
        let anywhere = Pose::identity();
        let [pose, goal] = query.way().unwrap_or([&anywhere; 2]);
        Self {
            time: query.time,
            posed: query.way().is_some(),
            position: pose.position,
            stride: query.stride,
            scale,
            angles: [angle_sines(pose), angle_sines(goal)],
            goal: std::array::from_fn(|axis| {
                (goal.position[axis] - pose.position[axis]) / scale.length
            }),
            action,
        }
    }

    /// The first-layer row `weights·features + bias` as weights of the inputs and a bias.
    pub(crate) fn fold(&self, weights: &[f32], bias: f32) -> ([f32; INPUTS], f32) {
        let mut folded = [0.0; INPUTS];
        let mut constant = bias;
        for (frame, weights) in weights[..14].chunks_exact(7).enumerate() {
            let [sin_yaw, cos_yaw, sin_pitch, cos_pitch] = self.angles[frame];
            let rows = [
                weights[0] * cos_yaw - weights[1] * sin_yaw,
                weights[0] * sin_yaw + weights[1] * cos_yaw,
                weights[2],
                weights[3] * cos_yaw + weights[4] * sin_yaw,
                weights[4] * cos_yaw - weights[3] * sin_yaw,
                weights[5] * cos_pitch + weights[6] * sin_pitch,
                weights[6] * cos_pitch - weights[5] * sin_pitch,
            ];
            for (sum, row) in folded.iter_mut().zip(rows) {
                *sum += row;
            }
            if frame == 1 {
                // The goal's frame starts at the goal, the inputs at the current position.
                constant -= (0..3).map(|axis| rows[axis] * self.goal[axis]).sum::<f32>();
            }
        }
        folded[7..].copy_from_slice(&weights[14..18]);
        if !self.posed {
            folded[..9].fill(0.0);
            constant = bias;
        }
        constant += weights[18..].iter().zip(self.action).map(|(w, x)| w * x).sum::<f32>();
        (folded, constant)
    }

    /// Offsets from the current position in units of length.
    #[inline(always)]
    pub(crate) fn offset(&self, axis: usize, coordinate: f32) -> f32 {
        (coordinate - self.position[axis]) * (1.0 / self.scale.length)
    }

    /// Time from a memory to now in units of time.
    #[inline(always)]
    pub(crate) fn gap(&self, time: f64) -> f32 {
        (self.time - time) as f32 * (1.0 / self.scale.time)
    }

    /// The four inputs that are not linear in stored numbers, from the offsets and the gap.
    #[inline(always)]
    pub(crate) fn nonlinear<S: Simd>(
        &self,
        simd: S,
        offset: [S::f32s; 3],
        gap: S::f32s,
    ) -> [S::f32s; 4] {
        // No closures here: they would not be compiled for the instruction set of `simd`.
        let [x, y, z] = offset;
        let [goal_x, goal_y, goal_z] = self.goal;
        let goal_x = simd.sub_f32s(x, simd.splat_f32s(goal_x));
        let goal_y = simd.sub_f32s(y, simd.splat_f32s(goal_y));
        let goal_z = simd.sub_f32s(z, simd.splat_f32s(goal_z));
        let stride = simd.splat_f32s(self.stride * (1.0 / self.scale.time));
        [
            length(simd, x, y, z),
            length(simd, goal_x, goal_y, goal_z),
            signed_log(simd, gap),
            signed_log(simd, simd.add_f32s(gap, stride)),
        ]
    }
}

#[inline(always)]
fn length<S: Simd>(simd: S, x: S::f32s, y: S::f32s, z: S::f32s) -> S::f32s {
    let square = simd.mul_add_e_f32s(y, y, simd.mul_f32s(x, x));
    simd.sqrt_f32s(simd.mul_add_e_f32s(z, z, square))
}
