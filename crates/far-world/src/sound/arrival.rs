//! How the sound of one source arrives at a head: the direct sound and its first reflections.
//!
//! The direct sound comes along the shortest path. If that path bends, the source is heard as if it
//! stood in the direction of arrival at the path's full length. Its mirror images in the four walls
//! around the listener, in the floor and in the ceiling give six reflections. Rooms thus sound
//! different by their size, by the position in them and by the door through which sound arrives.

use super::head::SphericalHead;
use super::{SAMPLE_RATE, SPEED_OF_SOUND, SoundPath};
use far_memory::Pose;
use std::f32::consts::{PI, TAU};

/// Within this many meters a source does not get louder.
pub const REFERENCE_DISTANCE: f32 = 1.0;

/// The direct sound, four walls, the floor and the ceiling.
pub const ARRIVALS: usize = 7;

/// An image closer to its wall than this many meters is faded, for when the source passes to the
/// other side.
const WALL_FADE: f32 = 0.5;

/// Loss of sound that bends around corners.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bending {
    /// Loss over all frequencies in decibels per radian of bending.
    pub loss: f32,
    /// Cutoff of either low-pass stage for an unbent path, in hertz.
    pub open_cutoff: f32,
    /// Lowest cutoff in hertz, for any bend: waves of half a meter pass any corner.
    pub least_cutoff: f32,
    /// Bend in radians over which the cutoff's excess above the lowest falls by a factor of e.
    pub scale: f32,
}

impl Default for Bending {
    /// A right angle costs 4.7 dB and keeps what lies below 2.3 kHz.
    fn default() -> Self {
        Self { loss: 3.0, open_cutoff: 12_000.0, least_cutoff: 700.0, scale: 0.8 }
    }
}

impl Bending {
    /// Gain of a path with a total bend of `bend` radians.
    pub fn gain(&self, bend: f32) -> f32 {
        10f32.powf(-self.loss * bend / 20.0)
    }

    /// Cutoff of either low-pass stage on such a path in hertz.
    pub fn cutoff(&self, bend: f32) -> f32 {
        self.least_cutoff + (self.open_cutoff - self.least_cutoff) * (-bend / self.scale).exp()
    }
}

/// Fraction of a wave that the surfaces of a floor reflect, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reflectance {
    /// Vertical walls.
    pub wall: f32,
    /// The floor.
    pub floor: f32,
    /// The ceiling.
    pub ceiling: f32,
    /// Cutoff of reflections in hertz.
    pub cutoff: f32,
}

impl Default for Reflectance {
    /// Plaster, a wooden floor with rugs, a plain ceiling.
    fn default() -> Self {
        Self { wall: 0.6, floor: 0.3, ceiling: 0.4, cutoff: 5000.0 }
    }
}

impl Reflectance {
    /// Surfaces without reflection: only direct sound.
    pub const NONE: Self = Self { wall: 0.0, floor: 0.0, ceiling: 0.0, cutoff: 5000.0 };
}

/// A wave that arrives at both ears.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arrival {
    /// Length of the path in meters.
    pub length: f32,
    /// Amplitude at the head.
    pub gain: f32,
    /// Coefficient of the two one-pole low-pass stages, near 1 when all frequencies pass.
    pub brightness: f32,
    /// Delay at the left and the right ear, in seconds.
    pub delay: [f32; 2],
    /// Gain of high frequencies at the left and the right ear.
    pub treble: [f32; 2],
}

/// A listener's surroundings, for reflections.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Meters to the walls in the east, north, west and south.
    pub walls: [f32; 4],
    /// Height of the ceiling above the floor in meters.
    pub ceiling: f32,
}

/// The constants of the sound model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Model {
    /// The listener's head.
    pub head: SphericalHead,
    /// Bending around corners.
    pub bending: Bending,
    /// Reflection by surfaces.
    pub reflectance: Reflectance,
}

