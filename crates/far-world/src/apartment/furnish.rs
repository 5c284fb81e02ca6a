//! Places furniture in rooms: along walls, in the middle, on walls; never in front of a door, and
//! never so that a room can no longer be crossed.

use super::finish::{Kit, Taste};
use super::furniture::Workshop;
use super::ground::Ground;
use super::piece::Piece;
use super::plan::{CELL, Door, Plan, RoomKind, Space};
use crate::Prop;
use crate::grid::index_in;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::f32::consts::FRAC_PI_2;

/// Attempts at finding a place for one piece.
const ATTEMPTS: usize = 60;
/// Cells in front of a door that stay free.
const DOOR_CLEARANCE: i32 = 4;
/// Pieces higher than this many meters do not stand in front of windows.
const SILL: f32 = 0.9;

/// Directions to the wall behind a piece, each with the piece's yaw.
const WALLS: [([i32; 2], f32); 4] =
    [([0, 1], 0.0), ([-1, 0], FRAC_PI_2), ([0, -1], 2.0 * FRAC_PI_2), ([1, 0], 3.0 * FRAC_PI_2)];

/// All furniture of a plan, and the floor that stays free.
pub fn furnish(plan: &Plan, kit: &mut Kit, random: &mut ChaCha8Rng) -> (Vec<Prop>, Ground) {
    let mut furnisher = Furnisher {
        plan,
        ground: Ground::new(plan),
        kept: kept_free(plan),
        props: Vec::new(),
        objects: 0,
    };
    for (room, &kind) in plan.rooms.iter().enumerate() {
        let taste = Taste::draw(random);
        let mut workshop = Workshop { kit, taste, random };
        furnisher.fill(room as u8, kind, &mut workshop);
    }
    (furnisher.props, furnisher.ground)
}

/// Makes one piece.
type Make<'w> = fn(&mut Workshop<'w>) -> Piece;

struct Furnisher<'a> {
    plan: &'a Plan,
    ground: Ground,
    /// Cells in front of doors, which stay free of furniture.
    kept: Vec<bool>,
    props: Vec<Prop>,
    objects: u16,
}

