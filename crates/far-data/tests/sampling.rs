//! The stream of training examples: reproducible, in the right phase, never looking ahead.

mod fixture;

use std::collections::BTreeSet;

use far_data::*;
use fixture::*;

fn config() -> SamplingConfig {
    SamplingConfig { seed: 11, batch: 32, horizon: 20, pool: 50, ..SamplingConfig::default() }
}

fn anchored(kind: AnchorKind, labels: &[&str], horizon: u32) -> SamplingConfig {
    let labels = labels.iter().map(ToString::to_string).collect();
    let anchor = AnchorConfig { kind, probability: 0.5, labels, horizon };
    SamplingConfig { anchor: Some(anchor), ..config() }
}

/// Every rule that holds for any example.
fn check(dataset: &Dataset, example: &TrainingExample, horizon: u32) {
    let episode = dataset.episode(example.query.episode).expect("opens");
    let (current, target) = (example.query.current, example.future.frame);
    assert!(current >= BOUNDARY as u32 && target > current && (target as usize) < FRAMES);
    assert!(example.query.stride == target - current && example.query.stride <= horizon);
    let memory = &example.memory.frames;
    assert_eq!(memory.len(), 50);
    assert!(memory.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(memory.iter().all(|&frame| (frame as usize) < episode.boundary()));
    assert_eq!(example.query.goal, episode.pose(target as usize));
    let (pose, goal) = (example.query.pose.expect("posed"), example.query.goal.expect("posed"));
    let back = goal.displacement_from(&pose);
    assert_eq!(example.query.action, back);
}

#[test]
fn any_step_can_be_drawn_at_any_time_by_any_worker() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 6);
    let sampler = TrainingSampler::new(&dataset, config()).expect("settings fit");
    let forward: Vec<_> = (0..6).map(|step| sampler.batch(step).expect("drawn")).collect();
    // Resume in the middle, with another sampler, backward, one observation at a time.
    let resumed = TrainingSampler::new(&dataset, config()).expect("settings fit");
    for step in (0..6u64).rev() {
        let alone: Vec<TrainingExample> = (0..8)
            .rev()
            .map(|n| resumed.observation(step, n).expect("drawn"))
            .rev()
            .flatten()
            .collect();
        assert_eq!(alone, forward[step as usize]);
    }
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        assert_eq!(pool.install(|| sampler.batch(4)).expect("drawn"), forward[4]);
    }
    assert_ne!(forward[0], forward[1]);
    let other = SamplingConfig { seed: 12, ..config() };
    let other = TrainingSampler::new(&dataset, other).expect("settings fit");
    assert_ne!(other.batch(0).expect("drawn"), forward[0]);
}

#[test]
fn queries_return_and_memory_explores() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 6);
    let sampler = TrainingSampler::new(&dataset, config()).expect("settings fit");
    let train: BTreeSet<u32> = dataset
        .select(SplitRule::SceneDisjoint, Split::Train)
        .expect("there")
        .into_iter()
        .collect();
    let mut seen = BTreeSet::new();
    for step in 0..12 {
        let batch = sampler.batch(step).expect("drawn");
        assert_eq!(batch.len(), 32);
        for goals in batch.chunks(4) {
            let mut strides = BTreeSet::new();
            for example in goals {
                check(&dataset, example, 20);
                assert_eq!(example.anchor, Anchor::None);
                assert_eq!(example.query.current, goals[0].query.current);
                assert_eq!(example.memory, goals[0].memory);
                strides.insert(example.query.stride);
            }
            seen.insert(goals[0].query.episode);
        }
    }
    assert_eq!(seen, train);
}

#[test]
fn event_anchored_pairs_enclose_their_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 4);
    let config = anchored(AnchorKind::Event, &["open", "close"], 16);
    let sampler = TrainingSampler::new(&dataset, config).expect("settings fit");
    let mut count = 0;
    for step in 0..20 {
        for example in sampler.batch(step).expect("drawn") {
            check(&dataset, &example, 20);
            let Anchor::Event(event) = example.anchor else { continue };
            count += 1;
            assert!(event == 230 || event == 240);
            assert!(example.query.current < event && example.future.frame >= event);
            assert!(example.query.stride <= 16);
            assert!(example.query.events.iter().any(|&label| label < 2));
        }
    }
    // 640 examples in 160 observations, half of them anchored: standard deviation 25.
    assert!((220..420).contains(&count), "{count}");
}

#[test]
fn reveal_anchored_pairs_start_in_the_passage_and_look_beyond_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 4);
    let config = anchored(AnchorKind::Reveal, &["transit"], 60);
    let sampler = TrainingSampler::new(&dataset, config).expect("settings fit");
    let mut longest = 0;
    for step in 0..20 {
        for example in sampler.batch(step).expect("drawn") {
            check(&dataset, &example, 60);
            let Anchor::Reveal(last) = example.anchor else {
                assert!(example.query.stride <= 20);
                continue;
            };
            assert_eq!(last, 214);
            assert!((205..=214).contains(&example.query.current) && example.future.frame > 214);
            longest = longest.max(example.query.stride);
        }
    }
    assert!(longest > 40, "{longest}");
}

