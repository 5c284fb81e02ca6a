//! What a rollout believes of the states that the world model predicts beside frames: seen in real frames,
//! predicted for generated ones.

use crate::encoded_clip::EncodedClip;
use far_model::EncodedEpisode;

/// The states of one clip's frames during a rollout.
pub struct StateThread<'a> {
    episode: &'a EncodedEpisode,
    /// The given frame: it and all before it were really seen.
    given: usize,
    /// Generated frames with the state that was predicted for each, in the order of time.
    predicted: Vec<(usize, Vec<f32>)>,
}

impl<'a> StateThread<'a> {
    /// Before anything is generated.
    pub fn new(clip: &'a EncodedClip) -> Self {
        Self { episode: clip.episode(), given: clip.frames()[0], predicted: Vec::new() }
    }

    /// Takes what was predicted for a generated frame; frames come in the order of time.
    pub fn push(&mut self, frame: usize, state: &[f32]) {
        self.predicted.push((frame, state.to_vec()));
    }

    /// The state of a frame: what is believed of it, and of the frame a lag earlier. Empty when the
    /// world model predicts no states.
    pub fn state(&self, frame: usize) -> Vec<f32> {
        if self.episode.state(frame).is_empty() {
            return Vec::new();
        }
        let lag = self.episode.state_lag();
        let zeros = || vec![0.0; self.episode.state(frame).len() / 2];
        let earlier = frame.checked_sub(lag).map_or_else(zeros, |earlier| self.believed(earlier));
        [self.believed(frame), earlier].concat()
    }

    /// A frame as it was seen, or as the last one generated up to it was predicted.
    fn believed(&self, frame: usize) -> Vec<f32> {
        let generated = self.predicted.iter().rfind(|(at, _)| *at <= frame);
        match generated {
            Some((_, state)) if frame > self.given => state.clone(),
            _ => {
                let seen = self.episode.state(frame.min(self.given));
                seen[..seen.len() / 2].to_vec()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::watched_road;
    use crate::testing::{EXPLORED, clips};

    #[test]
    fn generated_frames_are_believed_and_real_ones_seen() {
        let (_folder, dataset) = watched_road(&[40]);
        let clip = &clips(&dataset)[0];
        let mut thread = StateThread::new(clip);
        let real = |frame: usize| clip.episode().state(frame)[..3].to_vec();
        assert_eq!(thread.state(EXPLORED), clip.episode().state(EXPLORED));
        // Every third frame has a state of its own.
        assert_ne!(real(EXPLORED - 1), real(EXPLORED));
        let (first, second) = ([1.0, 0.3, 0.4], [0.0; 3]);
        thread.push(EXPLORED + 2, &first);
        // Fifteen frames before the first generated one all was seen.
        assert_eq!(thread.state(EXPLORED + 2), [first.to_vec(), real(EXPLORED - 13)].concat());
        thread.push(EXPLORED + 4, &second);
        for frame in (6..40).step_by(2) {
            thread.push(EXPLORED + frame, &[1.0, frame as f32, 0.0]);
        }
        // Between two generated frames the earlier one counts.
        let state = thread.state(EXPLORED + 18);
        assert_eq!(state, [[1.0, 18.0, 0.0], first].concat());
        let state = thread.state(EXPLORED + 20);
        assert_eq!(state[3..], second);
    }
}
