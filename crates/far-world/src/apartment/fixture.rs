//! Fixtures: what kitchens, baths and laundries are fitted with.

use super::furniture::Workshop;
use super::piece::{FRONT, Piece};
use crate::Pattern;

impl Workshop<'_> {
    /// A kitchen line: counter with stove and sink, cupboards above.
    pub fn counter(&mut self) -> Piece {
        let [light, dark] = self.taste.wood;
        let front = self.kit.drawing(Pattern::Door, [light, dark, 0xc8c8c8]);
        let wood = self.kit.wood([light, dark]);
        let top = self.kit.plain(0x3c3c40);
        let steel = self.kit.material(Pattern::Metal, [0xb8bcc0, 0xe4e6e8, 0], 0.8, 0.0);
        let (black, ring) = (self.kit.plain(0x18181a), self.kit.plain(0xb04030));
        let mut piece = Piece::new(2.4, 0.6);
        for x in [-0.9, -0.3, 0.9] {
            piece = piece.part([x, 0.0, 0.0], [0.6, 0.58, 0.86], wood).faced(FRONT, front);
        }
        piece = piece
            .part([0.3, 0.0, 0.0], [0.6, 0.58, 0.86], steel)
            .part([0.3, -0.28, 0.2], [0.44, 0.04, 0.4], black)
            .part([0.0, 0.0, 0.86], [2.4, 0.6, 0.05], top)
            .part([0.3, 0.0, 0.91], [0.52, 0.48, 0.01], black)
            .part([0.18, -0.1, 0.92], [0.16, 0.16, 0.01], ring)
            .part([0.42, 0.12, 0.92], [0.16, 0.16, 0.01], ring)
            .part([-0.6, 0.0, 0.905], [0.5, 0.4, 0.01], steel)
            .part([-0.6, 0.2, 0.91], [0.04, 0.04, 0.28], steel);
        for x in [-0.9, -0.3, 0.3, 0.9] {
            piece = piece.part([x, 0.12, 1.5], [0.6, 0.34, 0.65], wood).faced(FRONT, front);
        }
        piece
    }

    /// A refrigerator.
    pub fn fridge(&mut self) -> Piece {
        let white = self.kit.plain(0xeceff0);
        let (gray, handle) = (self.kit.plain(0x9a9ea2), self.kit.plain(0x70757a));
        Piece::new(0.7, 0.68)
            .part([0.0, 0.0, 0.0], [0.7, 0.66, 1.85], white)
            .part([0.0, -0.335, 1.2], [0.7, 0.01, 0.02], gray)
            .part([0.27, -0.35, 0.75], [0.04, 0.04, 0.4], handle)
            .part([0.27, -0.35, 1.3], [0.04, 0.04, 0.3], handle)
    }

    /// A bathtub with water in it.
    pub fn bathtub(&mut self) -> Piece {
        let (white, water) = (self.kit.plain(0xf4f6f6), self.kit.plain(0x9cc8dc));
        Piece::new(1.7, 0.78)
            .part([0.0, 0.0, 0.0], [1.7, 0.78, 0.55], white)
            .part([0.0, 0.0, 0.545], [1.5, 0.58, 0.01], water)
            .part([-0.75, 0.0, 0.55], [0.05, 0.1, 0.2], water)
    }

    /// A toilet.
    pub fn toilet(&mut self) -> Piece {
        let (white, lid) = (self.kit.plain(0xf4f6f6), self.kit.plain(self.taste.second));
        Piece::new(0.45, 0.7)
            .part([0.0, -0.08, 0.0], [0.36, 0.5, 0.4], white)
            .part([0.0, -0.08, 0.4], [0.4, 0.52, 0.05], lid)
            .part([0.0, 0.26, 0.0], [0.45, 0.18, 0.85], white)
    }

    /// A washbasin under a mirror.
    pub fn basin(&mut self) -> Piece {
        let white = self.kit.plain(0xf4f6f6);
        let cabinet = self.kit.wood(self.taste.wood);
        let mirror = self.kit.drawing(Pattern::Window, [0xd0d0d0, 0xb8d8e4, 0xe8f6fa]);
        Piece::new(0.8, 0.5)
            .part([0.0, 0.0, 0.0], [0.7, 0.46, 0.72], cabinet)
            .part([0.0, 0.0, 0.72], [0.8, 0.5, 0.14], white)
            .part([0.0, 0.235, 1.15], [0.7, 0.03, 0.8], mirror)
    }

    /// A washing machine.
    pub fn washer(&mut self) -> Piece {
        let white = self.kit.plain(0xeef0f2);
        let front = self.kit.drawing(Pattern::Disk, [0xeef0f2, 0x70757c, 0x24303c]);
        Piece::new(0.65, 0.62).part([0.0, 0.0, 0.0], [0.62, 0.6, 0.88], white).faced(FRONT, front)
    }
}
