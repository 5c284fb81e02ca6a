//! Sounds of clocks and household appliances.

use super::canvas::{Canvas, SECONDS, section};
use biquad::{Biquad, Type};
use std::f32::consts::TAU;

/// A tick and a lower tock, two to four of them a second.
pub fn clock(canvas: &mut Canvas) {
    let beats = (canvas.draw(1.9..4.0) * SECONDS / 2.0).round() as usize * 2;
    let (pitch, ring) = (canvas.draw(1700.0..3200.0), canvas.draw(0.012..0.03));
    for beat in 0..beats {
        let hertz = if beat % 2 == 0 { pitch } else { 0.72 * pitch };
        let mut hiss = canvas.stream();
        canvas.event(beat as f32 / beats as f32 * SECONDS, 8.0 * ring, |t| {
            let body = (TAU * hertz * t).sin() + 0.5 * (TAU * 2.3 * hertz * t).sin();
            body * (-t / ring).exp() + hiss() * (-t / 0.002).exp()
        });
    }
}

/// Blades that chop noise over a low motor tone.
pub fn fan(canvas: &mut Canvas) {
    let motor = canvas.draw(70.0..130.0);
    let blades = canvas.cyclic_in(9.0..22.0);
    for harmonic in 1..=5 {
        canvas.tone(motor * harmonic as f32, 0.1 / harmonic as f32, |_| 1.0);
    }
    let color = canvas.draw(700.0..1400.0);
    let chop = move |t: f32| 0.65 + 0.35 * (TAU * blades * t).sin();
    canvas.noise(&[(Type::LowPass, color, 0.7), (Type::HighPass, 80.0, 0.7)], 1.4, chop);
}

/// A compressor's buzz with a slow beat and a faint rattle.
pub fn fridge(canvas: &mut Canvas) {
    let mains = canvas.draw(46.0..62.0);
    let beat = canvas.cyclic_in(0.6..1.8);
    for (harmonic, gain) in [(1, 0.7), (2, 1.0), (3, 0.35), (4, 0.5), (6, 0.3), (8, 0.15)] {
        let swell = move |t: f32| 0.75 + 0.25 * (TAU * beat * t + harmonic as f32).sin();
        canvas.tone(mains * harmonic as f32, gain, swell);
    }
    let rattle = canvas.draw(1200.0..2400.0);
    let pulse = move |t: f32| (TAU * beat * t).sin().max(0.0).powi(4);
    canvas.noise(&[(Type::BandPass, rattle, 6.0)], 0.5, pulse);
}

/// A whistle that wavers, in a hiss of steam.
pub fn kettle(canvas: &mut Canvas) {
    let pitch = canvas.draw(1500.0..2600.0);
    let waver = canvas.cyclic_in(4.0..7.0);
    let phase = move |t: f32| 0.012 * pitch / waver * (TAU * waver * t).sin();
    for (harmonic, gain) in [(1.0f32, 1.0f32), (2.0, 0.3)] {
        let hertz = canvas.cyclic(harmonic * pitch);
        canvas.event(0.0, SECONDS, |t| gain * (TAU * hertz * t + harmonic * phase(t)).sin());
    }
    canvas.noise(&[(Type::HighPass, 3000.0, 0.7)], 0.6, |t| {
        0.7 + 0.3 * (TAU * 0.5 * waver * t).sin()
    });
}

/// A drum that thumps and sloshes.
pub fn washer(canvas: &mut Canvas) {
    let turns = (canvas.draw(1.1..2.2) * SECONDS).round();
    let (thump, rate) = (canvas.draw(55.0..90.0), turns / SECONDS);
    for turn in 0..turns as usize {
        canvas.event(turn as f32 / rate, 0.3, |t| {
            2.0 * (TAU * thump * (1.0 + 0.5 * (-t / 0.03).exp()) * t).sin() * (-t / 0.08).exp()
        });
    }
    let slosh = move |t: f32| (0.5 + 0.5 * (TAU * rate * t).sin()).powi(2);
    canvas.noise(&[(Type::BandPass, 700.0, 0.8)], 1.2, slosh);
    canvas.tone(thump * 1.9, 0.25, |_| 1.0);
}

/// Keys struck in hasty, uneven bursts.
pub fn typewriter(canvas: &mut Canvas) {
    let (pace, body) = (canvas.draw(0.08..0.16), canvas.draw(600.0..1100.0));
    let mut at = 0.0;
    while at < SECONDS - pace {
        let weight = canvas.draw(0.5..1.0);
        let mut hiss = canvas.stream();
        let mut snap = section((Type::BandPass, 4.5 * body, 1.2));
        canvas.event(at, 0.05, |t| {
            let key = snap.run(hiss()) * (-t / 0.006).exp();
            weight * (3.0 * key + 0.5 * (TAU * body * t).sin() * (-t / 0.012).exp())
        });
        let pause = canvas.pick(9) == 0;
        at += pace * canvas.draw(0.6..1.6) + if pause { 0.18 } else { 0.0 };
    }
}