#[test]
fn settings_that_cannot_be_followed_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 2);
    let reason =
        |config| TrainingSampler::new(&dataset, config).err().expect("refused").to_string();
    let label = anchored(AnchorKind::Event, &["sing"], 16);
    assert!(reason(label).contains("sing"));
    assert!(reason(SamplingConfig { batch: 30, ..config() }).contains("`batch`"));
    assert!(reason(SamplingConfig { split: Split::Validation, ..config() }).contains("validation"));
    let unknown = serde_json::from_str::<SamplingConfig>(r#"{"horizont": 3}"#).unwrap_err();
    assert!(unknown.to_string().contains("horizont"));
    for corpus in ["village", "apartment", "kitchen", "corridor"] {
        SamplingConfig::of_corpus(corpus).validate().expect("the paper's settings are valid");
    }
}

#[test]
fn evaluation_walks_the_return_leg() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 1);
    let config = EvaluationConfig { stride: 16, pool: 60 };
    let clip = EvaluationClip::new(&dataset, 0, &config).expect("there").expect("whole");
    assert_eq!(clip.frames, [200, 216, 232, 248, 264, 280, 296]);
    assert_eq!((clip.memory.len(), clip.memory[1]), (50, 4));
}

#[test]
fn contrastive_positives_are_near_the_goal_and_negatives_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 4);
    let memory =
        ContrastiveConfig { batch: 16, frames: ContrastiveFrames::Memory, ..Default::default() };
    let config = ContrastiveConfig { heading: None, ..memory.clone() };
    let sampler = ContrastiveSampler::new(&dataset, config.clone()).expect("settings fit");
    let batches: Vec<_> = (0..6).map(|step| sampler.batch(step).expect("drawn")).collect();
    for example in batches.iter().flatten() {
        let episode = dataset.episode(example.query.episode).expect("opens");
        let distance = |frame: u32| {
            episode.poses()[frame as usize].distance(&example.query.goal.expect("posed"))
        };
        assert_eq!((example.positives.len(), example.negatives.len()), (8, 24));
        assert!(example.positives.iter().all(|&frame| distance(frame) <= 1.0));
        assert!(example.negatives.iter().all(|&frame| distance(frame) > 1.0));
        let memories = example.positives.iter().chain(&example.negatives);
        assert!(memories.into_iter().all(|&frame| (frame as usize) < BOUNDARY));
    }
    let again = ContrastiveSampler::new(&dataset, config).expect("settings fit");
    assert_eq!(again.batch(5).expect("drawn"), batches[5]);
    // The return leg looks back along the way: with a heading limit no memory qualifies, so the
    // nearest one stands in.
    let limited = ContrastiveSampler::new(&dataset, memory.clone()).expect("settings fit");
    for example in limited.batch(0).expect("drawn") {
        assert_eq!(example.positives.len(), 1);
        assert!(!example.negatives.contains(&example.positives[0]));
    }
    // Among all frames the view at the goal is one, and never what is seen now.
    let all = ContrastiveConfig {
        frames: ContrastiveFrames::Episode,
        positives: u32::MAX,
        negatives: u32::MAX,
        ..memory
    };
    let all = ContrastiveSampler::new(&dataset, all).expect("settings fit");
    for example in all.batch(0).expect("drawn") {
        let query = &example.query;
        assert!(example.positives.contains(&(query.current + query.stride)));
        assert!(!example.positives.contains(&query.current));
        let drawn = example.positives.len() + example.negatives.len();
        assert!(drawn == FRAMES || drawn == FRAMES - 1);
    }
}

