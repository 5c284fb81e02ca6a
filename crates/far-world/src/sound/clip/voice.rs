//! Speech-like babble.

use super::canvas::{Canvas, SECONDS, section};
use crate::sound::SAMPLE_RATE;
use biquad::{Biquad, Type};
use std::f32::consts::PI;

/// First three formants of some vowels of a deep voice, in hertz.
const VOWELS: [[f32; 3]; 6] = [
    [730.0, 1090.0, 2440.0],
    [270.0, 2290.0, 3010.0],
    [530.0, 1840.0, 2480.0],
    [570.0, 840.0, 2410.0],
    [300.0, 870.0, 2240.0],
    [490.0, 1350.0, 1690.0],
];

/// A voice that joins syllables: pulses of the vocal folds through three formants, with a hissed
/// consonant before some.
pub fn babble(canvas: &mut Canvas) {
    let (voice, size) = (canvas.draw(95.0..230.0), canvas.draw(0.95..1.2));
    let pace = canvas.draw(0.15..0.23);
    let mut at = 0.0;
    while at < SECONDS - pace {
        let length = pace * canvas.draw(0.8..1.3);
        let hertz = voice * canvas.draw(0.85..1.2);
        let fall = canvas.draw(-0.2..0.08);
        let vowel = VOWELS[canvas.pick(VOWELS.len())];
        let mut formants = vowel.map(|f| section((Type::BandPass, size * f, size * f / 110.0)));
        let hissed = canvas.pick(3) == 0;
        let mut hiss = canvas.stream();
        let mut teeth = section((Type::HighPass, 3500.0, 0.7));
        let mut phase = 0.0;
        canvas.event(at, length, |t| {
            let share = t / length;
            phase += hertz * (1.0 + fall * share) / SAMPLE_RATE as f32;
            let pulse = if phase >= 1.0 { 1.0 } else { 0.0 };
            phase %= 1.0;
            let vowel: f32 =
                formants.iter_mut().zip([1.0, 0.6, 0.3]).map(|(f, gain)| gain * f.run(pulse)).sum();
            let consonant =
                if hissed { 0.012 * teeth.run(hiss()) * (-t / 0.02).exp() } else { 0.0 };
            (PI * share).sin().sqrt() * (vowel + consonant)
        });
        at += length + if canvas.pick(6) == 0 { 0.2 } else { 0.0 };
    }
}
