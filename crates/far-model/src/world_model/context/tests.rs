use super::*;

const SHAPE: LatentShape = LatentShape { channels: 2, height: 1, width: 1, patch: 1 };
const SCALE: ConditionScale = ConditionScale { length: 2.0, time: 4.0 };

fn query() -> PredictionQuery<'static> {
    let pose = Pose::from_yaw_pitch([1.0, 0.0, 0.0], 0.0, 0.0);
    let goal = Pose::from_yaw_pitch([3.0, 0.0, 0.0], 0.5, 0.0);
    PredictionQuery::new(10.0, pose, goal, 2.0)
}

#[test]
fn frames_are_recentered_on_now_and_on_the_goal() {
    let mut batch = ContextBatch::new(SHAPE, SCALE, 2, SignalLayout::default());
    let seen = Remembered {
        time: 4.0,
        pose: Some(query().goal),
        latent: &[5.0, 6.0],
        signals: FrameSignals::default(),
    };
    batch.push(&query(), &[1.0, 2.0], [seen]).unwrap();
    assert_eq!(batch.latents(), [1.0, 2.0, 5.0, 6.0, 0.0, 0.0]);
    assert_eq!(batch.present(), [true, false]);
    let [target, current, memory, empty] = batch.conditions() else { panic!("four frames") };
    let still = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0];
    assert_eq!((current.from_current, current.time), (still, 0.0));
    assert_eq!((target.from_goal, target.time), (still, 0.5));
    assert_eq!((memory.from_goal, memory.time), (still, -1.5));
    assert_eq!(memory.from_current[0], 1.0);
    assert_eq!(*empty, FrameCondition::default());
    let asked = query();
    assert_eq!(batch.cameras(), [Some(asked.goal), Some(asked.pose), Some(asked.goal), None]);
    assert_eq!(batch.clone().into_owned().cameras(), batch.cameras());
}

#[test]
fn frames_are_the_same_by_what_they_show_and_are_conditioned_on() {
    let mut batch = ContextBatch::new(SHAPE, SCALE, 1, SignalLayout::default());
    let (present, copy, other) = ([1.0, 2.0], [1.0, 2.0], [1.0, 3.0]);
    let seen = |time, latent| Remembered {
        time,
        pose: Some(query().goal),
        latent,
        signals: FrameSignals::default(),
    };
    for (current, memory) in [
        (&present, Some(seen(4.0, &other))),
        (&present, Some(seen(4.0, &present))),
        (&copy, Some(seen(5.0, &copy))),
        (&other, None),
        (&other, None),
    ] {
        batch.push(&query(), current, memory).unwrap();
    }
    // Frames: current and slot of each prediction. Where it lies in memory does not count.
    for batch in [batch.clone(), batch.into_owned()] {
        assert!(batch.same_frame(0, 2) && batch.same_frame(2, 4));
        assert!(!batch.same_frame(4, 6), "another picture");
        assert!(!batch.same_frame(1, 3), "another picture of the same moment");
        assert!(!batch.same_frame(3, 5), "the same picture at another time");
        assert!(batch.same_frame(7, 9), "nothing is nothing");
        assert_eq!(batch.latents()[12..], [1.0, 3.0, 0.0, 0.0, 1.0, 3.0, 0.0, 0.0]);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut batch = ContextBatch::new(SHAPE, SCALE, 1, SignalLayout::default());
    let seen = Remembered {
        time: 4.0,
        pose: Some(query().pose),
        latent: &[5.0, 6.0],
        signals: FrameSignals::default(),
    };
    assert!(batch.push(&query(), &[1.0], [seen]).is_err());
    assert!(batch.push(&query(), &[1.0, 2.0], [seen, seen]).is_err());
    let more = PredictionQuery { action: vec![1.0], ..query() };
    assert!(batch.clone().push(&more, &[1.0, 2.0], [seen]).is_err());
}
