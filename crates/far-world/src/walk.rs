//! A walker with a limited turning rate: turns path points and headings into one pose per frame.

use std::f32::consts::FRAC_PI_2;

use far_memory::{Pose, wrap_angle};

/// How a walker moves.
#[derive(Clone, Copy, Debug)]
pub struct WalkConfig {
    /// Meters per frame when walking straight.
    pub stride: f32,
    /// Largest turn per frame in radians.
    pub turn: f32,
    /// Height of the eye above the ground, in meters.
    pub eye: f32,
    /// Pitch of the camera in radians, positive upward.
    pub pitch: f32,
}

/// Records one pose per frame while it moves.
#[derive(Clone, Debug)]
pub struct Walker {
    config: WalkConfig,
    position: [f32; 2],
    yaw: f32,
    poses: Vec<Pose>,
}

/// The walker waits for its turn when its heading is off by more than this many radians.
const WAIT: f32 = 0.5;

impl Walker {
    /// A walker at `position` with heading `yaw`, and one pose so far.
    pub fn new(config: WalkConfig, position: [f32; 2], yaw: f32) -> Self {
        let mut walker = Self { config, position, yaw, poses: Vec::new() };
        walker.record();
        walker
    }

    fn record(&mut self) {
        let WalkConfig { eye, pitch, .. } = self.config;
        let [x, y] = self.position;
        self.poses.push(Pose::from_yaw_pitch([x, y, eye], self.yaw, pitch));
    }

    /// Frames so far.
    pub fn frames(&self) -> usize {
        self.poses.len()
    }

    /// Turns on the spot until the heading is `yaw`.
    pub fn look(&mut self, yaw: f32) {
        loop {
            let error = wrap_angle(yaw - self.yaw);
            if error.abs() < 1e-4 {
                return;
            }
            self.yaw = wrap_angle(self.yaw + error.clamp(-self.config.turn, self.config.turn));
            self.record();
        }
    }

    /// A full turn to the left in four quarter turns.
    pub fn scan(&mut self) {
        let start = self.yaw;
        for quarter in 1..=4 {
            self.look(start + quarter as f32 * FRAC_PI_2);
        }
    }

    /// Stands still for some frames.
    pub fn wait(&mut self, frames: usize) {
        for _ in 0..frames {
            self.record();
        }
    }

    /// Walks along the points in straight lines, turning at most at the given rate.
    pub fn follow(&mut self, points: &[[f32; 2]]) {
        for &target in points {
            loop {
                let ahead = [target[0] - self.position[0], target[1] - self.position[1]];
                let distance = ahead[0].hypot(ahead[1]);
                if distance < 1e-3 {
                    break;
                }
                let error = wrap_angle(ahead[1].atan2(ahead[0]) - self.yaw);
                let turn = error.clamp(-self.config.turn, self.config.turn);
                self.yaw = wrap_angle(self.yaw + turn);
                let left = (error - turn).abs();
                if left < WAIT {
                    let step = (self.config.stride * left.cos()).min(distance);
                    for (own, toward) in self.position.iter_mut().zip(ahead) {
                        *own += toward / distance * step;
                    }
                }
                self.record();
            }
        }
    }

    /// The poses, one per frame.
    pub fn finish(self) -> Vec<Pose> {
        self.poses
    }
}

/// The corners of a path: the first point, every point where the direction changes, the last.
pub fn corners(points: &[[f32; 2]]) -> Vec<[f32; 2]> {
    let mut kept: Vec<[f32; 2]> = Vec::new();
    for (index, &point) in points.iter().enumerate() {
        let straight = index > 0 && index + 1 < points.len() && {
            let (before, after) = (points[index - 1], points[index + 1]);
            let cross = (point[0] - before[0]) * (after[1] - point[1])
                - (point[1] - before[1]) * (after[0] - point[0]);
            cross.abs() < 1e-6
        };
        if !straight {
            kept.push(point);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_keeps_its_limits_and_arrives() {
        let config = WalkConfig { stride: 0.3, turn: 0.15, eye: 1.6, pitch: -0.05 };
        let mut walker = Walker::new(config, [2.0, 3.0], 1.0);
        walker.scan();
        walker.follow(&[[6.0, 3.0], [6.0, 9.0], [1.0, 9.0]]);
        let poses = walker.finish();
        for pair in poses.windows(2) {
            let step = pair[1].displacement_from(&pair[0]);
            assert!(step.turn.abs() < 0.15 + 1e-3, "{}", step.turn);
            assert!(pair[0].distance(&pair[1]) < 0.3 + 1e-4);
        }
        let end = poses.last().unwrap().position;
        assert!((end[0] - 1.0).abs() < 1e-2 && (end[1] - 9.0).abs() < 1e-2);
    }

    #[test]
    fn corners_are_where_the_way_turns() {
        let way = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [2.0, 1.0], [2.0, 2.0]];
        assert_eq!(corners(&way), [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0]]);
    }
}
