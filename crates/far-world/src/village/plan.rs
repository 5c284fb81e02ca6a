//! The ground plan of a village: lanes, a market square, lots for houses.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::grid::index_in;

/// Width and depth of a village in meters.
pub(super) const EXTENT: i32 = 88;
/// Width of the outer border in which nobody walks, in meters.
pub(super) const MARGIN: i32 = 5;

/// What covers one square meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    Wild,
    Green,
    Lane,
    Plaza,
    Lot,
    Field,
}

/// A side of a house: east, north, west, south.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    East,
    North,
    West,
    South,
}

impl Side {
    pub const ALL: [Self; 4] = [Self::East, Self::North, Self::West, Self::South];

    /// The axis across its wall.
    pub fn axis(self) -> usize {
        usize::from(matches!(self, Self::North | Self::South))
    }

    /// Whether it lies at the upper end of that axis.
    pub fn is_high(self) -> bool {
        matches!(self, Self::East | Self::North)
    }
}

/// A rectangle in whole meters, upper bounds excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rectangle {
    pub low: [i32; 2],
    pub high: [i32; 2],
}

impl Rectangle {
    pub fn new(x0: i32, y0: i32, x1: i32, y1: i32) -> Self {
        Self { low: [x0, y0], high: [x1, y1] }
    }

    /// From the first to the second of `along` on an axis, and of `across` on the other.
    pub fn along(axis: usize, along: [i32; 2], across: [i32; 2]) -> Self {
        let corner = |end: usize| {
            if axis == 0 { [along[end], across[end]] } else { [across[end], along[end]] }
        };
        Self { low: corner(0), high: corner(1) }
    }

    /// The rectangle grown by `by` on all sides.
    pub fn grown(&self, by: i32) -> Self {
        Self { low: self.low.map(|v| v - by), high: self.high.map(|v| v + by) }
    }

    pub fn center(&self) -> [f32; 2] {
        std::array::from_fn(|axis| 0.5 * (self.low[axis] + self.high[axis]) as f32)
    }

    pub fn size(&self) -> [i32; 2] {
        [self.high[0] - self.low[0], self.high[1] - self.low[1]]
    }
}

/// A place for a house, with the side that faces its lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lot {
    pub house: Rectangle,
    pub front: Side,
}

/// The ground plan.
pub(super) struct Plan {
    cover: Vec<Cover>,
    pub plaza: Rectangle,
    pub lots: Vec<Lot>,
    /// Center lines of lanes along Y (by x) and along X (by y).
    pub lanes: [Vec<i32>; 2],
}

/// Half the width of a lane in meters.
const HALF_LANE: i32 = 2;

impl Plan {
    /// Lays out a village.
    pub fn new(random: &mut ChaCha8Rng) -> Self {
        let mut plan = Self {
            cover: vec![Cover::Green; (EXTENT * EXTENT) as usize],
            plaza: Rectangle::new(0, 0, 0, 0),
            lots: Vec::new(),
            lanes: [lane_lines(random), lane_lines(random)],
        };
        for y in 0..EXTENT {
            for x in 0..EXTENT {
                let edge = x.min(y).min(EXTENT - 1 - x).min(EXTENT - 1 - y);
                if edge < MARGIN {
                    plan.set(x, y, Cover::Wild);
                }
            }
        }
        plan.draw_lanes(random);
        let [x, y] =
            [0, 1].map(|axis| plan.lanes[axis][random.random_range(0..plan.lanes[axis].len())]);
        let (half_x, half_y) = (random.random_range(6..9), random.random_range(6..9));
        plan.plaza = Rectangle::new(x - half_x, y - half_y, x + half_x, y + half_y);
        plan.paint(plan.plaza, Cover::Plaza);
        plan.deal_lots(random);
        plan.lay_fields(random);
        plan
    }

    pub fn cover(&self, x: i32, y: i32) -> Cover {
        index_in([EXTENT; 2], [x, y]).map_or(Cover::Wild, |index| self.cover[index])
    }

    fn set(&mut self, x: i32, y: i32, cover: Cover) {
        if let Some(index) = index_in([EXTENT; 2], [x, y]) {
            self.cover[index] = cover;
        }
    }

