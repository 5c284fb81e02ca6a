//! Shortest paths of sound through doors and around corners.
//!
//! Walls follow a grid, so a shortest path is a chain of straight lines whose bends are convex wall
//! corners. The corners and their mutual visibility are computed once per floor ([`Corners`]); each
//! source then needs one Dijkstra search over the corners ([`SourceField`]), and a listener only
//! the visible corners. Lengths are exact up to the clearance at corners, unlike those of a search
//! over cells, which overestimates diagonals by up to 8 %.

use super::floor::Floor;

/// Clearance of paths from the tip of a corner, in meters along X and along Y, so that a line along
/// a wall's face counts as open.
const CLEARANCE: f32 = 0.01;

/// The corners of a floor around which sound can bend, and which of them are mutually visible.
#[derive(Clone, Debug)]
pub struct Corners {
    points: Vec<[f32; 2]>,
    /// For each corner the visible corners and their distances.
    neighbors: Vec<Vec<(usize, f32)>>,
}

/// Shortest paths from every corner to one source.
#[derive(Clone, Debug)]
pub struct SourceField {
    position: [f32; 2],
    /// For each corner: meters to the source, infinite if unreachable.
    length: Vec<f32>,
    /// The next corner on the path; `None` if it is the source itself.
    next: Vec<Option<usize>>,
    /// Bend in radians at the points after this corner.
    bend: Vec<f32>,
}

/// A shortest path from a listener to a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoundPath {
    /// Length on the floor in meters.
    pub length: f32,
    /// Unit vector (X, Y) from the listener along the first part of the path: the direction of
    /// arrival.
    pub direction: [f32; 2],
    /// Total bend at corners in radians; 0 if the source is visible.
    pub bend: f32,
}

impl Corners {
    /// Finds the convex corners of `floor` and connects those that are mutually visible.
    pub fn new(floor: &Floor) -> Self {
        let (columns, rows) = floor.size();
        let mut points = Vec::new();
        for row in 0..=rows as i32 {
            for column in 0..=columns as i32 {
                for (side_x, side_y) in [(0, 0), (-1, 0), (0, -1), (-1, -1)] {
                    let (opposite_x, opposite_y) = (-1 - side_x, -1 - side_y);
                    let tip = floor.is_wall(column + side_x, row + side_y)
                        && !floor.is_wall(column + opposite_x, row + side_y)
                        && !floor.is_wall(column + side_x, row + opposite_y)
                        && !floor.is_wall(column + opposite_x, row + opposite_y);
                    if tip {
                        let away = |side: i32| if side == 0 { -CLEARANCE } else { CLEARANCE };
                        let [x, y] = [column, row].map(|line| line as f32 * floor.cell());
                        points.push([x + away(side_x), y + away(side_y)]);
                    }
                }
            }
        }
        let neighbors = points
            .iter()
            .enumerate()
            .map(|(i, &from)| {
                let seen = points.iter().enumerate();
                seen.filter(|&(j, &to)| i != j && floor.is_clear(from, to))
                    .map(|(j, &to)| (j, distance(from, to)))
                    .collect()
            })
            .collect();
        Self { points, neighbors }
    }

    /// Replaces `seen` by the corners visible from a point, with their distances.
    pub fn in_sight(&self, floor: &Floor, from: [f32; 2], seen: &mut Vec<(usize, f32)>) {
        seen.clear();
        let all = self.points.iter().enumerate();
        seen.extend(
            all.filter(|&(_, &to)| floor.is_clear(from, to))
                .map(|(i, &to)| (i, distance(from, to))),
        );
    }

    /// Shortest paths from all corners to a source at `position`; equal lengths go to the lower
    /// corner index.
    pub fn field(&self, floor: &Floor, position: [f32; 2]) -> SourceField {
        let count = self.points.len();
        let mut length = vec![f32::INFINITY; count];
        let mut next = vec![None; count];
        let mut bend = vec![0.0; count];
        let mut seen = Vec::new();
        self.in_sight(floor, position, &mut seen);
        for &(corner, meters) in &seen {
            length[corner] = meters;
        }
        let mut done = vec![false; count];
        loop {
            let open = (0..count).filter(|&i| !done[i] && length[i].is_finite());
            let Some(nearest) = open.min_by(|&a, &b| length[a].total_cmp(&length[b])) else {
                break;
            };
            done[nearest] = true;
            for &(corner, meters) in &self.neighbors[nearest] {
                if length[nearest] + meters < length[corner] {
                    length[corner] = length[nearest] + meters;
                    next[corner] = Some(nearest);
                    let after = next[nearest].map_or(position, |next: usize| self.points[next]);
                    bend[corner] =
                        bend[nearest] + turn(self.points[corner], self.points[nearest], after);
                }
            }
        }
        SourceField { position, length, next, bend }
    }

