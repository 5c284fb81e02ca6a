//! One thread's renderer with everything needed to turn a scene into a dataset row.

use far_data::{FrameImage, Phase, Picture};
use far_memory::{Camera, Pose};

use crate::frame::{Channels, Frame};
use crate::renderer::Renderer;
use crate::scene::Scene;

/// Fraction of the frame that a face must cover to be visible: 4 of 64 × 64 pixels.
const SEEN_SHARE: f32 = 1.0 / 1024.0;

/// A renderer, its frame, and its size. One per thread; buffers are reused between frames.
#[derive(Debug)]
pub struct Studio {
    size: usize,
    camera: Camera,
    renderer: Renderer,
    frame: Frame,
}

impl Studio {
    /// A studio for square frames of `size` pixels.
    pub fn new(camera: Camera, size: u32) -> Self {
        Self {
            size: size as usize,
            camera,
            renderer: Renderer::default(),
            frame: Frame::with_channels(Channels::ALL),
        }
    }

    /// Renders a scene with all ground truth; the frame stays valid until the next call.
    pub fn render(&mut self, scene: &Scene, pose: &Pose) -> &Frame {
        self.renderer.render(scene, pose, &self.camera, self.size, self.size, &mut self.frame);
        &self.frame
    }

    /// Renders a scene into a dataset row with its image and the visible faces. Masks and depth are
    /// then in [`Studio::frame`].
    pub fn shoot(
        &mut self,
        scene: &Scene,
        pose: &Pose,
        time: f64,
        phase: Phase,
    ) -> far_data::Frame {
        self.render(scene, pose);
        let size = self.size as u32;
        let pixels = self.frame.rgb.clone();
        let image = FrameImage::Pixels(Picture { width: size, height: size, pixels });
        let mut row = far_data::Frame::new(time, *pose, phase, image);
        let enough = ((self.size * self.size) as f32 * SEEN_SHARE).ceil() as usize;
        self.frame.visible_faces(enough.max(1), &mut row.visible_faces);
        row
    }

    /// The frame rendered last.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }
}
