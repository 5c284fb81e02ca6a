//! One walk through an apartment, with frames and sound.

use super::FPS;
use super::house::House;
use super::map::draw_map;
use crate::error::Result;
use crate::scene::Scene;
use crate::sound::{SAMPLE_RATE, Soundscape};
use crate::studio::Studio;
use crate::world::Episode;
use far_data::{EpisodeFacts, Phase, Picture};
use far_memory::Pose;

/// Samples of sound per frame.
const FRAME_SAMPLES: usize = (SAMPLE_RATE as f32 / FPS) as usize;

/// A walk, its scene and its sound.
#[derive(Debug)]
pub struct ApartmentEpisode {
    facts: EpisodeFacts,
    house: House,
    poses: Vec<Pose>,
    boundary: usize,
    soundscape: Soundscape,
    /// All samples of the episode, computed with the first frame.
    heard: Vec<[f32; 2]>,
}

impl ApartmentEpisode {
    pub(super) fn new(
        facts: EpisodeFacts,
        house: House,
        soundscape: Soundscape,
        explore: Vec<Pose>,
        back: &[Pose],
    ) -> Self {
        let boundary = explore.len();
        let mut poses = explore;
        poses.extend_from_slice(back);
        Self { facts, house, poses, boundary, soundscape, heard: Vec::new() }
    }

    /// What sounds, and where.
    pub fn soundscape(&self) -> &Soundscape {
        &self.soundscape
    }

    /// The apartment from above with the walk (exploration blue, return green) and the sources,
    /// `scale` pixels per quarter of a meter.
    pub fn map(&self, scale: u32) -> Picture {
        draw_map(&self.house, &self.soundscape, &self.poses, self.boundary, scale)
    }

    /// All samples of the episode, left and right. Each phase starts from silence with the sources
    /// at the start of their clips, so that the return sounds the same whatever the length of the
    /// exploration.
    pub fn sound(&mut self) -> &[[f32; 2]] {
        if self.heard.is_empty() {
            let mut listener = self.soundscape.listener(FRAME_SAMPLES);
            let (explore, back) = self.poses.split_at(self.boundary);
            listener.hear(explore, &mut self.heard);
            listener.hear(back, &mut self.heard);
        }
        &self.heard
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
        let mut frame = studio.shoot(&self.house.scene, &self.poses[index], time, phase);
        frame.audio = self.sound()[index * FRAME_SAMPLES..(index + 1) * FRAME_SAMPLES].to_vec();
        Ok(frame)
    }

    fn scene(&mut self, _index: usize) -> &Scene {
        &self.house.scene
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
