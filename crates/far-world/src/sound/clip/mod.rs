//! Household sounds as seamless loops, made from a kind and a variant number.
//!
//! Audio cues cover about one second, so no kind is silent for longer than half a second, and kinds
//! differ in their spectrum and in how it changes.

mod appliance;
mod canvas;
mod nature;
mod tune;
mod voice;

use canvas::Canvas;
use std::fmt;

/// Samples in a loop: 8.192 s at 16 kHz. A power of two, so that reading wraps with a mask.
pub const CLIP_SAMPLES: usize = 1 << 17;

/// Clips are scaled to this root mean square …
const LOUDNESS: f32 = 0.08;
/// … unless peaks would exceed this.
const PEAK: f32 = 0.4;

far_memory::named! {
    /// Kind of a clip.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum ClipKind {
        /// Ticks and tocks.
        Clock = "clock",
        /// A running tap.
        Water = "water",
        /// Chopped air over a motor.
        Fan = "fan",
        /// A plucked tune.
        MusicBox = "music-box",
        /// A voice without words.
        Babble = "babble",
        /// A low buzz.
        Fridge = "fridge",
        /// Whistled phrases.
        Birds = "birds",
        /// A whistle in steam.
        Kettle = "kettle",
        /// Thumps and sloshing.
        Washer = "washer",
        /// A trilled ring.
        Telephone = "telephone",
        /// Hasty keys.
        Typewriter = "typewriter",
        /// Rumble and crackle.
        Fire = "fire",
    }
}

impl fmt::Display for ClipKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One loop of sound at 16 kHz, mono.
#[derive(Clone)]
pub struct Clip {
    kind: ClipKind,
    variant: u32,
    /// The loop with one sample before and two after it, which interpolation needs.
    padded: Box<[f32; CLIP_SAMPLES + 3]>,
}

impl fmt::Debug for Clip {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Clip({} {})", self.kind, self.variant)
    }
}

impl Clip {
    /// Synthesizes a clip; the variant determines its pitch, tempo and course.
    pub fn synthesize(kind: ClipKind, variant: u32) -> Self {
        let mut canvas = Canvas::new((u64::from(variant) << 8) | kind as u64);
        match kind {
            ClipKind::Clock => appliance::clock(&mut canvas),
            ClipKind::Water => nature::water(&mut canvas),
            ClipKind::Fan => appliance::fan(&mut canvas),
            ClipKind::MusicBox => tune::music_box(&mut canvas),
            ClipKind::Babble => voice::babble(&mut canvas),
            ClipKind::Fridge => appliance::fridge(&mut canvas),
            ClipKind::Birds => nature::birds(&mut canvas),
            ClipKind::Kettle => appliance::kettle(&mut canvas),
            ClipKind::Washer => appliance::washer(&mut canvas),
            ClipKind::Telephone => tune::telephone(&mut canvas),
            ClipKind::Typewriter => appliance::typewriter(&mut canvas),
            ClipKind::Fire => nature::fire(&mut canvas),
        }
        Self::from_samples(kind, variant, normalized(canvas.samples))
    }

    /// A clip from given samples, unchanged; shorter loops are repeated and longer ones cut to
    /// [`CLIP_SAMPLES`].
    pub fn from_samples(kind: ClipKind, variant: u32, samples: Vec<f32>) -> Self {
        let at = |i: usize| samples.get(i % samples.len().max(1)).copied().unwrap_or(0.0);
        let padded: Vec<f32> =
            (0..CLIP_SAMPLES + 3).map(|i| at((i + CLIP_SAMPLES - 1) % CLIP_SAMPLES)).collect();
        let padded = padded.into_boxed_slice().try_into().expect("length is CLIP_SAMPLES + 3");
        Self { kind, variant, padded }
    }

    /// What it sounds like.
    pub fn kind(&self) -> ClipKind {
        self.kind
    }

    /// The variant of this kind.
    pub fn variant(&self) -> u32 {
        self.variant
    }

    /// The loop, [`CLIP_SAMPLES`] long.
    pub fn samples(&self) -> &[f32] {
        &self.padded[1..=CLIP_SAMPLES]
    }

    /// The loop with one sample before it and two after it.
    pub(super) fn padded(&self) -> &[f32; CLIP_SAMPLES + 3] {
        &self.padded
    }
}

