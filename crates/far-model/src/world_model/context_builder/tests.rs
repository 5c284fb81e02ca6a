use super::*;
use crate::testing::{assert_near, normal};
use crate::world_model::signal_column::EpisodeSignals;
use crate::{
    ConditionScale, ContextBatch, DitConfig, DitSetting, DitWorldModel, EncodedEpisode, Future,
    Futures, LatentShape, METADATA_CUE, Perturbations, Query, Remembered, SignalLayout,
    TrainableWorldModel, UtilityEstimator, UtilityMeter,
};
use far_memory::{Cue, Memory, Observation, Pose, Schema};
use far_tensor::{AdamWConfig, Device};
use std::sync::Arc;

const SHAPE: LatentShape = LatentShape { channels: 2, height: 2, width: 2, patch: 1 };
const ELEMENTS: usize = 8;
/// Explore frames.
const EXPLORED: usize = 40;

/// An episode whose frames were seen at these times, walking along a line.
fn episode(id: u32, times: &[f64]) -> Arc<EncodedEpisode> {
    let pose = |frame: usize| Pose::from_yaw_pitch([0.1 * frame as f32, 0.0, 1.6], 0.02, 0.0);
    let poses: Vec<Pose> = (0..times.len()).map(pose).collect();
    let mut memory = Memory::new(Schema::new(vec![Cue::metadata(METADATA_CUE)]).unwrap());
    for frame in 0..EXPLORED.min(times.len()) {
        memory.append(&Observation::new(times[frame], Some(poses[frame]))).unwrap();
    }
    Arc::new(EncodedEpisode {
        id,
        boundary: EXPLORED.min(times.len()),
        times: times.to_vec(),
        poses,
        posed: true,
        elements: ELEMENTS,
        latents: normal(times.len() * ELEMENTS, "latents", u64::from(id)),
        memory: memory.snapshot(),
        inputs: Vec::new(),
        signals: EpisodeSignals::default(),
        lenders: Vec::new(),
    })
}

/// Fifty frames, ten per second.
fn walk(id: u32) -> Arc<EncodedEpisode> {
    episode(id, &(0..50).map(|frame| f64::from(frame) / 10.0).collect::<Vec<_>>())
}

fn model(earlier_view: Option<f32>) -> DitWorldModel {
    let config = DitConfig { depth: 2, width: 16, heads: 2, earlier_view, ..DitConfig::default() };
    let (scale, signals) = (ConditionScale { length: 2.0, time: 6.4 }, SignalLayout::default());
    let setting = DitSetting { config, shape: SHAPE, scale, signals, view: None };
    let optimizer = AdamWConfig { learning_rate: 1e-2, warm_up: 0, ..AdamWConfig::default() };
    DitWorldModel::new(setting, optimizer, 3, &Device::cpu()).unwrap()
}

/// The frames that a context of the episode shows, by their times.
fn shown(batch: &ContextBatch<'_>, episode: &EncodedEpisode) -> Vec<Option<usize>> {
    let rows = batch.latents();
    let frame = |row: &[f32]| (0..episode.len()).find(|frame| episode.latent(*frame) == row);
    rows.chunks(ELEMENTS).map(frame).collect()
}

#[test]
fn a_memory_shows_two_frames_where_the_episode_has_begun() {
    let query = Query::new(walk(1), 45, 49);
    let model = model(Some(1.5));
    let mut contexts = ContextBuilder::new(&model, 4);
    contexts.add(query.recorded(), [30, 14, 15]).unwrap();
    contexts.add(query.recorded(), []).unwrap();
    let batch = contexts.build();
    assert_eq!((batch.examples(), batch.slots()), (2, 8));
    let found = shown(&batch, query.episode());
    // The present, the memories with what came before them, and nothing in what is left.
    let (first, second) = found.split_at(9);
    assert_eq!(first[..6], [45, 30, 15, 14, 15, 0].map(Some));
    assert_eq!(first[6..], [None; 3]);
    assert_eq!((second[0], &second[1..]), (Some(45), &[None; 8][..]));
    assert_eq!(batch.present()[..8], [true, true, true, true, true, false, false, false]);
    assert_eq!(batch.present()[8..], [false; 8]);
    // Each frame has its own time and pose.
    let times: Vec<f32> = batch.conditions()[2..7].iter().map(|frame| 6.4 * frame.time).collect();
    assert_near("times", &times, &[-1.5, -3.0, -3.1, -3.0, -4.5]);
    let poses = [30, 15, 14, 15, 0].map(|frame| Some(query.episode().poses()[frame]));
    assert_eq!(batch.cameras()[2..7], poses);
}

#[test]
fn without_earlier_views_contexts_are_what_was_recalled() {
    let query = Query::new(walk(1), 45, 49);
    let model = model(None);
    let mut contexts = ContextBuilder::new(&model, 3);
    contexts.add(query.recorded(), [30, 14]).unwrap();
    let batch = contexts.build();
    assert_eq!(batch.slots(), 3);
    assert_eq!(shown(&batch, query.episode()), [Some(45), Some(30), Some(14), None]);
}

#[test]
fn slots_count_memories() {
    let query = Query::new(walk(1), 45, 49);
    for (earlier_view, many) in [(None, 3), (Some(1.5), 3), (Some(9.0), 3)] {
        let model = model(earlier_view);
        let mut contexts = ContextBuilder::new(&model, 2);
        let error = contexts.add(query.recorded(), 20..20 + many).unwrap_err().to_string();
        assert!(error.contains("the context") && error.contains('3'), "{error}");
    }
}

