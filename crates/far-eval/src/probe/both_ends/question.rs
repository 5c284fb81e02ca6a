//! Both ends of a corridor: does the world model know where an agent is that is out of view?
//!
//! From the same present, in the passage through the door before anything is revealed, and the same
//! noise, two frames are generated: the view of each end. The answer is right when a detector finds the
//! agent at the end where it is and not at the other. It depends on memory where exactly one end has the
//! agent and a crossing was watched; a static control, without an agent, is right when neither fires.

use crate::encoded_clip::EncodedClip;
use far_data::{Dataset, Episode, Pair, last_crossing};
use far_model::Query;

/// The label of frames in the passage.
const PASSAGE: &str = "transit";
/// What a control without an agent is to its pair.
const CONTROL: &str = "control";
/// Roles of a pair that is no other history: a control, and who it is the control of.
const UNPAIRED: [&str; 2] = [CONTROL, "acted"];

/// The question of one clip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndsQuestion {
    /// The present: the middle frame of the passage.
    pub current: usize,
    /// The first view of each end.
    pub looks: [usize; 2],
    /// Which view shows the agent; `None` in a static control.
    pub there: Option<usize>,
    /// Memories that show the last crossing.
    pub crossing: Vec<usize>,
    /// The episode of the same present with another history.
    pub pair: Option<u32>,
}

impl EndsQuestion {
    /// The question of an episode; `None` when it has no passage followed by two views, or what is
    /// there cannot be known.
    ///
    /// # Errors
    /// If the index has no such episode.
    pub fn of(dataset: &Dataset, episode: &Episode) -> crate::Result<Option<Self>> {
        let Some(label) = dataset.description().label(PASSAGE) else { return Ok(None) };
        let back = episode.boundary()..episode.len();
        let passage: Vec<usize> =
            back.clone().filter(|frame| episode.events(*frame).contains(&label)).collect();
        let (Some(current), Some(last)) = (passage.get(passage.len() / 2), passage.last()) else {
            return Ok(None);
        };
        let mut looks: Vec<(i32, usize)> = Vec::new();
        for frame in last + 1..episode.len() {
            let key = episode.pose_key(frame);
            if key >= 0 && looks.iter().all(|(known, _)| *known != key) {
                looks.push((key, frame));
            }
        }
        // West before east, whichever is looked at first.
        looks.sort_unstable();
        let &[(_, west), (_, east)] = looks.as_slice() else { return Ok(None) };
        let looks = [west, east];
        let pair = dataset.summary(episode.id())?.facts.pair;
        let crossing = last_crossing(episode, episode.boundary());
        let there = match looks.map(|frame| episode.agent(frame).visible) {
            [true, false] => Some(0),
            [false, true] => Some(1),
            _ => None,
        };
        let control = pair.as_ref().is_some_and(|pair| pair.role == CONTROL);
        let known = if there.is_some() { !crossing.is_empty() } else { control };
        let factual = |pair: &Pair| there.is_some() && !UNPAIRED.contains(&pair.role.as_str());
        let pair = pair.filter(factual).map(|pair| pair.episode);
        Ok(known.then_some(Self { current: *current, looks, there, crossing, pair }))
    }

    /// The two generations.
    pub fn queries(&self, clip: &EncodedClip) -> [Query; 2] {
        self.looks.map(|goal| clip.query(self.current, goal))
    }

    /// Whether these verdicts, one per end, are right.
    pub fn is_right(&self, verdicts: [bool; 2]) -> bool {
        verdicts == [0, 1].map(|end| self.there == Some(end))
    }

    /// How many of these recalled memories' sets show the last crossing.
    pub fn crossings<'a>(&self, recalled: impl Iterator<Item = &'a far_memory::Recall>) -> usize {
        let shows = |recall: &&far_memory::Recall| {
            recall.ids().any(|id| self.crossing.contains(&id.index()))
        };
        recalled.filter(shows).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::corridor;

    #[test]
    fn the_question_is_asked_in_the_passage_of_who_can_be_known() {
        let (_folder, dataset) = corridor();
        let of = |id| EndsQuestion::of(dataset.dataset(), &dataset.dataset().episode(id).unwrap());
        let known = of(0).unwrap().unwrap();
        // Frames 6 to 8 are the passage, 10 and 11 look west, 13 and 14 east, where somebody is.
        assert_eq!((known.current, known.looks, known.there), (7, [10, 13], Some(1)));
        assert_eq!((known.crossing.as_slice(), known.pair), (&[3, 4][..], Some(1)));
        assert!(known.is_right([false, true]));
        assert!(!known.is_right([true, true]) && !known.is_right([false, false]));
        // The same present with another history without a crossing: the answer cannot be known.
        assert_eq!(of(1).unwrap(), None);
        // A static control is right when neither end fires.
        let control = of(2).unwrap().unwrap();
        assert_eq!((control.there, control.pair), (None, None));
        assert!(control.is_right([false; 2]) && !control.is_right([true, false]));
    }
}
