//! One walk through an apartment, with frames and sound.

use super::FPS;
use super::house::House;
use super::map::draw_map;
use crate::error::Result;
use crate::scene::Scene;
use crate::sound::{SAMPLE_RATE, Soundscape};
use crate::studio::Studio;
use crate::world::{Course, Episode};
use far_data::Picture;

/// Samples of sound per frame.
const FRAME_SAMPLES: usize = (SAMPLE_RATE as f32 / FPS) as usize;

/// A walk, its scene and its sound.
#[derive(Debug)]
pub struct ApartmentEpisode {
    pub(super) course: Course,
    pub(super) house: House,
    pub(super) soundscape: Soundscape,
    /// All samples of the episode, computed with the first frame.
    pub(super) heard: Vec<[f32; 2]>,
}

impl ApartmentEpisode {
    /// What sounds, and where.
    pub fn soundscape(&self) -> &Soundscape {
        &self.soundscape
    }

    /// The apartment from above with the walk (exploration blue, return green) and the sources,
    /// `scale` pixels per quarter of a meter.
    pub fn map(&self, scale: u32) -> Picture {
        draw_map(&self.house, &self.soundscape, &self.course, scale)
    }

    /// All samples of the episode, left and right. Each phase starts from silence with the sources
    /// at the start of their clips, so that the return sounds the same whatever the length of the
    /// exploration.
    pub fn sound(&mut self) -> &[[f32; 2]] {
        if self.heard.is_empty() {
            let mut listener = self.soundscape.listener(FRAME_SAMPLES);
            let (explore, back) = self.course.poses.split_at(self.course.boundary);
            listener.hear(explore, &mut self.heard);
            listener.hear(back, &mut self.heard);
        }
        &self.heard
    }
}

impl Episode for ApartmentEpisode {
    fn course(&self) -> &Course {
        &self.course
    }

    fn frame(&mut self, index: usize, studio: &mut Studio) -> Result<far_data::Frame> {
        let mut frame = self.course.shoot(index, &self.house.scene, studio);
        frame.audio = self.sound()[index * FRAME_SAMPLES..(index + 1) * FRAME_SAMPLES].to_vec();
        Ok(frame)
    }

    fn scene(&mut self, _index: usize) -> &Scene {
        &self.house.scene
    }
}
