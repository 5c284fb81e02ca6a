//! Movable objects: small groups of solids that a person recognizes.

use crate::vector::Vector;
use crate::{Material, MaterialSet, Pattern, Prop, Shape, Surface};

far_memory::named! {
    /// Kind of an object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ObjectKind {
        /// A large red tomato.
        Tomato = "tomato",
        /// A mug with a handle.
        Mug = "mug",
        /// A loaf.
        Bread = "bread",
        /// A standing book.
        Book = "book",
        /// A potted plant.
        Plant = "plant",
        /// A frying pan.
        Pan = "pan",
        /// A green bottle.
        Bottle = "bottle",
        /// A piece of cheese.
        Cheese = "cheese",
        /// A carton of milk.
        Milk = "milk",
        /// A pumpkin.
        Pumpkin = "pumpkin",
        /// A bowl of fruit.
        Bowl = "bowl",
        /// A kettle.
        Kettle = "kettle",
        /// A toy duck.
        Duck = "duck",
        /// A cake with a cherry.
        Cake = "cake",
    }
}

impl ObjectKind {
    /// Its solids: shape, center above the foot point, size, color.
    fn parts(self) -> Vec<(Shape, Vector, Vector, u32)> {
        use Shape::{Ball, Block, Drum};
        match self {
            Self::Tomato => vec![
                (Ball, [0.0, 0.0, 0.09], [0.20, 0.20, 0.18], 0xe02818),
                (Drum, [0.0, 0.0, 0.18], [0.09, 0.09, 0.02], 0x3f9a34),
            ],
            Self::Mug => vec![
                (Drum, [0.0, 0.0, 0.085], [0.14, 0.14, 0.17], 0x2f6ad0),
                (Drum, [0.0, 0.0, 0.165], [0.11, 0.11, 0.012], 0x3a2010),
                (Block, [0.10, 0.0, 0.09], [0.06, 0.03, 0.10], 0x2f6ad0),
            ],
            Self::Bread => vec![
                (Block, [0.0, 0.0, 0.055], [0.28, 0.15, 0.11], 0xc8883c),
                (Ball, [0.0, 0.0, 0.10], [0.28, 0.16, 0.14], 0xa8622a),
            ],
            Self::Book => vec![
                (Block, [0.0, 0.0, 0.13], [0.19, 0.06, 0.26], 0x7a2fa8),
                (Block, [0.0, 0.004, 0.15], [0.13, 0.064, 0.08], 0xf0d860),
            ],
            Self::Plant => vec![
                (Drum, [0.0, 0.0, 0.06], [0.15, 0.15, 0.12], 0xc8683c),
                (Ball, [0.0, 0.0, 0.20], [0.22, 0.22, 0.18], 0x3f9a3a),
                (Ball, [0.05, 0.03, 0.28], [0.14, 0.14, 0.14], 0x6cc04a),
                (Ball, [-0.06, 0.02, 0.26], [0.05, 0.05, 0.05], 0xf06aa0),
                (Ball, [0.03, 0.09, 0.20], [0.05, 0.05, 0.05], 0xf06aa0),
            ],
            Self::Pan => vec![
                (Drum, [0.0, 0.0, 0.035], [0.27, 0.27, 0.07], 0x26262a),
                (Drum, [0.0, 0.0, 0.066], [0.23, 0.23, 0.012], 0x5a5a60),
                (Block, [-0.20, 0.0, 0.05], [0.18, 0.035, 0.03], 0x7a4a28),
            ],
            Self::Bottle => vec![
                (Drum, [0.0, 0.0, 0.11], [0.11, 0.11, 0.22], 0x1f7a3c),
                (Drum, [0.0, 0.0, 0.11], [0.115, 0.115, 0.09], 0xf0e8d0),
                (Drum, [0.0, 0.0, 0.26], [0.05, 0.05, 0.09], 0x1f7a3c),
                (Drum, [0.0, 0.0, 0.315], [0.055, 0.055, 0.025], 0xc83028),
            ],
            Self::Cheese => vec![
                (Block, [0.0, 0.0, 0.065], [0.22, 0.16, 0.13], 0xf4c430),
                (Ball, [0.05, 0.08, 0.08], [0.05, 0.02, 0.05], 0xb88a14),
                (Ball, [-0.06, 0.08, 0.05], [0.04, 0.02, 0.04], 0xb88a14),
            ],
            Self::Milk => vec![
                (Block, [0.0, 0.0, 0.11], [0.12, 0.12, 0.22], 0xf4f6fa),
                (Block, [0.0, 0.0, 0.09], [0.124, 0.124, 0.08], 0x3078d8),
                (Block, [0.0, 0.0, 0.25], [0.12, 0.04, 0.06], 0xf4f6fa),
            ],
            Self::Pumpkin => vec![
                (Ball, [0.0, 0.0, 0.10], [0.27, 0.27, 0.20], 0xf08018),
                (Drum, [0.0, 0.0, 0.21], [0.04, 0.04, 0.06], 0x6a7a28),
            ],
            Self::Bowl => vec![
                (Drum, [0.0, 0.0, 0.045], [0.25, 0.25, 0.09], 0xf2efe6),
                (Drum, [0.0, 0.0, 0.06], [0.255, 0.255, 0.03], 0x30a0a8),
                (Ball, [-0.06, 0.0, 0.11], [0.11, 0.11, 0.11], 0xf09020),
                (Ball, [0.06, 0.02, 0.11], [0.11, 0.11, 0.11], 0x78c030),
                (Ball, [0.0, 0.06, 0.12], [0.10, 0.10, 0.10], 0xd83030),
            ],
            Self::Kettle => vec![
                (Ball, [0.0, 0.0, 0.10], [0.22, 0.22, 0.20], 0xc8ced4),
                (Block, [0.12, 0.0, 0.13], [0.10, 0.04, 0.04], 0xa0a6ac),
                (Block, [0.0, 0.0, 0.24], [0.16, 0.03, 0.03], 0x202024),
                (Block, [-0.065, 0.0, 0.20], [0.03, 0.03, 0.10], 0x202024),
                (Block, [0.065, 0.0, 0.20], [0.03, 0.03, 0.10], 0x202024),
            ],
            Self::Duck => vec![
                (Ball, [0.0, 0.0, 0.08], [0.24, 0.17, 0.16], 0xf8d820),
                (Ball, [0.08, 0.0, 0.19], [0.13, 0.13, 0.13], 0xf8d820),
                (Block, [0.16, 0.0, 0.18], [0.06, 0.06, 0.025], 0xf07818),
                (Ball, [0.11, 0.055, 0.21], [0.025, 0.025, 0.03], 0x101010),
                (Ball, [0.11, -0.055, 0.21], [0.025, 0.025, 0.03], 0x101010),
            ],
            Self::Cake => vec![
                (Drum, [0.0, 0.0, 0.06], [0.25, 0.25, 0.12], 0xf0a8c0),
                (Drum, [0.0, 0.0, 0.125], [0.26, 0.26, 0.03], 0xfff4ec),
                (Ball, [0.0, 0.0, 0.165], [0.07, 0.07, 0.07], 0xc01828),
            ],
        }
    }
}