    /// The shortest path from a listener to the source of `field`, or `None` if walls leave none.
    ///
    /// `seen` holds the corners visible from the listener ([`Corners::in_sight`]), computed once
    /// for all sources.
    pub fn path(
        &self,
        floor: &Floor,
        field: &SourceField,
        listener: [f32; 2],
        seen: &[(usize, f32)],
    ) -> Option<SoundPath> {
        let source = field.position;
        if floor.is_clear(listener, source) {
            let (length, direction) = (distance(listener, source), direction(listener, source));
            return Some(SoundPath { length, direction, bend: 0.0 });
        }
        let (corner, meters) = field.first_corner(seen)?;
        let point = self.points[corner];
        let after = field.next[corner].map_or(source, |next| self.points[next]);
        Some(SoundPath {
            length: meters + field.length[corner],
            direction: direction(listener, point),
            bend: field.bend[corner] + turn(listener, point, after),
        })
    }

    /// The points of the shortest path between two places, both included; `None` if there is none.
    /// Walkers use it too.
    pub fn way(&self, floor: &Floor, from: [f32; 2], to: [f32; 2]) -> Option<Vec<[f32; 2]>> {
        let mut points = vec![from];
        if !floor.is_clear(from, to) {
            let field = self.field(floor, to);
            let mut seen = Vec::new();
            self.in_sight(floor, from, &mut seen);
            let mut next = Some(field.first_corner(&seen)?.0);
            while let Some(corner) = next {
                points.push(self.points[corner]);
                next = field.next[corner];
            }
        }
        points.push(to);
        Some(points)
    }
}

impl SourceField {
    /// The visible corner, with its distance, that begins the shortest path.
    fn first_corner(&self, seen: &[(usize, f32)]) -> Option<(usize, f32)> {
        let total = |&(corner, meters): &(usize, f32)| meters + self.length[corner];
        let nearest = seen.iter().min_by(|a, b| total(a).total_cmp(&total(b)))?;
        total(nearest).is_finite().then_some(*nearest)
    }
}

fn distance(a: [f32; 2], b: [f32; 2]) -> f32 {
    (b[0] - a[0]).hypot(b[1] - a[1])
}

/// Unit vector from `a` to `b`; north when they coincide.
fn direction(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
    let length = distance(a, b);
    if length > 0.0 { [(b[0] - a[0]) / length, (b[1] - a[1]) / length] } else { [0.0, 1.0] }
}