impl Furnisher<'_> {
    fn fill<'w>(&mut self, room: u8, kind: RoomKind, shop: &mut Workshop<'w>) {
        let area = self.plan.room_cells(room).count() as f32 * CELL * CELL;
        // Later pieces are for larger rooms, and each may be left out for lack of space.
        match kind {
            // The legs of a corridor must look alike.
            RoomKind::Corridor => return,
            RoomKind::Living => {
                let media = [Workshop::sofa, Workshop::television, Workshop::bookcase];
                self.at_walls(room, &media, shop);
                self.in_middle(room, Workshop::coffee_table, shop);
                let corner = [Workshop::armchair, Workshop::floor_lamp, Workshop::plant];
                self.at_walls(room, &corner, shop);
                if area > 18.0 {
                    let music = [Workshop::piano, Workshop::bookcase, Workshop::plant];
                    self.at_walls(room, &music, shop);
                }
            }
            RoomKind::Kitchen => {
                self.at_walls(room, &[Workshop::counter, Workshop::fridge], shop);
                self.in_middle(room, Workshop::dining_table, shop);
                self.at_walls(room, &[Workshop::dresser], shop);
            }
            RoomKind::Bedroom => {
                let sleep = [Workshop::bed, Workshop::wardrobe, Workshop::nightstand];
                self.at_walls(room, &sleep, shop);
                let stores = shop.random.random_bool(0.5);
                let last: Make<'w> = if stores { Workshop::dresser } else { Workshop::armchair };
                self.at_walls(room, &[last], shop);
            }
            RoomKind::Bath => {
                self.at_walls(room, &[Workshop::bathtub, Workshop::basin, Workshop::toilet], shop);
            }
            RoomKind::Study => {
                let work = [Workshop::desk, Workshop::bookcase, Workshop::bookcase];
                self.at_walls(room, &work, shop);
                self.at_walls(room, &[Workshop::armchair, Workshop::plant], shop);
            }
            RoomKind::Dining => {
                self.in_middle(room, Workshop::dining_table, shop);
                let sides = [Workshop::dresser, Workshop::plant, Workshop::floor_lamp];
                self.at_walls(room, &sides, shop);
            }
            RoomKind::Laundry => {
                self.at_walls(room, &[Workshop::washer, Workshop::washer, Workshop::rack], shop);
                self.at_walls(room, &[Workshop::rack, Workshop::basin], shop);
            }
        }
        if matches!(kind, RoomKind::Living | RoomKind::Bedroom | RoomKind::Study | RoomKind::Dining)
        {
            self.lay_rug(room, shop);
        }
        let extras: [Make<'w>; 4] =
            [Workshop::plant, Workshop::dresser, Workshop::bookcase, Workshop::armchair];
        for _ in 0..((area - 10.0) / 5.0).clamp(0.0, 3.0) as usize {
            let one = shop.random.random_range(0..4) as usize;
            self.at_walls(room, &[extras[one]], shop);
        }
        let pictures = if kind == RoomKind::Laundry { 0 } else { (area / 5.0) as usize };
        for _ in 0..pictures {
            let picture = shop.picture();
            self.at_wall(room, &picture, true, shop.random);
        }
    }

    /// Stands pieces with their backs to a wall.
    fn at_walls<'w>(&mut self, room: u8, makes: &[Make<'w>], shop: &mut Workshop<'w>) {
        for make in makes {
            let piece = make(shop);
            self.at_wall(room, &piece, false, shop.random);
        }
    }

    /// Stands a piece with its back to a wall, or hangs it there, where the wall is free and nothing
    /// high stands in front of it; does nothing if the room is too full.
    fn at_wall(&mut self, room: u8, piece: &Piece, hangs: bool, random: &mut ChaCha8Rng) {
        for _ in 0..ATTEMPTS {
            let Some((center, yaw, cells)) = self.wall_place(room, piece, random) else { continue };
            if hangs {
                // Reserved from now on, so that no second picture is hung here.
                for cell in cells {
                    self.kept[(cell[1] * self.plan.size[0] + cell[0]) as usize] = true;
                }
            } else if !self.occupy(&cells) {
                continue;
            }
            self.put(piece, center, yaw);
            return;
        }
    }

    /// A random place with a wall along its whole back: center, yaw and the cells it covers.
    fn wall_place(
        &self,
        room: u8,
        piece: &Piece,
        random: &mut ChaCha8Rng,
    ) -> Option<([f32; 2], f32, Vec<[i32; 2]>)> {
        let ([bx, by], yaw) = WALLS[random.random_range(0..4usize)];
        let [wide, deep] = piece.size.map(|meters| (meters / CELL).ceil() as i32);
        let start = self.random_cell(room, random)?;
        // Walk to the wall behind the random cell.
        let mut back = start;
        while self.plan.at([back[0] + bx, back[1] + by]) == Space::Room(room) {
            back = [back[0] + bx, back[1] + by];
        }
        // The direction along the wall is a quarter turn from the direction to it.
        let (ax, ay) = (by.abs(), bx.abs());
        let cell = |along: i32, out: i32| {
            [back[0] + ax * along - bx * out, back[1] + ay * along - by * out]
        };
        let cells: Vec<[i32; 2]> = (0..wide)
            .flat_map(|a| (0..deep).map(move |o| (a, o)))
            .map(|(a, o)| cell(a, o))
            .collect();
        let solid_back = (0..wide).all(|along| {
            let behind = cell(along, -1);
            self.plan.at(behind) == Space::Wall
                && (piece.height() <= SILL || !self.plan.is_window(behind))
        });
        if !solid_back || !cells.iter().all(|&cell| self.is_free(room, cell)) {
            return None;
        }
        // Flush with the wall, in the middle of the cells along it.
        let along = 0.5 * (wide - 1) as f32;
        let middle = Plan::middle(back);
        let shift = 0.5 * CELL - 0.5 * piece.size[1];
        let center = [
            middle[0] + (ax as f32 * along) * CELL + bx as f32 * shift,
            middle[1] + (ay as f32 * along) * CELL + by as f32 * shift,
        ];
        Some((center, yaw, cells))
    }

    /// Places a piece with room to walk around it.
    fn in_middle<'w>(&mut self, room: u8, make: Make<'w>, shop: &mut Workshop<'w>) {
        let piece = make(shop);
        for _ in 0..ATTEMPTS {
            let turned = shop.random.random_bool(0.5);
            let [w, d] = piece.size;
            let [wide, deep] =
                (if turned { [d, w] } else { [w, d] }).map(|meters| (meters / CELL).ceil() as i32);
            let Some(low) = self.random_cell(room, shop.random) else { return };
            let around = (-2..wide + 2).flat_map(|x| (-2..deep + 2).map(move |y| (x, y)));
            if !around.clone().all(|(x, y)| self.is_free(room, [low[0] + x, low[1] + y])) {
                continue;
            }
            let cells: Vec<[i32; 2]> =
                (0..wide).flat_map(|x| (0..deep).map(move |y| [low[0] + x, low[1] + y])).collect();
            if self.occupy(&cells) {
                let yaw = if turned { FRAC_PI_2 } else { 0.0 };
                self.put(&piece, middle_of(low, [wide, deep]), yaw);
                return;
            }
        }
    }

    /// Lays a rug on free floor of the room; people walk over it.
    fn lay_rug(&mut self, room: u8, shop: &mut Workshop<'_>) {
        for _ in 0..ATTEMPTS {
            let (wide, deep) = (shop.random.random_range(6..11), shop.random.random_range(5..9));
            let Some(low) = self.random_cell(room, shop.random) else { return };
            let bare = |x: i32, y: i32| {
                let cell = [low[0] + x, low[1] + y];
                self.plan.at(cell) == Space::Room(room) && !self.ground.is_blocked(cell)
            };
            if (0..wide).all(|x| (0..deep).all(|y| bare(x, y))) {
                let rug = shop.rug(wide as f32 * CELL, deep as f32 * CELL);
                self.put(&rug, middle_of(low, [wide, deep]), 0.0);
                return;
            }
        }
    }

    fn put(&mut self, piece: &Piece, center: [f32; 2], yaw: f32) {
        self.objects += 1;
        self.props.extend(piece.placed(center, yaw, self.objects));
    }

    /// Takes cells, unless that would separate doors from each other.
    fn occupy(&mut self, cells: &[[i32; 2]]) -> bool {
        self.ground.block(cells.iter().copied(), true);
        let passable = self.ground.joins_doors(self.plan);
        if !passable {
            self.ground.block(cells.iter().copied(), false);
        }
        passable
    }

    fn is_free(&self, room: u8, cell: [i32; 2]) -> bool {
        self.plan.at(cell) == Space::Room(room)
            && !self.ground.is_blocked(cell)
            && !self.kept[(cell[1] * self.plan.size[0] + cell[0]) as usize]
    }

    fn random_cell(&self, room: u8, random: &mut ChaCha8Rng) -> Option<[i32; 2]> {
        let count = self.plan.room_cells(room).count();
        (count > 0)
            .then(|| random.random_range(0..count))
            .and_then(|nth| self.plan.room_cells(room).nth(nth))
    }
}

