//! Builds the stations: panels, doors, drawers and lids of every kind.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::anchor::Anchor;
use super::palette::Palette;
use super::station::{Station, StationKind};
use crate::vector::Vector;
use crate::{Axis, MaterialId, Prop, Shape};

/// Thickness of panels and doors in meters.
const PANEL: f32 = 0.04;
/// Height of worktops.
const WORKTOP: f32 = 0.9;
/// How far an open drawer slides out.
const DRAWER_SLIDE: Vector = [0.0, 0.46, 0.0];

/// Adds furniture to the props of a scene.
pub(crate) struct Carpenter<'a> {
    pub palette: &'a Palette,
    pub props: &'a mut Vec<Prop>,
    pub random: &'a mut ChaCha8Rng,
    /// Where the station stands.
    pub anchor: Anchor,
}

impl Carpenter<'_> {
    /// Builds a station of a kind.
    pub fn build(&mut self, kind: StationKind) -> Station {
        let before = self.props.len();
        let side = if self.random.random_bool(0.5) { 1.0 } else { -1.0 };
        let spots = match kind {
            StationKind::Counter => self.counter(),
            StationKind::Sink => self.sink(),
            StationKind::Table => self.table(),
            StationKind::Shelf => self.shelf(),
            StationKind::Stand => self.stand(),
            StationKind::Fridge => self.fridge(side),
            StationKind::Cupboard => self.cupboard(),
            StationKind::Oven => self.oven(),
            StationKind::Drawer => self.drawer(),
            StationKind::Chest => self.chest(),
            StationKind::Sideboard => self.sideboard(),
            StationKind::Microwave => self.microwave(side),
        };
        let moving = (before..self.props.len())
            .filter(|&index| !matches!(self.props[index].motion, crate::Motion::Fixed))
            .collect();
        let slide = if kind == StationKind::Drawer { DRAWER_SLIDE } else { [0.0; 3] };
        Station::new(kind, self.anchor, &spots, slide, moving, side)
    }

    /// A fixed box that casts baked shadows.
    fn solid(&mut self, center: Vector, size: Vector, material: MaterialId) {
        self.props.push(self.anchor.block(center, size, material).with_shadow());
    }

    /// A fixed box too thin to cast shadows.
    fn thin(&mut self, center: Vector, size: Vector, material: MaterialId) {
        self.props.push(self.anchor.block(center, size, material));
    }

    /// A fixed drum too thin to cast shadows.
    fn drum(&mut self, center: Vector, size: Vector, material: MaterialId) {
        self.props.push(self.anchor.block(center, size, material).with_shape(Shape::Drum));
    }

    /// Cabinets with doors under a worktop, `width` wide and `depth` deep.
    fn base(&mut self, width: f32, depth: f32) {
        let palette = self.palette;
        let leaves = 2;
        let leaf = width / leaves as f32;
        for index in 0..leaves {
            let u = (index as f32 + 0.5) * leaf - 0.5 * width;
            let center = [u, 0.5 * depth - 0.02, 0.5 * WORKTOP];
            let size = [leaf - 0.01, depth - 0.06, WORKTOP - 0.06];
            let front = self.anchor.block(center, size, palette.cabinet).with_shadow();
            self.props.push(front.with_face(3, palette.cabinet_front));
        }
        let top = [0.0, 0.5 * depth, WORKTOP - 0.03];
        self.solid(top, [width, depth + 0.02, 0.06], palette.worktop);
        self.thin([0.0, 0.01, WORKTOP + 0.22], [width, 0.02, 0.44], palette.backsplash);
    }

    /// An open box: back, sides, bottom and top; `low` and `high` are local corners.
    fn carcass(&mut self, low: Vector, high: Vector, [out, inside]: [MaterialId; 2]) {
        let middle: Vector = std::array::from_fn(|axis| 0.5 * (low[axis] + high[axis]));
        let size: Vector = std::array::from_fn(|axis| high[axis] - low[axis]);
        let [u, v, z] = middle;
        let half = 0.5 * PANEL;
        let back = self.anchor.block([u, low[1] + half, z], [size[0], PANEL, size[2]], out);
        self.props.push(back.with_face(3, inside));
        for (at, face) in [(low[0] + half, 1), (high[0] - half, 0)] {
            let panel = self.anchor.block([at, v, z], [PANEL, size[1], size[2]], out);
            self.props.push(panel.with_face(face, inside));
        }
        for (at, face) in [(low[2] + half, 5), (high[2] - half, 4)] {
            let panel = self.anchor.block([u, v, at], [size[0], size[1], PANEL], out);
            self.props.push(panel.with_face(face, inside));
        }
    }

    /// A door in front of the opening between two local corners of a front at depth `front`, hinged
    /// at `hinge` (−1 or +1 along the wall), with a handle on the other side.
    fn door(
        &mut self,
        low: [f32; 2],
        high: [f32; 2],
        front: f32,
        hinge: f32,
        faces: [MaterialId; 2],
    ) {
        let size = [high[0] - low[0], PANEL, high[1] - low[1]];
        let center = [0.5 * (low[0] + high[0]), front + 0.5 * PANEL, 0.5 * (low[1] + high[1])];
        let line = [center[0] + 0.5 * size[0] * hinge, front, center[2]];
        let angle = -hinge * 1.85;
        let [outside, inside] = faces;
        let leaf =
            self.anchor.hinged((center, size), outside, line, Axis::Z, angle).with_face(2, inside);
        self.props.push(leaf);
        let grip = [center[0] - 0.38 * size[0] * hinge, front + PANEL + 0.02, center[2]];
        let grip_size = [0.025, 0.035, (0.3 * size[2]).min(0.4)];
        let handle =
            self.anchor.hinged((grip, grip_size), self.palette.handle, line, Axis::Z, angle);
        self.props.push(handle);
    }

    /// Two doors that meet in the middle.
    fn double_door(&mut self, low: [f32; 2], high: [f32; 2], front: f32) {
        let faces = [self.palette.cabinet_front, self.palette.cabinet];
        self.door(low, [-0.005, high[1]], front, -1.0, faces);
        self.door([0.005, low[1]], high, front, 1.0, faces);
    }

    fn counter(&mut self) -> Vec<Vector> {
        let kind = StationKind::Counter;
        self.base(kind.width(), kind.depth());
        row(3, 0.40, 0.34, WORKTOP)
    }

    fn sink(&mut self) -> Vec<Vector> {
        let kind = StationKind::Sink;
        self.base(kind.width(), kind.depth());
        let palette = self.palette;
        self.thin([0.0, 0.33, WORKTOP], [0.44, 0.38, 0.012], palette.metal);
        self.thin([0.0, 0.33, WORKTOP + 0.004], [0.36, 0.30, 0.01], palette.black);
        self.thin([0.0, 0.09, WORKTOP + 0.13], [0.035, 0.035, 0.26], palette.handle);
        self.thin([0.0, 0.17, WORKTOP + 0.25], [0.03, 0.18, 0.03], palette.handle);
        vec![[-0.42, 0.36, WORKTOP], [0.42, 0.36, WORKTOP]]
    }

    fn table(&mut self) -> Vec<Vector> {
        let (width, depth, height) = (1.15, StationKind::Table.depth(), 0.76);
        let palette = self.palette;
        self.solid([0.0, 0.5 * depth, height - 0.03], [width, depth, 0.06], palette.wood);
        for (u, v) in [(-0.52, 0.06), (0.52, 0.06), (-0.52, depth - 0.06), (0.52, depth - 0.06)] {
            self.thin([u, v, 0.5 * height - 0.03], [0.07, 0.07, height - 0.06], palette.dark_wood);
        }
        self.thin([0.0, 0.5 * depth, height], [0.5, depth + 0.01, 0.012], palette.accent);
        vec![[-0.36, 0.36, height], [0.0, 0.42, height + 0.006], [0.36, 0.36, height]]
    }

    fn shelf(&mut self) -> Vec<Vector> {
        let (width, depth) = (StationKind::Shelf.width(), 0.36);
        let palette = self.palette;
        for (u, height) in [(-0.5 * width, 1.85), (0.5 * width - PANEL, 1.85)] {
            let center = [u + 0.5 * PANEL, 0.5 * depth, 0.5 * height];
            self.thin(center, [PANEL, depth, height], palette.wood);
        }
        for height in [0.35, 0.88, 1.38, 1.83] {
            self.thin([0.0, 0.5 * depth, height], [width, depth, PANEL], palette.wood);
        }
        self.thin([0.0, 0.01, 1.0], [width, 0.02, 1.7], palette.dark_wood);
        // The lowest board is filled, for appearance only.
        self.thin([0.0, 0.2, 0.52], [width - 0.2, 0.2, 0.28], palette.accent);
        [row(2, 0.5, 0.2, 0.90), row(2, 0.5, 0.2, 1.40)].concat()
    }

    fn stand(&mut self) -> Vec<Vector> {
        let palette = self.palette;
        let height = 0.74;
        let top = self.anchor.block([0.0, 0.36, height - 0.025], [0.86, 0.68, 0.05], palette.wood);
        self.props.push(top.with_shape(Shape::Drum).with_shadow());
        let leg = [0.1, 0.1, height - 0.06];
        self.drum([0.0, 0.36, 0.5 * height - 0.03], leg, palette.dark_wood);
        self.drum([0.0, 0.36, 0.02], [0.5, 0.42, 0.04], palette.dark_wood);
        vec![[-0.22, 0.38, height], [0.22, 0.38, height]]
    }

    fn fridge(&mut self, side: f32) -> Vec<Vector> {
        let palette = self.palette;
        let (half, depth, height) = (0.43, 0.66, 1.86);
        let faces = [palette.fridge, palette.fridge_inside];
        self.carcass([-half, 0.0, 0.02], [half, depth, height], faces);
        for level in [0.46, 0.92, 1.36] {
            let size = [2.0 * half - 2.0 * PANEL, depth - 0.1, 0.025];
            self.thin([0.0, 0.5 * depth - 0.02, level], size, palette.fridge_shelf);
        }
        self.door([-half, 0.02], [half, height], depth, -side, faces);
        // A seam as between a fridge and its freezer, and two racks inside the door.
        let line = [-half * side, depth, 0.5 * height];
        let angle = side * 1.85;
        let seam = ([0.0, depth + PANEL, 0.62], [2.0 * half, 0.012, 0.02]);
        self.props.push(self.anchor.hinged(seam, palette.black, line, Axis::Z, angle));
        for level in [0.95, 1.4] {
            let rack = ([0.0, depth - 0.05, level], [1.5 * half, 0.09, 0.12]);
            self.props.push(self.anchor.hinged(rack, palette.fridge_shelf, line, Axis::Z, angle));
        }
        [row(2, 0.36, 0.36, 0.935), row(2, 0.36, 0.36, 1.375)].concat()
    }

    fn cupboard(&mut self) -> Vec<Vector> {
        let palette = self.palette;
        self.base(StationKind::Cupboard.width(), 0.6);
        let (low, high) = ([-0.48, 0.0, 1.40], [0.48, 0.38, 2.05]);
        self.carcass(low, high, [palette.cabinet, palette.cabinet_inside]);
        self.double_door([-0.48, 1.40], [0.48, 2.05], 0.38);
        row(3, 0.29, 0.22, 1.44)
    }

    fn oven(&mut self) -> Vec<Vector> {
        let palette = self.palette;
        let (half, depth) = (0.41, 0.6);
        let faces = [palette.metal, palette.oven_inside];
        self.carcass([-half, 0.0, 0.02], [half, depth, WORKTOP], faces);
        self.thin([0.0, 0.3, 0.34], [0.7, 0.5, 0.03], palette.black);
        self.thin([0.0, depth, 0.82], [2.0 * half, 0.02, 0.16], palette.metal);
        for u in [-0.27, -0.09, 0.09, 0.27] {
            self.thin([u, depth + 0.02, 0.82], [0.05, 0.03, 0.05], palette.black);
        }
        for (u, v) in [(-0.2, 0.18), (0.2, 0.18), (-0.2, 0.44), (0.2, 0.44)] {
            self.drum([u, v, WORKTOP + 0.006], [0.22, 0.2, 0.012], palette.black);
        }
        let (center, size) = ([0.0, depth + 0.5 * PANEL, 0.40], [2.0 * half, PANEL, 0.68]);
        let line = [0.0, depth, 0.06];
        let leaf = self.anchor.hinged((center, size), palette.metal, line, Axis::X, -1.5);
        self.props.push(leaf.with_face(3, palette.oven_glass));
        let grip = ([0.0, depth + PANEL + 0.02, 0.69], [0.5, 0.03, 0.03]);
        self.props.push(self.anchor.hinged(grip, palette.handle, line, Axis::X, -1.5));
        row(2, 0.36, 0.38, 0.355)
    }

    fn drawer(&mut self) -> Vec<Vector> {
        let palette = self.palette;
        let (half, depth) = (0.41, 0.6);
        self.solid([0.0, 0.29, 0.30], [2.0 * half, 0.56, 0.52], palette.cabinet);
        self.thin([0.0, 0.575, 0.30], [2.0 * half - 0.04, 0.03, 0.46], palette.cabinet_front);
        self.solid([0.0, 0.3, WORKTOP - 0.03], [2.0 * half, depth + 0.02, 0.06], palette.worktop);
        self.thin([0.0, 0.02, 0.72], [2.0 * half, PANEL, 0.3], palette.cabinet);
        for u in [-half + 0.02, half - 0.02] {
            self.thin([u, 0.28, 0.72], [PANEL, 0.54, 0.3], palette.cabinet);
        }
        // The box slides as a whole, with its contents.
        let parts = [
            ([0.0, 0.585, 0.71], [2.0 * half, PANEL, 0.26], palette.cabinet),
            ([0.0, 0.31, 0.595], [0.72, 0.50, 0.02], palette.cabinet_inside),
            ([-0.36, 0.31, 0.67], [0.02, 0.50, 0.15], palette.wood),
            ([0.36, 0.31, 0.67], [0.02, 0.50, 0.15], palette.wood),
            ([0.0, 0.07, 0.67], [0.72, 0.02, 0.15], palette.wood),
            ([0.0, 0.62, 0.74], [0.25, 0.03, 0.03], palette.handle),
        ];
        for (center, size, material) in parts {
            let part = self.anchor.block(center, size, material);
            self.props.push(part.with_motion(crate::Motion::Slide(DRAWER_SLIDE)));
        }
        row(2, 0.34, 0.40, 0.605)
    }

    fn chest(&mut self) -> Vec<Vector> {
        let palette = self.palette;
        let (half, depth, height) = (0.48, 0.5, 0.42);
        for (center, size) in [
            ([0.0, 0.02, 0.5 * height], [2.0 * half, PANEL, height]),
            ([0.0, depth - 0.02, 0.5 * height], [2.0 * half, PANEL, height]),
            ([-half + 0.02, 0.5 * depth, 0.5 * height], [PANEL, depth, height]),
            ([half - 0.02, 0.5 * depth, 0.5 * height], [PANEL, depth, height]),
            ([0.0, 0.5 * depth, 0.08], [2.0 * half, depth, 0.16]),
        ] {
            self.thin(center, size, palette.wood);
        }
        let line = [0.0, 0.0, height];
        let lid = ([0.0, 0.5 * depth, height + 0.025], [2.0 * half + 0.04, depth + 0.04, 0.05]);
        let lid = self.anchor.hinged(lid, palette.dark_wood, line, Axis::X, 1.7);
        self.props.push(lid.with_face(5, palette.accent).with_face(4, palette.wood));
        let lock = ([0.0, depth + 0.03, height + 0.01], [0.08, 0.03, 0.07]);
        self.props.push(self.anchor.hinged(lock, palette.handle, line, Axis::X, 1.7));
        row(2, 0.42, 0.25, 0.16)
    }

    fn sideboard(&mut self) -> Vec<Vector> {
        let palette = self.palette;
        let (half, depth, height) = (0.48, 0.45, 0.9);
        let faces = [palette.wood, palette.cabinet_inside];
        self.carcass([-half, 0.0, 0.04], [half, depth, height], faces);
        self.thin([0.0, 0.22, 0.42], [2.0 * half - 0.08, depth - 0.06, 0.03], palette.wood);
        self.double_door([-half, 0.04], [half, height], depth);
        [row(2, 0.42, 0.27, 0.435), row(2, 0.42, 0.30, 0.08)].concat()
    }

    fn microwave(&mut self, side: f32) -> Vec<Vector> {
        let palette = self.palette;
        self.base(StationKind::Microwave.width(), 0.6);
        let (low, high) = ([-0.36, 0.08, WORKTOP], [0.36, 0.5, WORKTOP + 0.42]);
        self.carcass(low, high, [palette.metal, palette.oven_inside]);
        let faces = [palette.oven_glass, palette.black];
        self.door([-0.36, WORKTOP], [0.36, WORKTOP + 0.42], 0.5, -side, faces);
        row(2, 0.34, 0.30, WORKTOP + PANEL)
    }
}

/// `count` spots side by side, `step` apart, at a depth and height.
fn row(count: usize, step: f32, depth: f32, height: f32) -> Vec<Vector> {
    let middle = 0.5 * (count as f32 - 1.0);
    (0..count).map(|index| [(index as f32 - middle) * step, depth, height]).collect()
}
