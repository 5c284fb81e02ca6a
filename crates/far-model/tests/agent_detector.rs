//! The detector in a made-up corpus: somebody is a bright square on a busy background.

use far_data::{
    AgentState, Dataset, DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Mask,
    Phase, Picture, Signal, Split,
};
use far_memory::Pose;
use far_model::{EncodedDataset, LatentDetector, LatentDetectorConfig, PatchPca, PatchPcaConfig};
use far_tensor::{Device, Random};
use std::path::Path;
use std::sync::Arc;

const SIZE: u32 = 16;

/// Whether somebody is in a frame, and the column of its left edge.
fn agent(episode: u32, frame: u32) -> Option<u32> {
    frame.is_multiple_of(3).then_some((5 * episode + frame) % 11)
}

fn picture(episode: u32, frame: u32) -> Picture {
    let mut random = Random::stream(u64::from(episode), "background", u64::from(frame));
    let mut picture = Picture::filled(SIZE, SIZE, [0; 3]);
    picture.pixels.iter_mut().for_each(|value| *value = 60 + (60.0 * random.uniform()) as u8);
    if let Some(left) = agent(episode, frame) {
        for (x, y) in (left..left + 5).flat_map(|x| (4..12).map(move |y| (x, y))) {
            picture.set_pixel(x, y, [240, 200, 220]);
        }
    }
    picture
}

fn corpus(folder: &Path) -> EncodedDataset {
    let mut description = DatasetDescription::new("squares", 10.0, [SIZE, SIZE], [90.0, 90.0]);
    description.signals.push(Signal::Agent);
    let writer = DatasetWriter::create(folder, description).unwrap();
    for id in 0..6 {
        let split = if id == 5 { Split::Test } else { Split::Train };
        let mut episode = writer.episode(id, EpisodeFacts::new("square", split, 0)).unwrap();
        for number in 0..24 {
            let phase = if number < 12 { Phase::Explore } else { Phase::Return };
            let pose = Pose::from_yaw_pitch([number as f32, 0.0, 1.6], 0.0, 0.0);
            let image = FrameImage::Pixels(picture(id, number));
            let mut frame = Frame::new(f64::from(number) / 10.0, pose, phase, image);
            if let Some(left) = agent(id, number) {
                frame.agent = AgentState { visible: true, position: [0.0, 2.0] };
                let inside = |x, y| (left..left + 5).contains(&x) && (4..12).contains(&y);
                frame.silhouette = Some(Mask::from_fn(SIZE, SIZE, inside));
            }
            episode.push(frame).unwrap();
        }
        episode.finish().unwrap();
    }
    writer.finish().unwrap();
    let dataset = Arc::new(Dataset::open(folder).unwrap());
    let config =
        PatchPcaConfig { resolution: [16, 16], patch: 2, channels: 4, frames: 40, group: 2 };
    let tokenizer = PatchPca::fit(&dataset, &[0, 1, 2, 3, 4], config).unwrap();
    EncodedDataset::new(dataset, Arc::new(tokenizer), Vec::new(), folder.join("cache"), 1 << 24)
}

#[test]
fn somebody_is_found_in_frames_that_were_never_seen() {
    let folder = tempfile::tempdir().unwrap();
    let data = corpus(folder.path());
    let config = LatentDetectorConfig { steps: 60, ..Default::default() };
    let mut heard = 0;
    let fit = |heard: &mut u32| {
        let episodes = [0, 1, 2, 3, 4];
        LatentDetector::fit(&data, &episodes, config, 3, &Device::cpu(), || *heard += 1).unwrap()
    };
    let detector = fit(&mut heard);
    assert_eq!(heard, 60);
    assert_eq!(detector.calibrated(), [1.0, 0.0], "{:?}", detector.firing());
    let held_out = data.episode(5).unwrap();
    let latents: Vec<f32> = (0..24).flat_map(|frame| held_out.latent(frame).to_vec()).collect();
    let found = detector.fires(&latents).unwrap();
    let expected: Vec<bool> = (0..24).map(|frame| agent(5, frame).is_some()).collect();
    assert_eq!(found, expected);
    assert!(detector.fires(&latents[1..]).is_err());

    let path = folder.path().join("detector.safetensors");
    detector.save(&path).unwrap();
    let read = LatentDetector::load(&path, &Device::cpu()).unwrap();
    assert_eq!((read.fires(&latents).unwrap(), read.firing()), (found, detector.firing()));
    read.check_input(&data.tokenizer().recipe()).unwrap();
    assert!(read.check_input("another tokenizer").is_err());
    // The same seed, the same bytes.
    let again = folder.path().join("again.safetensors");
    fit(&mut heard).save(&again).unwrap();
    assert!(std::fs::read(&path).unwrap() == std::fs::read(&again).unwrap());
}

#[test]
fn a_corpus_without_an_agent_has_no_detector() {
    let folder = tempfile::tempdir().unwrap();
    let data = corpus(folder.path());
    let config = LatentDetectorConfig::default();
    let refused = LatentDetector::fit(&data, &[], config, 3, &Device::cpu(), || {});
    let message = refused.err().expect("nothing to learn from").to_string();
    assert!(message.contains("with and without an agent"), "{message}");
}
