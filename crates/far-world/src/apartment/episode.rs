//! One walk through an apartment, seen and heard.

use super::FPS;
use super::house::House;
use crate::error::Result;
use crate::scene::Scene;
use crate::sound::{SAMPLE_RATE, Soundscape};
use crate::studio::Studio;
use crate::world::Episode;
use far_data::{EpisodeFacts, Phase};
use far_memory::Pose;

/// Samples of sound per frame.
const FRAME_SAMPLES: usize = (SAMPLE_RATE as f32 / FPS) as usize;

/// A walk, its scene and its sound.
pub(super) struct ApartmentEpisode {
    facts: EpisodeFacts,
    scene: Scene,
    poses: Vec<Pose>,
    boundary: usize,
    soundscape: Soundscape,
    /// All samples of the episode, once the first frame was asked for.
    heard: Vec<[f32; 2]>,
}

impl ApartmentEpisode {
    pub fn new(
        facts: EpisodeFacts,
        house: House,
        soundscape: Soundscape,
        explore: Vec<Pose>,
        back: &[Pose],
    ) -> Self {
        let boundary = explore.len();
        let mut poses = explore;
        poses.extend_from_slice(back);
        Self { facts, scene: house.scene, poses, boundary, soundscape, heard: Vec::new() }
    }

    /// The sound of a frame. Each phase is heard from silence with the sources at the start of
    /// their clips, so that the way back sounds the same however long the exploration was.
    fn sound(&mut self, index: usize) -> Vec<[f32; 2]> {
        if self.heard.is_empty() {
            let mut listener = self.soundscape.listener(FRAME_SAMPLES);
            let (explore, back) = self.poses.split_at(self.boundary);
            listener.hear(explore, &mut self.heard);
            listener.hear(back, &mut self.heard);
        }
        self.heard[index * FRAME_SAMPLES..(index + 1) * FRAME_SAMPLES].to_vec()
    }
}

impl Episode for ApartmentEpisode {
    fn facts(&self) -> EpisodeFacts {
        self.facts.clone()
    }

    fn frames(&self) -> usize {
        self.poses.len()
    }

    fn frame(&mut self, index: usize, studio: &mut Studio) -> Result<far_data::Frame> {
        let phase = if index < self.boundary { Phase::Explore } else { Phase::Return };
        let time = index as f64 / f64::from(FPS);
        let mut frame = studio.shoot(&self.scene, &self.poses[index], time, phase);
        frame.audio = self.sound(index);
        Ok(frame)
    }

    fn scene(&mut self, _index: usize) -> &Scene {
        &self.scene
    }

    fn pose(&self, index: usize) -> Pose {
        self.poses[index]
    }

    fn boundary(&self) -> usize {
        self.boundary
    }

    fn map_height(&self) -> f32 {
        1.9
    }
}
