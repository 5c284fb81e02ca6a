//! The spectrogram against a plain sum over samples, and what a recording may get wrong.

use super::*;
use far_data::{DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture, Split};
use far_memory::Pose;
use far_tensor::Random;
use proptest::prelude::*;
use std::f64::consts::TAU;
use std::path::Path;

fn noise(count: usize, seed: u64) -> Vec<[f32; 2]> {
    let mut values = vec![0.0; 2 * count];
    Random::stream(seed, "noise", 0).fill_normal(&mut values);
    values.chunks(2).map(|pair| [0.1 * pair[0], 0.07 * pair[1] - 0.05 * pair[0]]).collect()
}

const SMALL: AudioWindow =
    AudioWindow { rate: 1000, seconds: 0.1, transform: 32, hann: 20, hop: 10 };

fn small() -> AudioConfig {
    AudioConfig { pool: [3, 2], patch: [4, 3], ..AudioConfig::default() }
}

fn standard() -> AudioFeature {
    AudioFeature::new(AudioConfig::default(), AudioWindow::soundspaces(16_000)).unwrap()
}

/// The channels of a window by the definition: every transform a plain sum, blocks filled with zeros.
fn reference(feature: &AudioFeature, heard: &[[f32; 2]]) -> Vec<f32> {
    let AudioFeature { config, window } = feature;
    let missing = window.samples() as i64 - heard.len() as i64;
    let sample = |place: i64, ear: usize| -> f64 {
        let found = usize::try_from(place - missing).ok().and_then(|place| heard.get(place));
        found.map_or(0.0, |pair| f64::from(pair[ear]))
    };
    let transform = |number: usize, bin: usize, ear: usize| -> [f64; 2] {
        let (size, width) = (window.transform as i64, window.hann as i64);
        let first = (number * window.hop) as i64 - size / 2;
        let mut sum = [0.0; 2];
        for place in 0..width {
            let hann = 0.5 - 0.5 * (TAU * place as f64 / width as f64).cos();
            let at = (size - width) / 2 + place;
            let angle = TAU * (bin as f64 * at as f64) / size as f64;
            let value = hann * sample(first + at, ear);
            sum[0] += value * angle.cos();
            sum[1] -= value * angle.sin();
        }
        sum
    };
    let (rows, columns, channels) = (feature.rows(), feature.columns(), config.channel_count());
    let mut image = vec![0.0; channels * rows * columns];
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let [mut left, mut right, mut real, mut imaginary] = [0.0; 4];
        for bin in row * config.pool[0]..((row + 1) * config.pool[0]).min(window.bins()) {
            let last = ((column + 1) * config.pool[1]).min(window.transforms());
            for number in column * config.pool[1]..last {
                let [l, r] = [0, 1].map(|ear| transform(number, bin, ear));
                left += l[0].hypot(l[1]);
                right += r[0].hypot(r[1]);
                real += l[0] * r[0] + l[1] * r[1];
                imaginary += l[1] * r[0] - l[0] * r[1];
            }
        }
        let share = 1.0 / (config.pool[0] * config.pool[1]) as f64;
        let floor = f64::from(FLOOR);
        let [left, right, real, imaginary] = [left, right, real, imaginary].map(|sum| sum * share);
        let length = real.hypot(imaginary) + floor * floor;
        let gain = f64::from(config.gain);
        let level = (left + floor).ln() - (right + floor).ln();
        let values = [
            (gain * left).ln_1p(),
            (gain * right).ln_1p(),
            level,
            real / length,
            imaginary / length,
        ];
        let both = [(gain * 0.5 * (left + right)).ln_1p()];
        let kept = if channels == 1 { &both[..] } else { &values[..channels] };
        for (channel, value) in kept.iter().enumerate() {
            image[(channel * rows + row) * columns + column] = *value as f32;
        }
    }
    image
}

