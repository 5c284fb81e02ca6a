//! Sounds with a melody.

use super::canvas::{Canvas, SECONDS};
use std::f32::consts::TAU;

/// Plucked steel teeth over a five-note scale.
pub fn music_box(canvas: &mut Canvas) {
    const SCALE: [f32; 8] = [1.0, 1.122, 1.26, 1.498, 1.682, 2.0, 2.245, 2.52];
    let root = canvas.draw(500.0..800.0);
    let notes = (canvas.draw(3.2..5.2) * SECONDS).round() as usize;
    let mut degree = canvas.pick(SCALE.len());
    for note in 0..notes {
        let leap = canvas.pick(5) + SCALE.len() - 2;
        degree = (degree + leap) % SCALE.len();
        let hertz = root * SCALE[degree];
        canvas.event(note as f32 / notes as f32 * SECONDS, 0.9, |t| {
            let partial =
                |ratio: f32, life: f32| (TAU * ratio * hertz * t).sin() * (-t / life).exp();
            partial(1.0, 0.28) + 0.4 * partial(2.76, 0.1) + 0.15 * partial(5.4, 0.03)
        });
    }
}

/// A two-tone ring with short breaks.
pub fn telephone(canvas: &mut Canvas) {
    let rings = (canvas.draw(1.1..1.9) * SECONDS).round() as usize;
    let low = canvas.draw(1200.0..1700.0);
    let (high, trill) = (low * canvas.draw(1.15..1.4), canvas.draw(16.0..26.0));
    let period = SECONDS / rings as f32;
    let length = 0.62 * period;
    for ring in 0..rings {
        canvas.event(ring as f32 * period, length, |t| {
            let edge = (t / 0.01).min((length - t) / 0.01).clamp(0.0, 1.0);
            let first = (TAU * trill * t).sin() > 0.0;
            let hertz = if first { low } else { high };
            let tone = (TAU * hertz * t).sin();
            edge * (tone + 0.4 * (3.0 * TAU * hertz * t).sin())
        });
    }
}
