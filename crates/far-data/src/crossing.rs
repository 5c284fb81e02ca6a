//! The walks of a second agent through the observer's sight.

use crate::Episode;

/// The frames before frame `before` that show the second agent's last crossing, ascending; empty when it
/// was never seen.
///
/// A crossing is seen without a break longer than the dataset's `agent_lag`: a doorpost may hide the
/// agent for a moment, a wait at an end takes longer.
///
/// # Panics
/// If there are fewer frames than `before`.
pub fn last_crossing(episode: &Episode, before: usize) -> Vec<usize> {
    let longest = episode.description().agent_lag as usize;
    crossing_before(before, longest, |frame| episode.agent(frame).visible)
}

fn crossing_before(before: usize, longest: usize, seen: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut frames: Vec<usize> = Vec::new();
    for frame in (0..before).rev() {
        let first = frames.last().copied();
        if first.is_some_and(|first| first - frame > longest) {
            break;
        }
        if seen(frame) {
            frames.push(frame);
        }
    }
    frames.reverse();
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_ends_where_the_agent_is_out_of_sight_for_long() {
        let seen = [3, 4, 5, 12, 13, 16, 17];
        let crossing = |before| crossing_before(before, 4, |frame| seen.contains(&frame));
        assert_eq!(crossing(30), [12, 13, 16, 17]);
        assert_eq!(crossing(16), [12, 13]);
        assert_eq!(crossing(12), [3, 4, 5]);
        assert!(crossing(3).is_empty());
    }
}