/// The angle in radians by which a path a → b → c turns at b.
fn turn(a: [f32; 2], b: [f32; 2], c: [f32; 2]) -> f32 {
    let ([ux, uy], [vx, vy]) = (direction(a, b), direction(b, c));
    (ux * vy - uy * vx).atan2(ux * vx + uy * vy).abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::f32::consts::{FRAC_PI_2, SQRT_2};

    fn path(floor: &Floor, source: [f32; 2], listener: [f32; 2]) -> Option<SoundPath> {
        let corners = Corners::new(floor);
        let mut seen = Vec::new();
        corners.in_sight(floor, listener, &mut seen);
        corners.path(floor, &corners.field(floor, source), listener, &seen)
    }

    /// The reference: Dijkstra over the cells, eight neighbors, no cutting of corners.
    fn dijkstra(floor: &Floor, source: (i32, i32), listener: (i32, i32)) -> Option<f32> {
        let (columns, rows) = floor.size();
        let at = |(x, y): (i32, i32)| y as usize * columns + x as usize;
        let mut length = vec![f32::INFINITY; columns * rows];
        let mut done = vec![false; columns * rows];
        length[at(source)] = 0.0;
        loop {
            let open = (0..length.len()).filter(|&i| !done[i] && length[i].is_finite());
            let Some(i) = open.min_by(|&a, &b| length[a].total_cmp(&length[b])) else { break };
            done[i] = true;
            let (x, y) = ((i % columns) as i32, (i / columns) as i32);
            for (dx, dy) in (-1..=1).flat_map(|dx| (-1..=1).map(move |dy| (dx, dy))) {
                let blocked = floor.is_wall(x + dx, y + dy)
                    || floor.is_wall(x + dx, y)
                    || floor.is_wall(x, y + dy);
                if !blocked && (dx, dy) != (0, 0) {
                    let meters = floor.cell() * if dx != 0 && dy != 0 { SQRT_2 } else { 1.0 };
                    let there = at((x + dx, y + dy));
                    length[there] = length[there].min(length[i] + meters);
                }
            }
        }
        Some(length[at(listener)]).filter(|length| length.is_finite())
    }

    #[test]
    fn a_source_in_sight_is_heard_where_it_is() {
        let floor = Floor::from_text("####\n#..#\n#..#\n####", 1.0);
        let found = path(&floor, [2.5, 2.5], [1.5, 1.5]).unwrap();
        assert!((found.length - SQRT_2).abs() < 1e-6 && found.bend == 0.0);
        assert!((found.direction[0] - 0.5f32.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn sound_bends_once_around_one_corner() {
        let floor = Floor::from_text("#####\n#...#\n#.#.#\n#.#.#\n#####", 1.0);
        let found = path(&floor, [3.5, 1.5], [1.5, 3.5]).unwrap();
        // Around the corner at (3, 3): two units right and half down, then half right, 1.5 down.
        let expected = 1.5f32.hypot(0.5) + 0.5f32.hypot(1.5);
        assert!((found.length - expected).abs() < 0.05, "{found:?}");
        assert!(found.bend > 0.7 && found.bend < FRAC_PI_2, "{found:?}");
        assert!(found.direction[0] > 0.9 && found.direction[1] < 0.0, "{found:?}");
    }

    #[test]
    fn ways_are_as_long_as_their_paths_and_stay_in_the_open() {
        let floor = Floor::from_text("#######\n#..#..#\n#..#..#\n#.....#\n#######", 1.0);
        let (from, to) = ([1.2, 3.6], [5.7, 3.7]);
        let way = Corners::new(&floor).way(&floor, from, to).unwrap();
        assert_eq!((way[0], way[way.len() - 1], way.len()), (from, to, 4));
        assert!(way.windows(2).all(|pair| floor.is_clear(pair[0], pair[1])));
        let length: f32 = way.windows(2).map(|pair| distance(pair[0], pair[1])).sum();
        assert!((length - path(&floor, to, from).unwrap().length).abs() < 1e-4);
    }

    #[test]
    fn no_way_gives_no_path() {
        let floor = Floor::from_text("#####\n#.#.#\n#####", 1.0);
        assert_eq!(path(&floor, [1.5, 1.5], [3.5, 1.5]), None);
        assert_eq!(Corners::new(&floor).way(&floor, [1.5, 1.5], [3.5, 1.5]), None);
    }

    #[test]
    fn length_and_bending_grow_smoothly_into_the_shadow() {
        let floor = Floor::from_text("#######\n#.....#\n#.....#\n#.###.#\n#.###.#\n#######", 1.0);
        let source = [1.5, 1.2];
        let mut before = path(&floor, source, [1.5, 4.5]).unwrap();
        for step in 1..=350 {
            let now = path(&floor, source, [1.5 + 0.01 * step as f32, 4.5]).unwrap();
            assert!((now.length - before.length).abs() < 0.02, "{before:?} {now:?}");
            assert!((now.bend - before.bend).abs() < 0.03, "{before:?} {now:?}");
            before = now;
        }
        assert!(before.bend > 0.7);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(120))]
        #[test]
        fn agrees_with_dijkstra_over_cells(
            walls in proptest::collection::vec(proptest::bool::weighted(0.25), 100),
            ends in proptest::array::uniform4(0i32..10),
        ) {
            let (source, listener) = ((ends[0], ends[1]), (ends[2], ends[3]));
            // Walls two cells wide on a finer grid, so that gaps between diagonal cells count alike.
            let floor = Floor::new(30, 30, 0.5, |column, row| {
                let coarse = (column as i32 / 3, row as i32 / 3);
                coarse != source && coarse != listener
                    && walls[(row / 3) * 10 + column / 3]
            });
            let fine = |(x, y): (i32, i32)| (3 * x + 1, 3 * y + 1);
            let center = |p| { let (x, y): (i32, i32) = fine(p); [(x as f32 + 0.5) * 0.5, (y as f32 + 0.5) * 0.5] };
            let by_cells = dijkstra(&floor, fine(source), fine(listener));
            let found = path(&floor, center(source), center(listener));
            prop_assert_eq!(by_cells.is_some(), found.is_some());
            if let (Some(cells), Some(found)) = (by_cells, found) {
                let bends = 1.0 + found.bend / 0.1;
                prop_assert!(found.length <= cells + 0.03 * bends, "{} {}", found.length, cells);
                // A cell path overestimates by up to 8.3 % and swings wide at each corner.
                prop_assert!(cells <= 1.083 * found.length + 0.5 * (1.0 + found.bend), "{} {}", found.length, cells);
            }
        }
    }
}
