//! Spectrograms against SciPy (`scripts/make_audio_fixtures.py`).

#[path = "../../far-tensor/tests/fixture/mod.rs"]
mod fixture;

use far_model::{AudioConfig, AudioFeature, AudioWindow};
use fixture::{Fixture, assert_near};

/// Numbers in [0, 1) that depend on their place and the stream alone, as in the script.
fn uniform(place: u32, stream: u32) -> f32 {
    let start = stream.wrapping_mul(2_891_336_453).wrapping_add(1);
    let mut x = place.wrapping_mul(747_796_405).wrapping_add(start);
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    ((x ^ (x >> 16)) >> 8) as f32 / (1 << 24) as f32
}

fn sound(count: u32, stream: u32) -> Vec<[f32; 2]> {
    let noise = |place| uniform(place, stream) - 0.5;
    let pair = |place| [noise(2 * place), noise(2 * place + 1)];
    (0..count).map(pair).map(|[a, b]| [0.2 * a, 0.1 * b + 0.05 * a]).collect()
}

#[test]
fn spectrograms_are_scipys() {
    let fixture = Fixture::load("audio");
    let standard = AudioWindow::soundspaces(16_000);
    let replica = AudioWindow { seconds: 0.25, ..AudioWindow::soundspaces(44_100) };
    let cases =
        [("second", 1.0, standard, sound(16_000, 1)), ("start", 30.0, replica, sound(6000, 2))];
    for (name, gain, window, samples) in cases {
        let expected = fixture.tensor(name);
        let config = AudioConfig { gain, ..AudioConfig::default() };
        let found = AudioFeature::new(config, window).unwrap().image(&samples);
        assert_near(name, &found, expected.values(), 1e-4);
    }
}
