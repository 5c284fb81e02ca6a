//! Corpora with a second agent, small enough to reckon with by hand.

use crate::testing::{ColorTokenizer, EXPLORED, SIZE};
use far_data::{
    AgentState, Dataset, DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Mask,
    Pair, Phase, Picture, Signal, Split,
};
use far_memory::Pose;
use far_model::{ConditioningConfig, EncodedDataset};
use std::sync::Arc;

/// The road with a second agent in every third frame, on which the world model is conditioned.
pub fn watched_road(lengths: &[usize]) -> (tempfile::TempDir, EncodedDataset) {
    let mut description = DatasetDescription::new("road", 10.0, [SIZE, SIZE], [90.0, 90.0]);
    description.signals.push(Signal::Agent);
    let conditioning = ConditioningConfig { agent: true, ..ConditioningConfig::default() };
    let (folder, dataset) = recorded(description, lengths.len() as u32, |id, writer| {
        let facts = EpisodeFacts::new("road", Split::Test, 0);
        let mut episode = writer.episode(id, facts).expect("a new episode");
        for number in 0..EXPLORED + lengths[id as usize] {
            let mut frame = plain_frame(number, EXPLORED);
            if number % 3 == 0 {
                frame = with_agent(frame, number as f32);
            }
            episode.push(frame).expect("a frame");
        }
        episode.finish().expect("a whole episode");
    });
    (folder, dataset.with_conditioning(conditioning))
}

/// The road along a wall: frame n of the way out sees its faces n to n + 4, as does every frame of the
/// way back from the same place.
pub fn walled_road(lengths: &[usize]) -> (tempfile::TempDir, EncodedDataset) {
    let mut description = DatasetDescription::new("road", 10.0, [SIZE, SIZE], [90.0, 90.0]);
    description.signals.push(Signal::VisibleFaces);
    recorded(description, lengths.len() as u32, |id, writer| {
        let facts = EpisodeFacts::new("road", Split::Test, 0);
        let mut episode = writer.episode(id, facts).expect("a new episode");
        for number in 0..EXPLORED + lengths[id as usize] {
            let mut frame = plain_frame(number, EXPLORED);
            let place = if number < EXPLORED { number } else { 2 * EXPLORED - 1 - number } as u32;
            frame.visible_faces = (place..place + 5).collect();
            episode.push(frame).expect("a frame");
        }
        episode.finish().expect("a whole episode");
    })
}

/// Three episodes of a corridor: somebody crosses and is found at one end, a counterfactual where it was
/// never seen to cross, and a static control.
pub fn corridor() -> (tempfile::TempDir, EncodedDataset) {
    let mut description = DatasetDescription::new("corridor", 10.0, [SIZE, SIZE], [90.0, 90.0]);
    description.signals.extend([Signal::Agent, Signal::Events, Signal::States]);
    description.labels = vec!["transit".into()];
    let partners = [(1, "factual"), (0, "counterfactual"), (3, "control"), (2, "acted")];
    recorded(description, 4, |id, writer| {
        let (partner, role) = partners[id as usize];
        let mut facts = EpisodeFacts::new("hall", Split::Test, 0);
        facts.pair = Some(Pair { episode: partner, role: role.into() });
        let mut episode = writer.episode(id, facts).expect("a new episode");
        for number in 0..16 {
            let mut frame = plain_frame(number, 5);
            frame.events.extend((6..=8).contains(&number).then_some(0));
            frame.states.pose_key = match number {
                10 | 11 => 1,
                13 | 14 => 2,
                _ => -1,
            };
            let crosses = id == 0 && (3..=4).contains(&number);
            let found = id < 2 && (13..=14).contains(&number);
            if crosses || found {
                frame = with_agent(frame, 1.0);
            }
            episode.push(frame).expect("a frame");
        }
        episode.finish().expect("a whole episode");
    })
}

/// A gray frame at a place of its own; the return begins at `boundary`.
fn plain_frame(number: usize, boundary: usize) -> Frame {
    let phase = if number < boundary { Phase::Explore } else { Phase::Return };
    let pose = Pose::from_yaw_pitch([number as f32, 0.0, 1.6], 0.0, 0.0);
    let image = FrameImage::Pixels(Picture::filled(SIZE, SIZE, [9; 3]));
    Frame::new(number as f64 / 10.0, pose, phase, image)
}

/// The frame with somebody so many meters ahead.
fn with_agent(mut frame: Frame, ahead: f32) -> Frame {
    frame.agent = AgentState { visible: true, position: [0.5, ahead] };
    frame.silhouette = Some(Mask::from_fn(SIZE, SIZE, |x, _| x < 3));
    frame
}

/// A dataset whose episodes `write` makes one by one.
fn recorded(
    description: DatasetDescription,
    episodes: u32,
    write: impl Fn(u32, &DatasetWriter),
) -> (tempfile::TempDir, EncodedDataset) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("recorded");
    let writer = DatasetWriter::create(&path, description).expect("a new folder");
    (0..episodes).for_each(|id| write(id, &writer));
    writer.finish().expect("an index");
    let dataset = Arc::new(Dataset::open(&path).expect("what was just written"));
    let cache = folder.path().join("cache");
    (folder, EncodedDataset::new(dataset, Arc::new(ColorTokenizer), Vec::new(), cache, 1 << 20))
}
