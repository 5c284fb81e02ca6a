//! Decoration: plants, lamps, rugs and pictures.

use super::finish::darker;
use super::furniture::Workshop;
use super::piece::Piece;
use crate::{Pattern, Shape};
use rand::RngExt;

impl Workshop<'_> {
    /// A plant in a pot.
    pub fn plant(&mut self) -> Piece {
        let pot = self.kit.plain(0xb0643c);
        let stem = self.kit.plain(0x6a5a30);
        let leaves = self.kit.material(Pattern::Leaves, [0x4e9a3e, 0x255e28, 0x8ac860], 0.4, 0.0);
        let height = self.random.random_range(0.6..1.2);
        let mut piece = Piece::new(0.5, 0.5)
            .part([0.0, 0.0, 0.0], [0.34, 0.34, 0.35], pot)
            .shaped(Shape::Drum)
            .part([0.0, 0.0, 0.3], [0.05, 0.05, height], stem);
        for (x, y, level, size) in [
            (0.0, 0.0, 1.0, 0.42),
            (-0.14, 0.06, 0.55, 0.36),
            (0.15, 0.04, 0.7, 0.34),
            (0.02, -0.15, 0.4, 0.34),
            (-0.05, 0.12, 0.85, 0.32),
        ] {
            let foot = [x, y, 0.3 + level * height - 0.5 * size];
            piece = piece.part(foot, [size, size, size], leaves).shaped(Shape::Ball);
        }
        piece
    }

    /// A floor lamp.
    pub fn floor_lamp(&mut self) -> Piece {
        let (pole, shade) = (self.kit.plain(0x30302e), self.kit.glowing(0xffe0a0));
        Piece::new(0.4, 0.4)
            .part([0.0, 0.0, 0.0], [0.3, 0.3, 0.04], pole)
            .shaped(Shape::Drum)
            .part([0.0, 0.0, 0.0], [0.04, 0.04, 1.4], pole)
            .part([0.0, 0.0, 1.3], [0.42, 0.42, 0.32], shade)
            .shaped(Shape::Drum)
    }

    /// A flat rug.
    pub fn rug(&mut self, width: f32, depth: f32) -> Piece {
        let (edge, field) = (self.taste.fabric, self.taste.second);
        let cloth = match self.random.random_range(0..3) {
            0 => self.kit.material(Pattern::Bands, [edge, field, edge], 1.2, 0.0),
            1 => self.kit.material(Pattern::Checker, [field, edge, edge], 0.8, 0.0),
            _ => self.kit.drawing(Pattern::Disk, [field, edge, darker(field)]),
        };
        let border = self.kit.fabric(darker(edge));
        Piece::new(width, depth).part([0.0, 0.0, 0.0], [width, depth, 0.012], border).part(
            [0.0, 0.0, 0.0],
            [width - 0.2, depth - 0.2, 0.02],
            cloth,
        )
    }

    /// A framed picture that hangs with its back to +Y, its middle at 1.55 m.
    pub fn picture(&mut self) -> Piece {
        let [frame, _] = self.taste.wood;
        let width = self.random.random_range(0.5..1.1);
        let colors = match self.random.random_range(0..4) {
            0 => [frame, 0x8cc4f0, 0x4a8a3c],
            1 => [frame, 0xf0a860, 0x7a3a5a],
            2 => [frame, 0xe8e0c0, self.taste.fabric],
            _ => [frame, 0x243a6a, 0xd0b030],
        };
        let picture = self.kit.drawing(Pattern::Picture, colors);
        Piece::new(width, 0.05).part([0.0, 0.0, 1.25], [width, 0.04, 0.6], picture)
    }
}
