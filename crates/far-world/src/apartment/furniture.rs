//! Pieces of furniture, built of boxes, cylinders and ellipsoids.
//!
//! A piece is built around the center of its footprint, on the floor, with its back to +Y.

use super::finish::{Kit, Taste, darker};
use crate::{Pattern, Prop, Shape};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A piece before it is placed.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Width along X and depth along Y in meters.
    pub size: [f32; 2],
    /// Its parts.
    pub parts: Vec<Prop>,
}

/// What a piece is built with.
pub struct Workshop<'a> {
    /// Materials.
    pub kit: &'a mut Kit,
    /// Colors.
    pub taste: Taste,
    /// Random numbers.
    pub random: &'a mut ChaCha8Rng,
}

impl Piece {
    /// A piece without parts.
    pub fn new(width: f32, depth: f32) -> Self {
        Self { size: [width, depth], parts: Vec::new() }
    }

    /// Height of its highest part.
    pub fn height(&self) -> f32 {
        self.parts.iter().map(|part| part.center[2] + 0.5 * part.size[2]).fold(0.0, f32::max)
    }

    /// The parts of the piece, rotated by `yaw` and moved to `center`, as object `number`.
    pub fn placed(&self, center: [f32; 2], yaw: f32, number: u16) -> impl Iterator<Item = Prop> {
        let foot = [center[0], center[1], 0.0];
        self.parts.iter().map(move |part| part.moved(foot, yaw).with_object(number).with_shadow())
    }

    fn part(mut self, foot: [f32; 3], size: [f32; 3], material: crate::MaterialId) -> Self {
        self.parts.push(Prop::standing(foot, size, material));
        self
    }

    fn faced(mut self, face: usize, material: crate::MaterialId) -> Self {
        if let Some(last) = self.parts.last_mut() {
            last.materials[face] = material;
        }
        self
    }

    fn shaped(mut self, shape: Shape) -> Self {
        if let Some(last) = self.parts.last_mut() {
            last.shape = shape;
        }
        self
    }

    fn legs(mut self, [x, y]: [f32; 2], height: f32, material: crate::MaterialId) -> Self {
        for (side, end) in [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)] {
            self = self.part([side * x, end * y, 0.0], [0.07, 0.07, height], material);
        }
        self
    }
}

/// The front face of a part.
const FRONT: usize = 2;
/// The upper face.
const TOP: usize = 5;

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