/// An episode of 90 frames at one place whose door opens and shuts every ten frames.
#[test]
fn with_a_door_limit_positives_show_the_door_as_it_will_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut description = DatasetDescription::new("kitchen", 10.0, [4, 4], [90.0, 90.0]);
    description.images = ImageEncoding::None;
    description.signals.push(Signal::DoorFraction);
    let writer = DatasetWriter::create(folder.path(), description).expect("a new folder");
    let facts = EpisodeFacts::new("kitchen", Split::Train, 0);
    let mut episode = writer.episode(0, facts).expect("a new episode");
    for index in 0..90 {
        let phase = if index < 60 { Phase::Explore } else { Phase::Return };
        // The last ten memories are of another place.
        let place = if (50..60).contains(&index) { 5.0 } else { 0.0 };
        let pose = far_memory::Pose::from_yaw_pitch([place, 0.0, 1.5], 0.0, 0.0);
        let mut frame = Frame::new(f64::from(index) / 10.0, pose, phase, FrameImage::Absent);
        // No acted door is a shut one.
        frame.door_fraction = (index / 10 % 2 == 1).then_some(0.9);
        episode.push(frame).expect("a frame");
    }
    episode.finish().expect("whole");
    writer.finish().expect("an index");
    let dataset = Dataset::open(folder.path()).expect("opens");
    let config = ContrastiveConfig {
        batch: 16,
        horizon: 15,
        frames: ContrastiveFrames::Memory,
        positives: 100,
        negatives: 12,
        door: Some(0.3),
        ..Default::default()
    };
    let sampler = ContrastiveSampler::new(&dataset, config.clone()).expect("settings fit");
    let (mut open, mut shut) = (0, 0);
    for example in (0..4).flat_map(|step| sampler.batch(step).expect("drawn")) {
        let is_open = |frame: u32| frame / 10 % 2 == 1;
        let goal = is_open(example.query.current + example.query.stride);
        *(if goal { &mut open } else { &mut shut }) += 1;
        let expected: Vec<u32> = (0..50).filter(|frame| is_open(*frame) == goal).collect();
        assert_eq!(example.positives, expected);
        let (alike, others): (Vec<u32>, Vec<u32>) =
            example.negatives.iter().partition(|frame| **frame < 50);
        assert_eq!((alike.len(), others.len()), (6, 6), "half are of the same place");
        assert!(alike.iter().all(|frame| is_open(*frame) != goal));
    }
    assert!(open > 5 && shut > 5, "{open} {shut}");
    let doorless = folder.path().join("doorless");
    let doorless = watched(&doorless, |_, _| false);
    let message = ContrastiveSampler::new(&doorless, config.clone()).err().expect("refused");
    assert!(message.to_string().contains("doors"), "{message}");
    let any = ContrastiveConfig { door: None, ..config };
    let any = ContrastiveSampler::new(&dataset, any).expect("settings fit");
    assert!(any.batch(0).expect("drawn").iter().all(|example| example.positives.len() == 50));
}

/// Two episodes of 60 explore and 20 return frames; `seen` says in which the second agent is in view.
fn watched(folder: &std::path::Path, seen: impl Fn(u32, usize) -> bool) -> Dataset {
    let mut description = DatasetDescription::new("corridor", 10.0, [4, 4], [90.0, 90.0]);
    description.images = ImageEncoding::None;
    description.signals.push(Signal::Agent);
    let writer = DatasetWriter::create(folder, description).expect("a new folder");
    for id in 0..2 {
        let facts = EpisodeFacts::new("hall", Split::Train, 0);
        let mut episode = writer.episode(id, facts).expect("a new episode");
        for index in 0..80 {
            let phase = if index < 60 { Phase::Explore } else { Phase::Return };
            let pose = far_memory::Pose::from_yaw_pitch([index as f32, 0.0, 1.5], 0.0, 0.0);
            let mut frame = Frame::new(index as f64 / 10.0, pose, phase, FrameImage::Absent);
            if seen(id, index) {
                frame.agent = AgentState { visible: true, position: [0.0, 2.0] };
                frame.silhouette = Some(Mask::from_fn(4, 4, |x, _| x == 0));
            }
            episode.push(frame).expect("a frame");
        }
        episode.finish().expect("whole");
    }
    writer.finish().expect("an index");
    Dataset::open(folder).expect("opens")
}

#[test]
fn with_the_agent_rule_positives_show_its_last_crossing() {
    let folder = tempfile::tempdir().expect("a folder");
    let [crossed, empty] = ["crossed", "empty"].map(|name| folder.path().join(name));
    // Episode 0 has two crossings and a reveal, episode 1 shows nobody.
    let dataset =
        watched(&crossed, |id, frame| id == 0 && matches!(frame, 10..14 | 40..46 | 75..80));
    let config = ContrastiveConfig {
        batch: 12,
        horizon: 10,
        frames: ContrastiveFrames::Memory,
        rule: ContrastiveRule::Agent,
        positives: 4,
        negatives: 100,
        ..Default::default()
    };
    let sampler = ContrastiveSampler::new(&dataset, config.clone()).expect("settings fit");
    for example in (0..4).flat_map(|step| sampler.batch(step).expect("drawn")) {
        assert_eq!(example.query.episode, 0, "nobody can be found where nobody is");
        assert_eq!(example.positives.len(), 4);
        assert!(example.positives.iter().all(|frame| (40..46).contains(frame)));
        let negatives: Vec<u32> = (0..60).filter(|frame| !(40..46).contains(frame)).collect();
        assert_eq!(example.negatives, negatives, "earlier crossings among them");
    }
    let again = ContrastiveSampler::new(&dataset, config.clone()).expect("settings fit");
    assert_eq!(again.batch(3).expect("drawn"), sampler.batch(3).expect("drawn"));
    let nobody = watched(&empty, |_, _| false);
    let nobody = ContrastiveSampler::new(&nobody, config).expect("settings fit");
    let message = nobody.batch(0).expect_err("nobody").to_string();
    assert!(message.contains("show no second agent"), "{message}");
}
