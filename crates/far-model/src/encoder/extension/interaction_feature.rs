//! What was done, as a cue: how far the acted door is open and how long ago things were taken, put
//! down, opened and closed.
//!
//! Poses and times do not tell the frame before a thing is put down from the frame behind it, and a
//! picture does so only to who knows what to look for. Who did it knows. Of each frame the cue has
//! n = labels + 1 numbers between 0 and 1: the door fraction, and for each label exp(−Δt / 1 s) with the
//! time Δt since an event of that label. A key is made of their angles,
//! [cos(x₁π/2), sin(x₁π/2), …, sin(xₙπ/2)] / √n, which has length one; nothing about it is learned. The
//! query is the key of a frame with the door as the goal will have it, just after the interactions on the
//! way there. What to look for instead is up to the query's adapter.

use crate::{ActionFeatures, CueEncoder, CueFeature, Error, LatentShape, Result};
use far_data::{DatasetDescription, Episode, Signal};
use std::f32::consts::FRAC_PI_2;
use std::sync::Arc;

/// The cue's name.
pub const INTERACTION_CUE: &str = "interaction";
/// Seconds after which an event counts for 1/e.
const FADING: f64 = 1.0;

/// The interactions of an episode as rows, and their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InteractionFeature {
    labels: usize,
}

impl InteractionFeature {
    /// The interactions of a dataset.
    ///
    /// # Errors
    /// If it records none.
    pub fn of(description: &DatasetDescription) -> Result<Self> {
        let feature = Self { labels: description.labels.len() };
        match feature.lacking(description) {
            None => Ok(feature),
            Some(lacking) => {
                let reason = format!("the cue `{INTERACTION_CUE}` needs {lacking}");
                Err(Error::Setting { setting: "arm.cue", reason })
            }
        }
    }

    /// Numbers of a frame.
    fn width(&self) -> usize {
        self.labels + 1
    }

    /// The key of numbers between 0 and 1.
    fn key(numbers: impl ExactSizeIterator<Item = f32>) -> impl Iterator<Item = f32> {
        let length = (numbers.len() as f32).sqrt();
        numbers.flat_map(move |number| {
            let (sine, cosine) = (number * FRAC_PI_2).sin_cos();
            [cosine / length, sine / length]
        })
    }
}

impl CueFeature for InteractionFeature {
    fn cue(&self) -> &str {
        INTERACTION_CUE
    }

    fn recipe(&self) -> String {
        format!("door fraction and {} labels fading in {FADING} s", self.labels)
    }

    fn shape(&self) -> LatentShape {
        LatentShape { channels: self.width(), height: 1, width: 1, patch: 1 }
    }

    fn lacking(&self, description: &DatasetDescription) -> Option<String> {
        let needed = [Signal::Events, Signal::DoorFraction];
        let missing = needed.into_iter().find(|signal| !description.has(*signal))?;
        Some(format!("the signal `{}`", missing.name()))
    }

    fn rows(&self, episode: &Episode) -> Result<Vec<f32>> {
        let mut rows = Vec::with_capacity(episode.len() * self.width());
        let mut last: Vec<Option<f64>> = vec![None; self.labels];
        for (frame, time) in episode.times().iter().enumerate() {
            for event in episode.events(frame) {
                if let Some(last) = last.get_mut(usize::from(*event)) {
                    *last = Some(*time);
                }
            }
            rows.push(episode.door_fraction(frame).unwrap_or(0.0).clamp(0.0, 1.0));
            let faded = |since: f64| (-(time - since) / FADING).exp() as f32;
            rows.extend(last.iter().map(|last| last.map_or(0.0, faded)));
        }
        Ok(rows)
    }

    fn encoder(&self) -> Option<Arc<dyn CueEncoder>> {
        Some(Arc::new(*self))
    }
}

impl CueEncoder for InteractionFeature {
    fn cue(&self) -> &str {
        INTERACTION_CUE
    }

    fn dimension(&self) -> usize {
        2 * self.width()
    }

    fn recipe(&self) -> String {
        "cosines and sines of quarter turns".to_owned()
    }

    fn keys(&self, frames: &[f32]) -> Result<Vec<f32>> {
        let whole = frames.len().next_multiple_of(self.width());
        Error::check_length("the interactions of frames", frames.len(), whole)?;
        let rows = frames.chunks_exact(self.width());
        Ok(rows.flat_map(|row| Self::key(row.iter().copied())).collect())
    }

