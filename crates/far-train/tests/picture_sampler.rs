//! Crops that a tokenizer is trained on.

use far_data::{
    Dataset, DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture,
    Split,
};
use far_memory::Pose;
use far_train::PictureSampler;
use tempfile::TempDir;

/// Two frames of these sides whose red is the column, whose green is the row and whose blue is `blue`.
fn dataset([width, height]: [u32; 2], blue: u8) -> (TempDir, Dataset) {
    let folder = tempfile::tempdir().expect("a folder");
    let description = DatasetDescription::new("test", 10.0, [width, height], [90.0, 90.0]);
    let writer = DatasetWriter::create(folder.path(), description).expect("a recording");
    let facts = EpisodeFacts::new("scene", Split::Train, 0);
    let mut episode = writer.episode(0, facts).expect("an episode");
    for (index, phase) in [Phase::Explore, Phase::Return].into_iter().enumerate() {
        let pixels = (0..width * height)
            .flat_map(|place| [(place % width) as u8, (place / width) as u8, blue + index as u8]);
        let picture = Picture { width, height, pixels: pixels.collect() };
        let pose = Pose::from_yaw_pitch([index as f32, 0.0, 0.0], 0.0, 0.0);
        let frame = Frame::new(index as f64 / 10.0, pose, phase, FrameImage::Pixels(picture));
        episode.push(frame).expect("a frame");
    }
    episode.finish().expect("an episode");
    writer.finish().expect("a recording");
    let opened = Dataset::open(folder.path()).expect("it opens");
    (folder, opened)
}

/// Frames of 32 × 16 and of 100 × 70 pixels.
fn sampler(seed: u64) -> ([TempDir; 2], PictureSampler) {
    let (small, first) = dataset([32, 16], 10);
    let (large, second) = dataset([100, 70], 200);
    let sampler = PictureSampler::new(vec![first, second], 1, seed).expect("there are frames");
    ([small, large], sampler)
}

#[test]
fn crops_are_runs_of_neighboring_pixels_as_large_as_their_frames() {
    let (_folders, sampler) = sampler(3);
    let (mut frames, mut turned) = (Vec::new(), Vec::new());
    for number in 0..40 {
        let batch = sampler.draw(number).expect("a batch");
        let [count, height, width, colors] = *batch.shape().extents() else { panic!("a picture") };
        // About as many pixels as one picture of 128 × 128, in crops of the frames' own size.
        assert_eq!((count, colors), (128 * 128 / (width * height), 3));
        for crop in batch.values().chunks_exact(width * height * 3) {
            let color = |x: usize, y: usize| {
                [0, 1, 2].map(|c| (255.0 * crop[3 * (width * y + x) + c]).round() as i32)
            };
            let [left, top, blue] = color(0, 0);
            let step = color(1, 0)[0] - left;
            assert!(step.abs() == 1, "columns follow each other: {step}");
            for (x, y) in [(width - 1, 0), (0, height - 1), (width - 1, height - 1), (7, 9)] {
                assert_eq!(color(x, y), [left + step * x as i32, top + y as i32, blue]);
            }
            frames.push(([width, height], blue));
            turned.push(step);
        }
    }
    frames.sort_unstable();
    frames.dedup();
    let [small, large] = [[32, 16], [96, 64]];
    assert_eq!(frames, [(small, 10), (small, 11), (large, 200), (large, 201)]);
    assert!(turned.contains(&1) && turned.contains(&-1));
}

#[test]
fn datasets_of_one_size_share_batches() {
    let ([_first, _second], [first, second]) = {
        let (folder, data) = dataset([32, 32], 10);
        let (other, more) = dataset([32, 32], 200);
        ([folder, other], [data, more])
    };
    let sampler = PictureSampler::new(vec![first, second], 1, 5).expect("there are frames");
    let batch = sampler.draw(0).expect("a batch");
    let blue = |crop: &[f32]| crop[2] > 0.5;
    let of_second = batch.values().chunks_exact(32 * 32 * 3).filter(|crop| blue(crop)).count();
    assert!((1..16).contains(&of_second), "{of_second} of 16");
}

#[test]
fn a_batch_is_a_function_of_seed_and_number() {
    let ([_a, _b], first) = sampler(3);
    let ([_c, _d], again) = sampler(3);
    let ([_e, _f], other) = sampler(4);
    let values = |sampler: &PictureSampler, number| sampler.draw(number).unwrap().values().to_vec();
    assert_eq!(values(&first, 5), values(&again, 5));
    assert_ne!(values(&first, 5), values(&first, 6));
    assert_ne!(values(&first, 5), values(&other, 5));
}