/// The middle of `size` cells from `low` on, in meters.
fn middle_of(low: [i32; 2], size: [i32; 2]) -> [f32; 2] {
    std::array::from_fn(|axis| (low[axis] as f32 + 0.5 * size[axis] as f32) * CELL)
}

/// Cells in doorways and in front of them.
fn kept_free(plan: &Plan) -> Vec<bool> {
    let mut kept = vec![false; plan.cells.len()];
    for Door { low, size, .. } in &plan.doors {
        let across = usize::from(size[0] > size[1]);
        let grow = |axis: usize| if axis == across { DOOR_CLEARANCE } else { 0 };
        for y in low[1] - grow(1)..low[1] + size[1] + grow(1) {
            for x in low[0] - grow(0)..low[0] + size[0] + grow(0) {
                if let Some(index) = index_in(plan.size, [x, y]) {
                    kept[index] = true;
                }
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn furnished_rooms_stay_passable_and_inside_their_walls() {
        for seed in 0..12 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let plan = Plan::draw(&mut random);
            let (props, ground) = furnish(&plan, &mut Kit::new(1), &mut random);
            assert!(ground.joins_doors(&plan), "seed {seed}");
            assert!(props.len() > 60, "seed {seed}: {} parts", props.len());
            for prop in &props {
                let [x, y, _] = prop.center;
                assert!(plan.room_at([x, y]).is_some(), "seed {seed}: {prop:?} stands in a wall");
            }
        }
    }

    #[test]
    fn corridors_stay_empty() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let plan = Plan::draw(&mut random);
        let (props, _) = furnish(&plan, &mut Kit::new(1), &mut random);
        assert!(props.iter().all(|prop| plan.room_at([prop.center[0], prop.center[1]]) != Some(0)));
    }
}