#[test]
fn the_earlier_frame_is_the_nearest_in_time() {
    let regular = walk(1);
    let times = [0.0, 0.1, 0.9, 1.0, 1.2, 2.4, 2.5];
    let uneven = episode(2, &times);
    let frame = |episode: &EncodedEpisode, frame: usize, seconds: f32| {
        let found = episode.earlier(frame, seconds)?;
        episode.times().iter().position(|time| *time == found.time)
    };
    for (of, seconds, expected) in [
        (30, 1.5, Some(15)),
        (30, 1.46, Some(15)),
        (30, 1.44, Some(16)),
        (30, 3.04, Some(0)),
        (30, 3.06, None),
        (14, 1.5, None),
        (30, 0.04, None),
        (0, 0.04, None),
        (0, 1.5, None),
    ] {
        assert_eq!(frame(&regular, of, seconds), expected, "{of} {seconds}");
        // As many frames as that is, rounded, where frames are evenly spaced.
        let lag = (10.0 * seconds).round() as usize;
        assert_eq!(expected, usize::checked_sub(of, lag).filter(|_| lag > 0));
    }
    for (of, seconds, expected) in [
        (6, 1.5, Some(3)),
        (5, 1.5, Some(2)),
        (5, 1.25, Some(4)),
        (3, 1.0, Some(0)),
        (2, 1.0, None),
    ] {
        assert_eq!(frame(&uneven, of, seconds), expected, "{of} {seconds}");
    }
}

/// Memories that come from elsewhere are seen with what came before them there, remembered or not.
#[test]
fn foreign_memories_keep_what_came_before_them() {
    let (own, other) = (walk(1), walk(2));
    let lent = [(other.clone(), 30), (own.clone(), 20), (other.clone(), 3)];
    let mixed = own.remembering(EXPLORED, &lent).unwrap();
    let earlier = [0, 1, 2].map(|memory| mixed.earlier(memory, 1.5).map(|seen| seen.latent));
    assert_eq!(earlier, [Some(other.latent(15)), Some(own.latent(5)), None]);
}

/// A candidate's utility is that of a context with both of its frames, whether it is asked about alone
/// or together with others.
#[test]
fn utility_is_measured_with_both_frames() {
    let query = Query::new(walk(1), 45, 49);
    let present = query.recorded();
    let mut model = model(Some(1.5));
    let candidates = vec![vec![30], vec![14], vec![], vec![30, 22], vec![22, 30, 5]];
    let pair = |memory: &usize| -> Vec<usize> {
        [Some(*memory), memory.checked_sub(15)].into_iter().flatten().collect()
    };
    // By hand: a context of these frames in a batch of its own.
    let by_hand = |frames: &[usize]| {
        let scale = ConditionScale { length: 2.0, time: 6.4 };
        let slots = frames.len().max(1);
        let mut batch = ContextBatch::new(SHAPE, scale, slots, SignalLayout::default());
        let episode = query.episode();
        let memories = frames.iter().map(|frame| Remembered {
            time: episode.times()[*frame],
            pose: Some(episode.poses()[*frame]),
            latent: episode.latent(*frame),
            signals: Default::default(),
        });
        batch.push(&query.for_model(), episode.latent(45), memories).unwrap();
        batch
    };
    let futures: Futures = std::iter::once(Future::of(&query)).collect();
    let noise = normal(3 * ELEMENTS, "noise", 7);
    let drawn = Perturbations { draws: 3, timesteps: vec![100, 400, 700], noise };
    // A fresh model predicts zero whatever it reads; this one learns to tell what it reads apart.
    let mut lesson = ContextBuilder::new(&model, 3);
    for candidate in &candidates {
        lesson.add(present, candidate.iter().copied()).unwrap();
    }
    let lesson = lesson.build();
    let [latents, noise] =
        ["lessons", "their noise"].map(|purpose| normal(candidates.len() * ELEMENTS, purpose, 7));
    let told = Futures { latents, states: Vec::new() };
    let timesteps = vec![700; candidates.len()];
    let hidden = Perturbations { draws: 1, timesteps, noise };
    for _ in 0..100 {
        model.train(&lesson, &told, &hidden, None, 1).unwrap();
    }
    let meter = UtilityMeter { model: &model, temperature: 2.0, weights: None };
    let found = meter.measure(&[present], std::slice::from_ref(&candidates), &drawn).unwrap();
    let estimator = UtilityEstimator { temperature: 2.0, elements: ELEMENTS };
    let worth = |frames: &[usize]| {
        let losses = model.losses(&by_hand(frames), &futures, &drawn, None).unwrap();
        estimator.utilities(&losses, 3).unwrap()[0]
    };
    let frames = candidates.iter().map(|memories| memories.iter().flat_map(pair).collect());
    let expected: Vec<f32> = frames.map(|frames: Vec<usize>| worth(&frames)).collect();
    assert_near("utilities", &found.values[0], &expected);
    // Each of them is worth something else, and both frames something else than one.
    let mut all = expected;
    all.extend([worth(&[30]), worth(&[15])]);
    all.sort_by(f32::total_cmp);
    assert!(all.windows(2).all(|two| two[1] - two[0] > 1e-3), "what is read counts: {all:?}");
}
