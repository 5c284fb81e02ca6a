//! Binaural sound for walks through a floor plan.
//!
//! The pipeline, one file each:
//!
//! | file | content |
//! |---|---|
//! | `floor` | which cells of a floor block sound; lines of sight and distances to walls |
//! | `geodesic` | the shortest path of sound around corners: length, direction of arrival, bend |
//! | `head` | a spherical head: delay and shadowing at each ear |
//! | `clip` | seamless loops of household sounds, synthesized from a seed |
//! | `arrival` | the direct sound and six first reflections of one source at one pose |
//! | `tap` | one arrival at both ears: fractional delay, gain and two filters, all interpolated |
//! | `soundscape` | sources on a floor; renders stereo samples for a walk |
//!
//! Amplitudes follow one model: a source of gain `g` at path length `d` arrives with
//! `g / max(d, 1 m)`, less [`Bending`]'s loss where corners bend the path.

mod arrival;
mod clip;
mod floor;
mod geodesic;
mod head;
mod soundscape;
mod tap;
#[cfg(test)]
mod tests;

pub use arrival::{Bending, Model, REFERENCE_DISTANCE, Reflectance};
pub use clip::{CLIP_SAMPLES, Clip, ClipKind};
pub use floor::Floor;
pub use geodesic::{Corners, SoundPath, SourceField};
pub use head::SphericalHead;
pub use soundscape::{Listener, Soundscape, Source};

/// Samples per second and ear.
pub const SAMPLE_RATE: u32 = 16_000;

/// Speed of sound in meters per second.
pub const SPEED_OF_SOUND: f32 = 343.0;