impl Model {
    /// The arrivals at the head at `pose` of a source of `gain` at height `source_height`, along
    /// `path`; the floor is at height 0.
    pub fn arrivals(
        &self,
        path: &SoundPath,
        gain: f32,
        source_height: f32,
        pose: &Pose,
        around: &Surroundings,
    ) -> [Arrival; ARRIVALS] {
        let height = pose.position[2];
        let rise = source_height - height;
        let [x, y] = path.direction.map(|axis| axis * path.length);
        let gain = gain * self.bending.gain(path.bend);
        let cutoff = self.bending.cutoff(path.bend);
        let dull = 1.0 / (1.0 / cutoff + 1.0 / self.reflectance.cutoff);
        let mirrored = |image: [f32; 3], share: f32| self.arrival(image, gain * share, dull, pose);
        let [east, north, west, south] = around.walls;
        // The image in a wall at distance w of a source at distance d toward it lies at 2w − d.
        let wall = |w: f32, d: f32| {
            (2.0 * w - d, self.reflectance.wall * ((w - d) / WALL_FADE).clamp(0.0, 1.0))
        };
        let [(e, east), (n, north), (w, west), (s, south)] =
            [wall(east, x), wall(north, y), wall(west, -x), wall(south, -y)];
        let above = 2.0 * around.ceiling - source_height - height;
        [
            self.arrival([x, y, rise], gain, cutoff, pose),
            mirrored([e, y, rise], east),
            mirrored([x, n, rise], north),
            mirrored([-w, y, rise], west),
            mirrored([x, -s, rise], south),
            mirrored([x, y, -source_height - height], self.reflectance.floor),
            mirrored([x, y, above], self.reflectance.ceiling),
        ]
    }

    /// A wave from a point relative to the head, in world axes.
    fn arrival(&self, from: [f32; 3], gain: f32, cutoff: f32, pose: &Pose) -> Arrival {
        let length = from.iter().map(|d| d * d).sum::<f32>().sqrt();
        let right = pose.right();
        let toward_right: f32 = from.iter().zip(right).map(|(a, b)| a * b).sum();
        let from_right = (toward_right / length.max(1e-6)).clamp(-1.0, 1.0).acos();
        let angles = [PI - from_right, from_right];
        Arrival {
            length,
            gain: gain / length.max(REFERENCE_DISTANCE),
            brightness: 1.0 - (-TAU * cutoff / SAMPLE_RATE as f32).exp(),
            delay: angles.map(|angle| length / SPEED_OF_SOUND + self.head.delay(angle)),
            treble: angles.map(|angle| self.head.treble(angle)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f32::consts::FRAC_PI_2;

    const SURROUNDINGS: Surroundings = Surroundings { walls: [5.0, 2.0, 3.0, 4.0], ceiling: 2.5 };

    fn arrivals(direction: [f32; 2], length: f32, bend: f32) -> [Arrival; ARRIVALS] {
        let path = SoundPath { length, direction, bend };
        let pose = Pose::from_yaw_pitch([0.0, 0.0, 1.5], FRAC_PI_2, 0.0);
        Model::default().arrivals(&path, 1.0, 1.5, &pose, &SURROUNDINGS)
    }

    #[test]
    fn images_lie_behind_their_surfaces() {
        // Facing north, with a source one meter ahead.
        let heard = arrivals([0.0, 1.0], 1.0, 0.0);
        let lengths = heard.map(|arrival| arrival.length);
        let expected =
            [1.0, 10f32.hypot(1.0), 3.0, 6f32.hypot(1.0), 9.0, 3f32.hypot(1.0), 2f32.hypot(1.0)];
        for (length, expected) in lengths.iter().zip(expected) {
            assert!((length - expected).abs() < 1e-5, "{lengths:?}");
        }
        assert!((heard[0].delay[0] - heard[0].delay[1]).abs() < 1e-7, "ahead is in the middle");
        assert!(heard[1].delay[1] < heard[1].delay[0], "the east wall is on the right");
    }

    #[test]
    fn a_source_behind_a_wall_has_no_image_in_it() {
        assert_eq!(arrivals([0.0, 1.0], 2.5, 0.3)[2].gain, 0.0);
        assert!(arrivals([0.0, 1.0], 1.5, 0.3)[2].gain > 0.0);
    }

    #[test]
    fn bending_dulls_and_weakens_all_arrivals() {
        for (open, bent) in
            arrivals([1.0, 0.0], 2.0, 0.0).iter().zip(arrivals([1.0, 0.0], 2.0, 1.0))
        {
            assert!(bent.gain < 0.75 * open.gain && bent.brightness < open.brightness);
        }
    }
}
