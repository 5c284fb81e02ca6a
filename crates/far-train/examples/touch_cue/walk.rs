//! A small dataset: walks over floors that are uneven in their own way, out and back.

use far_data::{
    DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture, Split,
    SplitRule,
};
use far_memory::{Displacement, Pose};
use std::path::Path;

const FRAMES_PER_SECOND: f32 = 10.0;
/// Frames out, and as many back.
const FRAMES: u32 = 40;
/// Meters of a step.
const STEP: f32 = 0.1;
const SIDE: u32 = 16;

/// Writes so many walks, each over a floor of its own; every fourth is for testing.
pub fn write(folder: &Path, walks: u32) -> far_data::Result<()> {
    let size = [SIDE, SIDE];
    let mut description = DatasetDescription::new("floor", FRAMES_PER_SECOND, size, [90.0, 90.0]);
    description.splits = vec![SplitRule::Episode];
    let writer = DatasetWriter::create(folder, description)?;
    for id in 0..walks {
        let split = if id % 4 == 3 { Split::Test } else { Split::Train };
        let facts = EpisodeFacts::new(format!("floor {id}"), split, u64::from(id));
        let mut episode = writer.episode(id, facts)?;
        let mut below = 0.0;
        for index in 0..2 * FRAMES {
            let (place, phase) = match index.checked_sub(FRAMES) {
                None => (index, Phase::Explore),
                Some(back) => (FRAMES - 1 - back, Phase::Return),
            };
            let pose = Pose::from_yaw_pitch([STEP * place as f32, 0.0, 1.6], 0.0, 0.0);
            let time = f64::from(index) / f64::from(FRAMES_PER_SECOND);
            let image = FrameImage::Pixels(picture(id, place));
            let mut frame = Frame::new(time, pose, phase, image);
            let height = floor(id, place);
            let forward = if phase == Phase::Explore { STEP } else { -STEP };
            frame.action = Some(Displacement { forward, up: height - below, ..Default::default() });
            below = height;
            episode.push(frame)?;
        }
        episode.finish()?;
    }
    writer.finish()?;
    Ok(())
}

/// How high the floor of an episode is at a place, in meters.
fn floor(id: u32, place: u32) -> f32 {
    let (own, place) = (id as f32, place as f32);
    0.03 * (0.9 * place + own).sin() + 0.03 * (0.37 * place + 2.0 * own).sin()
}

/// What is seen there: stripes whose phase and color follow the place.
fn picture(id: u32, place: u32) -> Picture {
    let mut picture = Picture::filled(SIDE, SIDE, [0; 3]);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let bright = (x + place) / 4 % 2 == 0;
            let color = [6 * place as u8, (40 * id) as u8, if bright { 200 } else { 40 }];
            picture.set_pixel(x, y, color);
        }
    }
    picture
}