fn normalized(mut samples: Vec<f32>) -> Vec<f32> {
    let mean = samples.iter().sum::<f32>() / samples.len() as f32;
    samples.iter_mut().for_each(|x| *x -= mean);
    let power = samples.iter().map(|x| x * x).sum::<f32>() / samples.len() as f32;
    let peak = samples.iter().fold(1e-9f32, |peak, x| peak.max(x.abs()));
    let factor = (LOUDNESS / power.sqrt().max(1e-9)).min(PEAK / peak);
    samples.iter_mut().for_each(|x| *x *= factor);
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean power in octave bands from 62 Hz up, by differences of one-pole low passes, and how
    /// much the power of 32 ms pieces varies: a rough fingerprint of a sound.
    fn portrait(samples: &[f32]) -> Vec<f32> {
        let mut low = [0.0f32; 8];
        let mut power = [0.0f32; 9];
        for &x in samples {
            let mut upper = x;
            for band in (0..8).rev() {
                let cutoff = 62.5 * (1 << band) as f32;
                low[band] +=
                    (1.0 - (-std::f32::consts::TAU * cutoff / 16e3).exp()) * (upper - low[band]);
                power[band + 1] += (upper - low[band]).powi(2);
                upper = low[band];
            }
            power[0] += upper * upper;
        }
        let total: f32 = power.iter().sum();
        let pieces: Vec<f32> =
            samples.chunks(512).map(|piece| piece.iter().map(|x| x * x).sum::<f32>()).collect();
        let mean = pieces.iter().sum::<f32>() / pieces.len() as f32;
        let spread = pieces.iter().map(|p| (p - mean).powi(2)).sum::<f32>() / pieces.len() as f32;
        let mut portrait: Vec<f32> = power.iter().map(|p| (p / total).sqrt()).collect();
        portrait.push((spread.sqrt() / mean).min(4.0) / 2.0);
        portrait
    }

    #[test]
    fn kinds_differ_more_than_variants_can_hide() {
        let clips: Vec<Vec<f32>> = ClipKind::ALL
            .iter()
            .map(|&kind| portrait(Clip::synthesize(kind, 3).samples()))
            .collect();
        for (i, a) in clips.iter().enumerate() {
            for (j, b) in clips.iter().enumerate().skip(i + 1) {
                let distance = a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum::<f32>().sqrt();
                let (a, b) = (ClipKind::ALL[i], ClipKind::ALL[j]);
                assert!(distance > 0.15, "{a} and {b} are too alike: {distance}");
            }
        }
    }

    #[test]
    fn clips_are_finite_level_and_repeatable() {
        for kind in ClipKind::ALL {
            for variant in [0, 7] {
                let clip = Clip::synthesize(kind, variant);
                assert_eq!(clip.samples(), Clip::synthesize(kind, variant).samples());
                let power = clip.samples().iter().map(|x| x * x).sum::<f32>() / CLIP_SAMPLES as f32;
                assert!(power.sqrt() > 0.01 && power.sqrt() < 0.081, "{kind}: {}", power.sqrt());
                assert!(clip.samples().iter().all(|x| x.abs() <= 0.401), "{kind}");
            }
            assert_ne!(Clip::synthesize(kind, 0).samples(), Clip::synthesize(kind, 1).samples());
        }
    }

    #[test]
    fn loops_have_no_seam() {
        for kind in ClipKind::ALL {
            let clip = Clip::synthesize(kind, 1);
            let samples = clip.samples();
            let steps = samples.windows(2).map(|pair| (pair[1] - pair[0]).abs());
            let largest = steps.fold(0.0f32, f32::max);
            let seam = (samples[0] - samples[CLIP_SAMPLES - 1]).abs();
            assert!(seam <= largest, "{kind}: {seam} against {largest}");
        }
    }

    #[test]
    fn no_kind_is_silent_for_half_a_second() {
        for kind in ClipKind::ALL {
            for variant in 0..6 {
                let clip = Clip::synthesize(kind, variant);
                let loudest = |piece: &[f32]| piece.iter().fold(0.0f32, |m, x| m.max(x.abs()));
                let quiet = clip.samples().windows(8000).step_by(400).map(loudest);
                let quietest = quiet.fold(f32::INFINITY, f32::min);
                assert!(quietest > 0.01, "{kind} {variant}: {quietest}");
            }
        }
    }
}
