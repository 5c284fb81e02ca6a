//! Recordings cut into episodes, and episodes dealt to train and test without leaks.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Recording;
use crate::stream::stream;
use crate::{Split, SplitRule};
use rand::seq::SliceRandom;

/// A part of a recording that becomes an episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Which recording.
    pub recording: usize,
    /// Its frames.
    pub frames: Range<usize>,
    /// The part it belongs to.
    pub split: Split,
}

/// Consecutive windows of `length` frames; a rest of at least half a window is one too.
fn cut(frames: usize, length: Option<usize>) -> Vec<Range<usize>> {
    let Some(length) = length.map(|length| length.max(1)) else {
        return if frames == 0 { Vec::new() } else { std::iter::once(0..frames).collect() };
    };
    let starts = (0..frames).step_by(length);
    let windows = starts.map(|start| start..frames.min(start + length));
    windows.filter(|window| 2 * window.len() >= length).collect()
}

/// Cuts every recording and deals the windows out.
///
/// What the source says of a recording is kept. Otherwise whole scenes go to one part; within a
/// single scene whole recordings do; a single recording gives its end to the test, and the second
/// between the two parts is left out, so that no frame of the test has a twin in training.
pub fn deal(
    recordings: &[Recording],
    length: Option<usize>,
    test_share: f64,
    seed: u64,
    gap: usize,
) -> (SplitRule, Vec<Window>) {
    let scenes: Vec<&str> = recordings.iter().map(|recording| &*recording.scene).collect();
    let names: Vec<&str> = recordings.iter().map(|recording| &*recording.name).collect();
    let several = |groups: &[&str]| groups.iter().any(|group| *group != groups[0]);
    let declared = recordings.iter().any(|recording| recording.split.is_some());
    let (rule, splits) = if declared {
        let of = |recording: &Recording| recording.split.unwrap_or(Split::Train);
        let splits: Vec<Split> = recordings.iter().map(of).collect();
        (
            if disjoint(&scenes, &splits) { SplitRule::SceneDisjoint } else { SplitRule::Episode },
            splits,
        )
    } else if several(&scenes) {
        (SplitRule::SceneDisjoint, deal_groups(&scenes, test_share, seed))
    } else if several(&names) {
        (SplitRule::Episode, deal_groups(&names, test_share, seed))
    } else {
        let windows = recordings
            .iter()
            .flat_map(|only| end_for_test(only.frames.len(), length, test_share, gap));
        return (SplitRule::Episode, windows.collect());
    };
    let windows =
        recordings.iter().zip(splits).enumerate().flat_map(|(recording, (frames, split))| {
            cut(frames.frames.len(), length).into_iter().map(move |frames| Window {
                recording,
                frames,
                split,
            })
        });
    (rule, windows.collect())
}

/// Windows of one recording, of which the last ones test.
fn end_for_test(frames: usize, length: Option<usize>, test_share: f64, gap: usize) -> Vec<Window> {
    let whole = cut(frames, length);
    let window = |split| move |frames| Window { recording: 0, frames, split };
    let tests = share_of(whole.len(), test_share);
    if whole.len() < 2 || tests == 0 {
        return whole.into_iter().map(window(Split::Train)).collect();
    }
    let border = whole[whole.len() - tests].start;
    // The gap is taken from training, of which at least half stays.
    let train = cut(border - gap.min(border / 2), length).into_iter().map(window(Split::Train));
    let test = whole[whole.len() - tests..].iter().cloned().map(window(Split::Test));
    train.chain(test).collect()
}

/// How many of `count` test: the share, rounded, but one at least where there are two.
fn share_of(count: usize, test_share: f64) -> usize {
    let tests = (count as f64 * test_share).round() as usize;
    if test_share <= 0.0 { 0 } else { tests.clamp(1, count.saturating_sub(1).max(1)) }
}

/// The part of each member, equal within a group; groups are drawn by the seed.
fn deal_groups(groups: &[&str], test_share: f64, seed: u64) -> Vec<Split> {
    let mut names: Vec<&str> = groups.to_vec();
    names.sort_unstable();
    names.dedup();
    let tests = share_of(names.len(), test_share);
    names.shuffle(&mut stream(seed, "import", 0, 0));
    let test = &names[..tests];
    let split = |group: &&str| if test.contains(group) { Split::Test } else { Split::Train };
    groups.iter().map(split).collect()
}

fn disjoint(scenes: &[&str], splits: &[Split]) -> bool {
    let mut parts: BTreeMap<&str, Split> = BTreeMap::new();
    scenes.iter().zip(splits).all(|(scene, split)| parts.entry(scene).or_insert(*split) == split)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{PictureSource, RecordedFrame, RigidPose};
    use proptest::prelude::*;

    fn recording(name: &str, scene: &str, frames: usize) -> Recording {
        let pose = RigidPose::from_quaternion([1.0, 0.0, 0.0, 0.0], [0.0; 3]).expect("a pose");
        let picture = PictureSource::File("p".into());
        let frame = |index| RecordedFrame::new(index as f64, pose, picture.clone());
        Recording::new(name, scene, (0..frames).map(frame).collect())
    }

    proptest! {
        #[test]
        fn one_recording_has_a_gap_between_the_parts(
            frames in 1usize..500, length in 1usize..80, gap in 0usize..40, share in 0.05f64..0.6,
        ) {
            let only = [recording("a", "a", frames)];
            let (rule, windows) = deal(&only, Some(length), share, 1, gap);
            prop_assert_eq!(rule, SplitRule::Episode);
            let mut end = 0;
            for window in &windows {
                prop_assert!(window.frames.start >= end && window.frames.end <= frames);
                prop_assert!(2 * window.frames.len() >= length);
                end = window.frames.end;
            }
            let last = windows.iter().rfind(|window| window.split == Split::Train);
            let first = windows.iter().find(|window| window.split == Split::Test);
            if let (Some(last), Some(first)) = (last, first) {
                let gap = gap.min(first.frames.start / 2);
                prop_assert!(first.frames.start >= last.frames.end + gap);
            }
        }

        #[test]
        fn scenes_are_never_in_two_parts(scenes in prop::collection::vec(0u8..6, 2..20), seed: u64) {
            let all: Vec<Recording> = scenes
                .iter()
                .enumerate()
                .map(|(index, scene)| recording(&format!("r{index}"), &format!("s{scene}"), 30))
                .collect();
            let (rule, windows) = deal(&all, Some(10), 0.2, seed, 5);
            prop_assert!(windows.iter().any(|window| window.split == Split::Test));
            prop_assert!(windows.iter().any(|window| window.split == Split::Train));
            let several = scenes.iter().any(|scene| *scene != scenes[0]);
            prop_assert_eq!(rule == SplitRule::SceneDisjoint, several);
            let key = |window: &Window| match several {
                true => all[window.recording].scene.clone(),
                false => all[window.recording].name.clone(),
            };
            for one in &windows {
                for other in windows.iter().filter(|other| key(other) == key(one)) {
                    prop_assert_eq!(one.split, other.split);
                }
            }
        }
    }

    #[test]
    fn what_the_source_says_is_kept() {
        let mut all = [recording("a", "kitchen", 20), recording("b", "kitchen", 20)];
        all[1].split = Some(Split::Validation);
        let (rule, windows) = deal(&all, None, 0.2, 0, 0);
        assert_eq!(rule, SplitRule::Episode);
        assert_eq!(windows[1].split, Split::Validation);
        assert_eq!(windows[0].frames, 0..20);
        all[1].scene = "hall".into();
        assert_eq!(deal(&all, None, 0.2, 0, 0).0, SplitRule::SceneDisjoint);
    }
}
