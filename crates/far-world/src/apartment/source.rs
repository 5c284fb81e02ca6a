//! The sound sources of an apartment.

use super::house::House;
use super::plan::{CEILING, CELL, Plan, Space};
use crate::sound::{Clip, ClipKind, Floor, Model, Soundscape, Source};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Number of different clips of one kind.
const VARIANTS: u32 = 8;

/// Two to four sources in different rooms, each of a different kind; place, clip and gain come from
/// `random`.
pub fn soundscape(house: &House, random: &mut ChaCha8Rng) -> Soundscape {
    let plan = &house.plan;
    let mut rooms: Vec<u8> = (1..plan.rooms.len() as u8).collect();
    let mut kinds = ClipKind::ALL;
    rooms.shuffle(random);
    kinds.shuffle(random);
    let count = random.random_range(2..=4usize);
    let sources = rooms
        .into_iter()
        .zip(kinds)
        .take(count)
        .map(|(room, kind)| {
            // On a piece of furniture, where nobody walks, if the room has one.
            let blocked = |cell: &[i32; 2]| house.ground.is_blocked(*cell);
            let mut cells: Vec<[i32; 2]> = plan.room_cells(room).filter(blocked).collect();
            if cells.is_empty() {
                cells = plan.room_cells(room).collect();
            }
            let [x, y] = Plan::middle(cells[random.random_range(0..cells.len())]);
            let decibels: f32 = random.random_range(-6.0..3.0);
            Source {
                position: [x, y, random.random_range(0.4..1.8)],
                clip: Arc::new(Clip::synthesize(kind, random.random_range(0..VARIANTS))),
                gain: 10f32.powf(decibels / 20.0),
            }
        })
        .collect();
    Soundscape::new(acoustic_floor(plan), CEILING, Model::default(), sources)
}

/// What blocks sound: walls, with or without a window, but no furniture.
fn acoustic_floor(plan: &Plan) -> Floor {
    let [columns, rows] = plan.size.map(|cells| cells as usize);
    Floor::new(columns, rows, CELL, |x, y| plan.at([x as i32, y as i32]) == Space::Wall)
}