    fn paint(&mut self, area: Rectangle, cover: Cover) {
        for y in area.low[1]..area.high[1] {
            for x in area.low[0]..area.high[0] {
                if self.cover(x, y) != Cover::Wild {
                    self.set(x, y, cover);
                }
            }
        }
    }

    /// Whether a rectangle is entirely green.
    pub fn is_green(&self, area: Rectangle) -> bool {
        (area.low[1]..area.high[1])
            .all(|y| (area.low[0]..area.high[0]).all(|x| self.cover(x, y) == Cover::Green))
    }

    /// Draws the lanes, leaving out some pieces between crossings so that paths have corners.
    fn draw_lanes(&mut self, random: &mut ChaCha8Rng) {
        for axis in 0..2 {
            let lines = self.lanes[axis].clone();
            let crossings = self.lanes[1 - axis].clone();
            for (number, &line) in lines.iter().enumerate() {
                let mut ends = vec![MARGIN];
                ends.extend(&crossings);
                ends.push(EXTENT - MARGIN);
                for (stretch, pair) in ends.windows(2).enumerate() {
                    // The center line stays whole, so that everything stays connected.
                    let outer = stretch == 0 || stretch + 2 == ends.len();
                    let keep = number == 1 || random.random_bool(if outer { 0.55 } else { 0.85 });
                    if !keep {
                        continue;
                    }
                    let along = [pair[0] - HALF_LANE, pair[1] + HALF_LANE];
                    let across = [line - HALF_LANE, line + HALF_LANE];
                    let area = Rectangle::along(1 - axis, along, across);
                    self.paint(area, Cover::Lane);
                }
            }
        }
    }

    /// Goes along both sides of every lane and places houses where there is room.
    fn deal_lots(&mut self, random: &mut ChaCha8Rng) {
        for axis in 0..2 {
            for line in self.lanes[axis].clone() {
                for side in [-1, 1] {
                    let mut at = MARGIN + 1;
                    while at < EXTENT - MARGIN - 5 {
                        let width = random.random_range(6..=11);
                        let depth = random.random_range(5..=9);
                        let setback = random.random_range(1..=3);
                        let near = line + side * (HALF_LANE + setback);
                        let far = near + side * depth;
                        let across = [near.min(far), near.max(far)];
                        let house = Rectangle::along(1 - axis, [at, at + width], across);
                        let front = match (axis, side < 0) {
                            (0, true) => Side::East,
                            (0, false) => Side::West,
                            (_, true) => Side::North,
                            (_, false) => Side::South,
                        };
                        let faces_lane = self.front_is_lane(line, axis, at + width / 2);
                        if faces_lane && self.is_green(house.grown(1)) {
                            self.paint(house, Cover::Lot);
                            self.lots.push(Lot { house, front });
                            at += width + random.random_range(2..=6);
                        } else {
                            at += 2;
                        }
                    }
                }
            }
        }
    }

    fn front_is_lane(&self, line: i32, axis: usize, along: i32) -> bool {
        let cover = if axis == 0 { self.cover(line, along) } else { self.cover(along, line) };
        matches!(cover, Cover::Lane | Cover::Plaza)
    }

    /// Turns some of the remaining green into fields.
    fn lay_fields(&mut self, random: &mut ChaCha8Rng) {
        for _ in 0..40 {
            let (width, depth) = (random.random_range(5..11), random.random_range(5..11));
            let x = random.random_range(MARGIN + 1..EXTENT - MARGIN - width);
            let y = random.random_range(MARGIN + 1..EXTENT - MARGIN - depth);
            let area = Rectangle::new(x, y, x + width, y + depth);
            if random.random_bool(0.35) && self.is_green(area.grown(1)) {
                self.paint(area, Cover::Field);
            }
        }
    }
}

/// Three lines across a village, some meters apart.
fn lane_lines(random: &mut ChaCha8Rng) -> Vec<i32> {
    [16, 44, 72].map(|middle: i32| middle + random.random_range(-6..=6)).to_vec()
}
