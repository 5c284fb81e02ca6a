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
fn crops_have_one_size_and_are_runs_of_neighboring_pixels() {
    let (_folders, sampler) = sampler(3);
    let (mut sources, mut turned) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let batch = sampler.draw(number).expect("a batch");
        // As many pixels as one picture of 128 × 128, in crops of the smaller frames' size.
        assert_eq!(batch.shape().extents(), [128 * 128 / (32 * 16), 16, 32, 3]);
        for crop in batch.values().chunks_exact(16 * 32 * 3) {
            let color = |x: usize, y: usize| {
                [0, 1, 2].map(|c| (255.0 * crop[3 * (32 * y + x) + c]).round() as i32)
            };
            let [left, top, blue] = color(0, 0);
            let step = color(1, 0)[0] - left;
            assert!(step.abs() == 1, "columns follow each other: {step}");
            for (x, y) in [(31, 0), (0, 15), (31, 15), (7, 9)] {
                assert_eq!(color(x, y), [left + step * x as i32, top + y as i32, blue]);
            }
            sources.push(blue);
            turned.push(step);
        }
    }
    for expected in [10, 11, 200, 201] {
        assert!(sources.contains(&expected), "frame {expected} was never drawn");
    }
    assert!(turned.contains(&1) && turned.contains(&-1));
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