fn near(found: &[f32], expected: &[f32]) -> bool {
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 2e-4 * (1.0 + b.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn images_are_those_of_plain_sums(
        seed in 0u64..1000,
        heard in 0usize..140,
        hann in 1usize..=32,
        hop in 1usize..40,
        pool in [1usize..6, 1usize..6],
        channels in prop::sample::select(vec![AudioChannels::Five, AudioChannels::Two, AudioChannels::One]),
    ) {
        let config = AudioConfig { pool, channels, gain: 7.0, ..small() };
        let feature = AudioFeature::new(config, AudioWindow { hann, hop, ..SMALL }).unwrap();
        let samples = noise(heard, seed);
        let last = &samples[heard.saturating_sub(feature.window.samples())..];
        prop_assert!(near(&feature.image(&samples), &reference(&feature, last)));
    }

    /// Transforms that windows share are made once; that must not show.
    #[test]
    fn tracks_are_heard_window_by_window(
        seed in 0u64..1000, hop in 5usize..30, rate in 1000u32..1200, boundary in 0usize..10,
    ) {
        let feature = AudioFeature::new(small(), AudioWindow { hop, rate, ..SMALL }).unwrap();
        let mut description = DatasetDescription::new("test", 20.0, [8, 8], [90.0, 90.0]);
        description.audio_rate = Some(rate);
        let frames = 9;
        let audio = Audio { rate, samples: noise(description.audio_start(frames), seed) };
        let rows = feature.tokens(&audio, &description, frames, boundary);
        // What sounded before the return, as if it had never been.
        let mut returned = audio.clone();
        returned.samples[..description.audio_start(boundary.min(frames))].fill([0.0; 2]);
        for (frame, row) in rows.chunks(feature.shape().elements()).enumerate() {
            let heard = if frame < boundary { &audio } else { &returned };
            let image = feature.image(heard.until_frame(&description, frame, SMALL.seconds));
            let mut alone = Vec::new();
            feature.push_tokens(&image, &mut alone);
            prop_assert!(near(row, &alone));
        }
    }
}

#[test]
fn tokens_are_patches_with_channels_fastest() {
    let config = AudioConfig { channels: AudioChannels::Two, ..small() };
    let feature = AudioFeature::new(config, SMALL).unwrap();
    let (rows, columns) = (feature.rows(), feature.columns());
    assert_eq!((rows, columns), (6, 6));
    let image: Vec<f32> = (0..2 * rows * columns).map(|place| place as f32).collect();
    let mut tokens = Vec::new();
    feature.push_tokens(&image, &mut tokens);
    // Two rows of two tokens, four rows and three columns each; the lower two are half empty.
    assert_eq!(tokens.len(), feature.shape().elements());
    assert_eq!(feature.shape().tokens(), 4);
    assert_eq!(tokens[..8], [0.0, 36.0, 1.0, 37.0, 2.0, 38.0, 6.0, 42.0]);
    let third = &tokens[2 * 24..3 * 24];
    assert_eq!(third[..2], [24.0, 60.0]);
    assert!(third[12..].iter().all(|value| *value == 0.0));
}

#[test]
fn silence_has_no_level_and_no_direction() {
    let feature = standard();
    assert!(feature.image(&[]).iter().all(|value| *value == 0.0));
    assert!(feature.image(&[[0.0; 2]; 16_000]).iter().all(|value| *value == 0.0));
}

#[test]
fn a_delayed_and_weaker_ear_shows_in_phase_and_level() {
    let feature = standard();
    // 1000 Hz, bin 32, row 8; the right ear hears it a quarter of a period later and half as loud.
    let wave = |i: f64| (TAU * 1000.0 * i / 16_000.0).sin() as f32;
    let samples: Vec<[f32; 2]> =
        (0..16_000).map(|i| [wave(i.into()), 0.5 * wave(f64::from(i) - 4.0)]).collect();
    let image = feature.image(&samples);
    let at = |channel: usize| image[(channel * 65 + 8) * 26 + 12];
    assert!((at(2) - 2f32.ln()).abs() < 0.01, "{}", at(2));
    assert!(at(3).abs() < 0.05 && at(4) > 0.99, "{} {}", at(3), at(4));
}

#[test]
fn settings_that_make_no_features_are_named() {
    let refused = |config: AudioConfig| config.check().unwrap_err().to_string();
    let right = AudioConfig::default();
    right.check().unwrap();
    assert!(refused(AudioConfig { pool: [4, 0], ..right }).contains("audio.pool"));
    assert!(refused(AudioConfig { patch: [0, 4], ..right }).contains("audio.patch"));
    assert!(refused(AudioConfig { gain: 0.0, ..right }).contains("audio.gain"));
}

/// A dataset with one episode of two frames and sound.
fn recording(folder: &Path) -> far_data::Dataset {
    let mut description = DatasetDescription::new("test", 10.0, [8, 8], [90.0, 90.0]);
    description.audio_rate = Some(16_000);
    description.cues.push(AUDIO_CUE.into());
    let writer = DatasetWriter::create(folder, description).unwrap();
    let facts = EpisodeFacts::new("hall", Split::Train, 0);
    let mut episode = writer.episode(0, facts).unwrap();
    for (number, phase) in [Phase::Explore, Phase::Return].into_iter().enumerate() {
        let image = FrameImage::Pixels(Picture::filled(8, 8, [9; 3]));
        let mut frame = Frame::new(number as f64 / 10.0, Pose::default(), phase, image);
        frame.audio = noise(1600, number as u64);
        episode.push(frame).unwrap();
    }
    episode.finish().unwrap();
    writer.finish().unwrap();
    far_data::Dataset::open(folder).unwrap()
}

#[test]
fn a_recording_without_its_sound_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = recording(folder.path());
    let episode = dataset.episode(0).unwrap();
    let config = AudioConfig::default();
    let feature = AudioFeature::of(dataset.description(), config).unwrap();
    assert_eq!(CueFeature::rows(&feature, &episode).unwrap().len(), 2 * 143 * 60);
    let path = episode.audio_path();
    let write = |rate: u32, samples: &[f32]| {
        let spec = hound::WavSpec {
            channels: 2,
            sample_rate: rate,
            bits_per_sample: 32,
            sample_format: hound::SampleFormat::Float,
        };
        let mut writer = hound::WavWriter::create(&path, spec).unwrap();
        samples.iter().for_each(|sample| writer.write_sample(*sample).unwrap());
        writer.finalize().unwrap();
    };
    let refused = || CueFeature::rows(&feature, &episode).unwrap_err().to_string();
    write(8000, &[0.0; 6400]);
    assert!(refused().contains("8000 samples per second"), "{}", refused());
    write(16_000, &[0.0; 6398]);
    assert!(refused().contains("3199 samples where 3200 are due"), "{}", refused());
    let mut broken = [0.0; 6400];
    broken[77] = f32::NAN;
    write(16_000, &broken);
    assert!(refused().contains("the sound of episode 0 has NaN at place 77"), "{}", refused());
    std::fs::remove_file(&path).unwrap();
    assert!(refused().contains("audio"), "{}", refused());
    let mut description = dataset.description().clone();
    description.audio_rate = Some(44_100);
    let feature = AudioFeature::of(&description, config).unwrap();
    assert_eq!((feature.rows(), feature.columns()), (65, 69));
    description.audio_rate = None;
    let refused = AudioFeature::of(&description, config).unwrap_err().to_string();
    assert!(refused.contains("no audio_rate"), "{refused}");
}