/// An object of a scene, ready to be placed anywhere.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// Its solids while it stands at the origin.
    parts: Vec<Prop>,
}

impl Object {
    /// An object of a kind; its materials are added to the set.
    pub fn new(kind: ObjectKind, set: &mut MaterialSet) -> Self {
        let parts = kind
            .parts()
            .into_iter()
            .map(|(shape, center, size, color)| {
                let material = Material::new(Surface::new(Pattern::Plain, [color, 0, 0]));
                Prop::block(center, size, set.add(material)).with_shape(shape)
            })
            .collect();
        Self { parts }
    }

    /// Its solids standing on `foot`, turned by `yaw`, numbered `object` in masks.
    pub fn props(&self, foot: Vector, yaw: f32, object: u16) -> impl Iterator<Item = Prop> {
        self.parts.iter().map(move |part| part.moved(foot, yaw).with_object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_stands_on_its_foot_and_fits_a_shelf() {
        let mut set = MaterialSet::new(1);
        for kind in ObjectKind::ALL {
            let object = Object::new(kind, &mut set);
            assert!((2..=5).contains(&object.parts.len()), "{}", kind.name());
            for prop in object.props([0.0; 3], 0.0, 1) {
                let (low, high) =
                    (prop.center[2] - 0.5 * prop.size[2], prop.center[2] + 0.5 * prop.size[2]);
                assert!(low > -1e-6 && high < 0.36, "{} reaches {low}..{high}", kind.name());
            }
        }
    }
}
