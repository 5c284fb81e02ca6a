//! Furniture, built of boxes, cylinders and ellipsoids, and what builds it.

use super::finish::{Kit, Taste};
use super::piece::{FRONT, Piece, TOP};
use crate::{Pattern, Shape};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// What a piece is built with.
pub struct Workshop<'a> {
    /// Materials.
    pub kit: &'a mut Kit,
    /// Colors.
    pub taste: Taste,
    /// Random numbers.
    pub random: &'a mut ChaCha8Rng,
}

impl Workshop<'_> {
    /// A sofa for two or three.
    pub fn sofa(&mut self) -> Piece {
        let cloth = self.kit.fabric(self.taste.fabric);
        let cushion = self.kit.fabric(self.taste.second);
        let width = if self.random.random_bool(0.5) { 2.0 } else { 1.6 };
        Piece::new(width, 0.9)
            .part([0.0, -0.05, 0.05], [width, 0.8, 0.4], cloth)
            .part([0.0, 0.33, 0.05], [width, 0.24, 0.8], cloth)
            .part([0.5 * width - 0.1, -0.05, 0.05], [0.2, 0.8, 0.58], cloth)
            .part([0.1 - 0.5 * width, -0.05, 0.05], [0.2, 0.8, 0.58], cloth)
            .part([-0.25 * width, 0.1, 0.45], [0.42, 0.16, 0.36], cushion)
            .part([0.25 * width, 0.1, 0.45], [0.42, 0.16, 0.36], cushion)
    }

    /// An armchair.
    pub fn armchair(&mut self) -> Piece {
        let cloth = self.kit.fabric(self.taste.second);
        Piece::new(0.8, 0.8)
            .part([0.0, -0.05, 0.05], [0.8, 0.7, 0.38], cloth)
            .part([0.0, 0.3, 0.05], [0.8, 0.2, 0.85], cloth)
            .part([0.33, -0.05, 0.05], [0.14, 0.7, 0.55], cloth)
            .part([-0.33, -0.05, 0.05], [0.14, 0.7, 0.55], cloth)
    }

    /// A low table.
    pub fn coffee_table(&mut self) -> Piece {
        let wood = self.kit.wood(self.taste.wood);
        let book = self.kit.plain(self.taste.second);
        Piece::new(1.0, 0.6)
            .part([0.0, 0.0, 0.36], [1.0, 0.6, 0.06], wood)
            .legs([0.44, 0.24], 0.36, wood)
            .part([0.2, 0.05, 0.42], [0.26, 0.2, 0.06], book)
    }

    /// A television on a low board.
    pub fn television(&mut self) -> Piece {
        let wood = self.kit.wood(self.taste.wood);
        let (black, screen) = (self.kit.plain(0x16181c), self.kit.glowing(0x2a4a66));
        Piece::new(1.5, 0.45)
            .part([0.0, 0.0, 0.0], [1.5, 0.45, 0.45], wood)
            .part([0.0, 0.08, 0.5], [1.2, 0.06, 0.7], black)
            .faced(FRONT, screen)
    }

    /// A bed for one or two.
    pub fn bed(&mut self) -> Piece {
        let wood = self.kit.wood(self.taste.wood);
        let (blanket, white) = (self.kit.fabric(self.taste.fabric), self.kit.plain(0xf2f0ea));
        let width = if self.random.random_bool(0.5) { 1.6 } else { 1.0 };
        let piece = Piece::new(width, 2.1)
            .part([0.0, 0.0, 0.1], [width, 2.05, 0.22], wood)
            .part([0.0, 0.0, 0.32], [width - 0.06, 2.0, 0.18], white)
            .part([0.0, -0.28, 0.34], [width - 0.02, 1.46, 0.2], blanket)
            .part([0.0, 1.0, 0.0], [width, 0.08, 1.05], wood);
        let pillows: &[_] = if width > 1.2 { &[(-0.38, 0.6), (0.38, 0.6)] } else { &[(0.0, 0.7)] };
        pillows
            .iter()
            .fold(piece, |piece, &(x, wide)| piece.part([x, 0.72, 0.5], [wide, 0.38, 0.12], white))
    }

    /// A bedside table with a lamp.
    pub fn nightstand(&mut self) -> Piece {
        let wood = self.kit.wood(self.taste.wood);
        let (shade, brass) = (self.kit.glowing(0xffe2a0), self.kit.plain(0xb08a3a));
        Piece::new(0.45, 0.4)
            .part([0.0, 0.0, 0.0], [0.45, 0.4, 0.5], wood)
            .part([0.0, 0.0, 0.5], [0.06, 0.06, 0.2], brass)
            .part([0.0, 0.0, 0.66], [0.28, 0.28, 0.22], shade)
            .shaped(Shape::Drum)
    }

    /// A wardrobe with two doors.
    pub fn wardrobe(&mut self) -> Piece {
        let [light, dark] = self.taste.wood;
        let wood = self.kit.wood([light, dark]);
        let door = self.kit.drawing(Pattern::Door, [light, dark, 0xd8c060]);
        Piece::new(1.4, 0.6)
            .part([-0.35, 0.0, 0.0], [0.7, 0.6, 2.05], wood)
            .faced(FRONT, door)
            .part([0.35, 0.0, 0.0], [0.7, 0.6, 2.05], wood)
            .faced(FRONT, door)
    }

    /// Shelves full of books.
    pub fn bookcase(&mut self) -> Piece {
        let wood = self.kit.wood(self.taste.wood);
        let colors = [self.taste.fabric, self.taste.second, 0xd8c8a0];
        let books = self.kit.material(Pattern::Books, colors, 0.8, 0.0);
        let width = if self.random.random_bool(0.5) { 1.2 } else { 0.8 };
        Piece::new(width, 0.32)
            .part([0.0, 0.0, 0.0], [width, 0.32, 1.95], wood)
            .part([0.0, -0.02, 0.12], [width - 0.1, 0.3, 1.75], books)
            .faced(FRONT, books)
    }

    /// A chest of drawers with a vase.
    pub fn dresser(&mut self) -> Piece {
        let [light, dark] = self.taste.wood;
        let wood = self.kit.wood([light, dark]);
        let drawers = self.kit.drawing(Pattern::Shutter, [light, light, dark]);
        let (vase, bloom) = (self.kit.plain(self.taste.fabric), self.kit.plain(self.taste.second));
        Piece::new(1.1, 0.45)
            .part([0.0, 0.0, 0.0], [1.1, 0.45, 0.85], wood)
            .faced(FRONT, drawers)
            .part([0.3, 0.0, 0.85], [0.16, 0.16, 0.24], vase)
            .shaped(Shape::Drum)
            .part([0.3, 0.0, 1.06], [0.26, 0.26, 0.22], bloom)
            .shaped(Shape::Ball)
    }

    /// A desk with a screen, and its chair.
    pub fn desk(&mut self) -> Piece {
        let wood = self.kit.wood(self.taste.wood);
        let (black, screen) = (self.kit.plain(0x1c1e22), self.kit.glowing(0x4878b0));
        let seat = self.kit.fabric(self.taste.fabric);
        Piece::new(1.4, 1.2)
            .part([0.0, 0.25, 0.7], [1.4, 0.7, 0.05], wood)
            .part([-0.6, 0.25, 0.0], [0.12, 0.6, 0.7], wood)
            .part([0.5, 0.25, 0.0], [0.36, 0.6, 0.7], wood)
            .part([0.0, 0.42, 0.75], [0.1, 0.1, 0.12], black)
            .part([0.0, 0.42, 0.85], [0.75, 0.05, 0.42], black)
            .faced(FRONT, screen)
            .part([0.0, -0.3, 0.42], [0.46, 0.44, 0.08], seat)
            .part([0.0, -0.5, 0.5], [0.44, 0.06, 0.45], seat)
            .part([0.0, -0.3, 0.0], [0.1, 0.1, 0.42], black)
    }

    /// A table with four chairs.
    pub fn dining_table(&mut self) -> Piece {
        let wood = self.kit.wood(self.taste.wood);
        let (seat, bowl) = (self.kit.fabric(self.taste.fabric), self.kit.plain(0xf0f0f0));
        let fruit = self.kit.plain(self.taste.second);
        let mut piece = Piece::new(1.9, 1.7)
            .part([0.0, 0.0, 0.7], [1.3, 0.85, 0.06], wood)
            .legs([0.58, 0.36], 0.7, wood)
            .part([0.0, 0.0, 0.76], [0.34, 0.34, 0.08], bowl)
            .shaped(Shape::Drum)
            .part([0.0, 0.0, 0.8], [0.2, 0.2, 0.14], fruit)
            .shaped(Shape::Ball);
        for (x, y) in [(-0.33, -1.0), (0.33, -1.0), (-0.33, 1.0), (0.33, 1.0)] {
            piece = piece
                .part([x, 0.55 * y, 0.4], [0.42, 0.42, 0.06], seat)
                .part([x, 0.75 * y, 0.44], [0.42, 0.05, 0.5], wood)
                .part([x, 0.55 * y, 0.0], [0.3, 0.3, 0.4], wood);
        }
        piece
    }

    /// Open shelves with baskets.
    pub fn rack(&mut self) -> Piece {
        let metal = self.kit.plain(0x8a8e92);
        let baskets = [self.kit.fabric(self.taste.fabric), self.kit.fabric(self.taste.second)];
        let mut piece = Piece::new(1.0, 0.45);
        for level in 0..4 {
            let z = 0.15 + 0.5 * level as f32;
            piece = piece.part([0.0, 0.0, z], [1.0, 0.42, 0.04], metal);
            for (side, basket) in baskets.into_iter().enumerate() {
                let x = 0.5 * side as f32 - 0.25;
                piece = piece.part([x, 0.0, z + 0.04], [0.4, 0.34, 0.28], basket);
            }
        }
        piece.legs([0.46, 0.18], 1.85, metal)
    }

    /// A piano.
    pub fn piano(&mut self) -> Piece {
        let black = self.kit.plain(0x1c1816);
        let keys = self.kit.material(Pattern::Stripes, [0xf4f2ec, 0x2a2a2a, 0], 0.3, 0.0);
        let stool = self.kit.fabric(self.taste.fabric);
        Piece::new(1.5, 1.1)
            .part([0.0, 0.35, 0.0], [1.5, 0.36, 1.2], black)
            .part([0.0, 0.05, 0.6], [1.5, 0.3, 0.12], black)
            .faced(TOP, keys)
            .part([0.0, -0.38, 0.0], [0.5, 0.3, 0.48], stool)
    }
}
