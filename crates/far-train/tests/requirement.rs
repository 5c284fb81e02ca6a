//! Datasets that lack what a configuration needs.

use far_data::{
    Dataset, DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, ImageEncoding,
    Phase, Picture, Split,
};
use far_memory::Pose;
use far_train::{CueRegistry, TrainConfig, check_dataset};

/// What is wrong with a dataset of one short episode, described as `change` says, for this run.
fn refusal(change: impl Fn(&mut DatasetDescription), sets: &[&str]) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut description = DatasetDescription::new("test", 10.0, [4, 4], [90.0, 90.0]);
    change(&mut description);
    let images = description.images;
    let writer = DatasetWriter::create(folder.path(), description).expect("a recording");
    let facts = EpisodeFacts::new("scene", Split::Train, 0);
    let mut episode = writer.episode(0, facts).expect("an episode");
    for (index, phase) in [Phase::Explore, Phase::Return].into_iter().enumerate() {
        let pose = Pose::from_yaw_pitch([index as f32, 0.0, 0.0], 0.0, 0.0);
        let image = match images {
            ImageEncoding::None => FrameImage::Absent,
            _ => FrameImage::Pixels(Picture { width: 4, height: 4, pixels: vec![0; 48] }),
        };
        episode.push(Frame::new(index as f64 / 10.0, pose, phase, image)).expect("a frame");
    }
    episode.finish().expect("an episode");
    writer.finish().expect("a recording");
    let dataset = Dataset::open(folder.path()).expect("it opens");
    let config = TrainConfig::resolve("quick", sets).expect("a configuration");
    let error = check_dataset(&config, &CueRegistry::of(&config), &dataset).err()?;
    assert!(error.hint().contains("far data inspect"));
    Some(error.to_string())
}

#[test]
fn a_dataset_that_has_everything_is_accepted() {
    for arm in ["arm.id=far-multi", "arm.id=worldmem", "arm.id=temporal"] {
        assert_eq!(refusal(|_| {}, &[arm]), None);
    }
}

#[test]
fn what_is_missing_is_named_with_what_needs_it() {
    let without = |cue: &'static str| {
        move |description: &mut DatasetDescription| description.cues.retain(|name| name != cue)
    };
    let check = |found: Option<String>, words: [&str; 2]| {
        let message = found.expect("something is missing");
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
        assert!(!message.contains('\n'), "{message}");
    };
    check(refusal(without("vision"), &["arm.id=far-vision"]), ["cue `vision`", "`far-vision`"]);
    check(refusal(|_| {}, &["arm.cue=audio"]), ["cue `audio`", "`far-multi`"]);
    check(refusal(|_| {}, &["tokenizer.kind=taef2"]), ["multiples of 16 pixels", "\"taef2\""]);
    check(refusal(|_| {}, &["arm.also=[\"audio\"]"]), ["cue `audio`", "`far-multi`"]);
    check(refusal(without("metadata"), &["arm.id=nearest-pose"]), ["poses", "`nearest-pose`"]);
    check(refusal(without("metadata"), &["arm.id=far-meta"]), ["poses", "`far-meta`"]);
    let blind = |description: &mut DatasetDescription| description.images = ImageEncoding::None;
    check(refusal(blind, &["arm.id=far-meta"]), ["pictures", "tokenizer"]);
    check(refusal(blind, &["tokenizer.kind=precomputed"]), ["latents", "precomputed"]);
    let mask = r#"training.change_mask={ source = "change", coefficient = 1 }"#;
    check(refusal(|_| {}, &[mask]), ["signal `change`", "change_mask"]);
    assert_eq!(refusal(without("metadata"), &["arm.id=temporal"]), None);
}
