//! Water, birds and fire.

use super::canvas::{Canvas, SECONDS};
use biquad::Type;
use std::f32::consts::TAU;

/// A running tap: broad hiss and a crowd of bubbles that rise in pitch.
pub fn water(canvas: &mut Canvas) {
    let color = canvas.draw(2600.0..4600.0);
    canvas.noise(&[(Type::BandPass, color, 0.4)], 0.5, |_| 1.0);
    for _ in 0..(canvas.draw(25.0..60.0) * SECONDS) as usize {
        let (at, hertz) = (canvas.draw(0.0..SECONDS), canvas.draw(800.0..3500.0));
        let (gain, life) = (canvas.draw(0.1..0.5), canvas.draw(0.006..0.025));
        canvas.event(at, 5.0 * life, |t| {
            gain * (TAU * hertz * (1.0 + 3.0 * t) * t).sin() * (-t / life).exp()
        });
    }
}

/// Two birds that answer each other in short whistled phrases.
pub fn birds(canvas: &mut Canvas) {
    let high = [canvas.draw(3600.0..5200.0), canvas.draw(2200.0..3400.0)];
    let mut at = 0.0;
    let mut bird = 0;
    while at < SECONDS - 0.2 {
        let (notes, bend) = (2 + canvas.pick(4), canvas.draw(-0.3..0.3));
        let length = canvas.draw(0.05..0.11);
        for note in 0..notes {
            let start = high[bird] * (1.0 + 0.06 * (note as f32 - 1.0));
            canvas.event(at, length, |t| {
                let share = t / length;
                let phase = start * t * (1.0 + 0.5 * bend * share);
                (TAU * phase).sin() * (0.5 - 0.5 * (TAU * share).cos())
            });
            at += 1.25 * length;
        }
        at += canvas.draw(0.05..0.25);
        bird = 1 - bird;
    }
}

/// A fire: rumble and crackle.
pub fn fire(canvas: &mut Canvas) {
    let flicker = canvas.cyclic(1.5);
    let breath = move |t: f32| 0.7 + 0.3 * (TAU * flicker * t).sin();
    canvas.noise(&[(Type::LowPass, 220.0, 0.7), (Type::HighPass, 40.0, 0.7)], 0.7, breath);
    for _ in 0..(canvas.draw(14.0..30.0) * SECONDS) as usize {
        let (at, life) = (canvas.draw(0.0..SECONDS), canvas.draw(0.001..0.006));
        let gain = canvas.draw(0.0..1.0f32).powi(3);
        let mut hiss = canvas.stream();
        canvas.event(at, 6.0 * life, |t| gain * hiss() * (-t / life).exp());
    }
}
