//! A map of an apartment with a walk and the sound sources.

use super::house::House;
use super::plan::{CELL, RoomKind, Space};
use crate::sound::Soundscape;
use crate::world::Course;
use far_data::Picture;
use far_memory::Pose;

const WALL: [u8; 3] = [52, 52, 58];
const DOOR: [u8; 3] = [214, 190, 150];
const WINDOW: [u8; 3] = [130, 190, 235];
const EXPLORE: [u8; 3] = [40, 110, 220];
const RETURN: [u8; 3] = [30, 160, 70];
const SOURCES: [[u8; 3]; 4] = [[220, 40, 40], [230, 130, 20], [150, 50, 180], [200, 30, 120]];

/// A map with `scale` pixels per cell of the plan, north up: rooms by use, furniture darker,
/// windows light blue; the exploration is blue, the return green, every source a disk.
pub fn draw_map(house: &House, soundscape: &Soundscape, course: &Course, scale: u32) -> Picture {
    let Course { poses, boundary, .. } = course;
    let [columns, rows] = house.plan.size.map(|cells| cells as u32);
    let mut picture = Picture::filled(columns * scale, rows * scale, WALL);
    for y in 0..rows * scale {
        for x in 0..columns * scale {
            let cell = [(x / scale) as i32, (rows - 1 - y / scale) as i32];
            picture.set_pixel(x, y, cell_color(house, cell));
        }
    }
    let height = (rows * scale) as f32;
    let pixel = |[x, y]: [f32; 2]| [x / CELL * scale as f32, height - y / CELL * scale as f32];
    let place = |pose: &Pose| pixel([pose.position[0], pose.position[1]]);
    let thin = 0.14 * scale as f32;
    for (index, pose) in poses.iter().enumerate() {
        let color = if index < *boundary { EXPLORE } else { RETURN };
        disk(&mut picture, place(pose), thin, color);
    }
    if let Some(first) = poses.first() {
        disk(&mut picture, place(first), 5.0 * thin, [255; 3]);
        disk(&mut picture, place(first), 3.5 * thin, EXPLORE);
    }
    for (source, color) in soundscape.sources().zip(SOURCES.iter().cycle()) {
        let [x, y, _] = source.position;
        disk(&mut picture, pixel([x, y]), 6.0 * thin, [255; 3]);
        disk(&mut picture, pixel([x, y]), 4.5 * thin, *color);
    }
    picture
}

fn cell_color(house: &House, cell: [i32; 2]) -> [u8; 3] {
    match house.plan.at(cell) {
        Space::Wall if house.plan.is_window(cell) => WINDOW,
        Space::Wall => WALL,
        Space::Door(_) => DOOR,
        Space::Room(room) => {
            let color = room_color(house.plan.rooms[usize::from(room)]);
            let blocked = house.ground.is_blocked(cell);
            if blocked { color.map(|channel| channel / 10 * 7) } else { color }
        }
    }
}

fn room_color(kind: RoomKind) -> [u8; 3] {
    match kind {
        RoomKind::Corridor => [232, 228, 220],
        RoomKind::Living => [244, 214, 160],
        RoomKind::Kitchen => [190, 226, 200],
        RoomKind::Bedroom => [206, 200, 238],
        RoomKind::Bath => [176, 220, 238],
        RoomKind::Study => [226, 200, 184],
        RoomKind::Dining => [240, 196, 186],
        RoomKind::Laundry => [206, 216, 216],
    }
}

fn disk(picture: &mut Picture, [x, y]: [f32; 2], radius: f32, color: [u8; 3]) {
    let reach = |at: f32| (at - radius).floor().max(0.0) as u32..=(at + radius).ceil() as u32;
    for row in reach(y) {
        for column in reach(x) {
            if (column as f32 + 0.5 - x).hypot(row as f32 + 0.5 - y) <= radius.max(0.7) {
                picture.set_pixel(column, row, color);
            }
        }
    }
}