    fn queries(&self, _: &[f32], actions: &[ActionFeatures]) -> Result<Vec<f32>> {
        let mut queries = Vec::with_capacity(actions.len() * self.dimension());
        for action in actions {
            let signals = action.signals();
            // A robot's commands may follow.
            let signals = &signals[..signals.len().min(self.width())];
            Error::check_length("the signals of an action", signals.len(), self.width())?;
            // These signals end with the door, rows begin with it.
            let door = signals[self.labels..].iter();
            let numbers: Vec<f32> = door.chain(&signals[..self.labels]).copied().collect();
            queries.extend(Self::key(numbers.into_iter()));
        }
        Ok(queries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConditionScale;
    use far_data::{
        Dataset, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture, Split,
    };
    use far_memory::Pose;

    const FEATURE: InteractionFeature = InteractionFeature { labels: 2 };

    fn description() -> DatasetDescription {
        let mut description = DatasetDescription::new("test", 10.0, [4, 4], [90.0, 90.0]);
        description.labels = vec!["open".to_owned(), "put".to_owned()];
        description.signals = vec![Signal::Events, Signal::DoorFraction];
        description
    }

    /// The rows of an episode with these events and doors, ten frames per second.
    fn rows(frames: &[(&[u16], Option<f32>)]) -> Vec<f32> {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = DatasetWriter::create(folder.path(), description()).expect("a recording");
        let facts = EpisodeFacts::new("scene", Split::Train, 0);
        let mut episode = writer.episode(0, facts).expect("an episode");
        for (place, (events, door)) in frames.iter().enumerate() {
            let phase = if place == 0 { Phase::Explore } else { Phase::Return };
            let image = FrameImage::Pixels(Picture::filled(4, 4, [0; 3]));
            let mut frame = Frame::new(place as f64 / 10.0, Pose::identity(), phase, image);
            (frame.events, frame.door_fraction) = (events.to_vec(), *door);
            episode.push(frame).expect("a frame");
        }
        episode.finish().expect("an episode");
        writer.finish().expect("a recording");
        let dataset = Dataset::open(folder.path()).expect("it opens");
        let feature = InteractionFeature::of(dataset.description()).expect("it has interactions");
        assert_eq!(feature, FEATURE);
        feature.rows(&dataset.episode(0).expect("an episode")).expect("rows")
    }

    #[test]
    fn events_fade_and_nothing_is_known_before_it_is_done() {
        let found = rows(&[(&[], None), (&[0], Some(0.5)), (&[1], Some(1.0)), (&[0], None)]);
        let faded = |tenths: f32| (-tenths / 10.0).exp();
        let expected =
            [[0.0, 0.0, 0.0], [0.5, 1.0, 0.0], [1.0, faded(1.0), 1.0], [0.0, 1.0, faded(1.0)]];
        for (found, expected) in found.iter().zip(expected.concat()) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        assert_eq!(found.len(), 12);
    }

    #[test]
    fn a_query_is_the_key_of_what_will_have_been_done() {
        let scale = ConditionScale { length: 1.0, time: 1.0 };
        let still = Pose::identity().displacement_from(&Pose::identity());
        let action = |signals: &[f32]| ActionFeatures::new(&scale, still, 1.0, signals);
        let query = FEATURE.queries(&[], &[action(&[1.0, 0.0, 0.8])]).expect("a query");
        let keys = FEATURE.keys(&[0.8, 1.0, 0.0, 0.3, 0.0, 0.9]).expect("keys");
        assert_eq!((query.len(), keys.len()), (FEATURE.dimension(), 2 * FEATURE.dimension()));
        let (same, other) = keys.split_at(FEATURE.dimension());
        assert_eq!(query, same);
        let commanded = FEATURE.queries(&[], &[action(&[1.0, 0.0, 0.8, 5.0])]).expect("a query");
        assert_eq!(commanded, same, "commands of a robot are no interactions");
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        assert!((dot(other, other) - 1.0).abs() < 1e-6 && dot(&query, other) < 0.9);
        assert!(FEATURE.queries(&[], &[action(&[1.0])]).is_err());
        assert!(FEATURE.keys(&[0.5; 4]).is_err());
    }

    #[test]
    fn what_a_dataset_lacks_is_named() {
        let mut silent = description();
        silent.signals.retain(|signal| *signal != Signal::DoorFraction);
        let error = InteractionFeature::of(&silent).expect_err("no doors").to_string();
        assert!(error.contains("`interaction`") && error.contains("`door-fraction`"), "{error}");
    }
}
