//! Props and people prepared for the rays of one frame: placed, with bounds on the screen.

use crate::material::MaterialId;
use crate::person::Person;
use crate::prop::{Placement, Prop, Shape};
use crate::vector::{Vector, add, dot, length, scale, subtract};

/// A placed solid, prepared for one frame's rays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Solid {
    pub shape: Shape,
    pub placement: Placement,
    pub half: Vector,
    pub materials: [MaterialId; 6],
    pub object: u16,
    /// Face number of its first face.
    pub number: u32,
    /// The eye in the solid's own axes.
    eye: Vector,
    /// No point of the solid is nearer than this, in meters along the viewing direction.
    pub near: f32,
    /// Pixels it may cover: left, top, right, bottom (the last two excluded).
    pub bounds: [i32; 4],
}

/// Where a ray hit a solid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SolidHit {
    pub distance: f32,
    /// Face by number; balls and the sides of drums are face 0.
    pub face: usize,
    /// Outward normal in own axes.
    pub normal: Vector,
    /// Point in own axes, from the center.
    pub point: Vector,
}

/// The camera, for bounding solids.
pub(crate) struct Screen {
    pub eye: Vector,
    pub right: Vector,
    pub down: Vector,
    pub forward: Vector,
    /// Tangents of half the fields of view.
    pub tangent: [f32; 2],
    pub size: [i32; 2],
}

/// Face numbers of props have this bit set.
const PROP_BIT: u32 = 0x8000_0000;
/// Face numbers of people also have this bit set.
const PERSON_BIT: u32 = 0x4000_0000;
/// Nothing nearer than this is drawn, in meters.
pub(crate) const NEAR: f32 = 0.02;

impl Solid {
    /// A prop's solid; `None` if it is not visible.
    pub fn of_prop(index: usize, prop: &Prop, screen: &Screen) -> Option<Self> {
        if !prop.visible {
            return None;
        }
        let number = PROP_BIT | (index as u32) << 3;
        Self::new(prop.shape, prop.placement(), prop.size, prop.materials, screen)
            .map(|solid| Self { object: prop.object, number, ..solid })
    }

    /// Adds the visible solids of a person to `solids`.
    pub fn of_person(index: usize, person: &Person, screen: &Screen, solids: &mut Vec<Self>) {
        if !person.visible {
            return;
        }
        let number = PROP_BIT | PERSON_BIT | (index as u32) << 3;
        for limb in person.limbs() {
            let materials = [limb.material; 6];
            if let Some(solid) = Self::new(limb.shape, limb.placement, limb.size, materials, screen)
            {
                solids.push(Self { object: person.object, number, ..solid });
            }
        }
    }

    fn new(
        shape: Shape,
        placement: Placement,
        size: Vector,
        materials: [MaterialId; 6],
        screen: &Screen,
    ) -> Option<Self> {
        let half = scale(size, 0.5);
        let offset = subtract(placement.center, screen.eye);
        let ahead = dot(offset, screen.forward);
        let radius = length(half);
        if ahead + radius < NEAR {
            return None;
        }
        let (bounds, near) = screen.bound(&placement, half);
        let visible = bounds[0] < bounds[2] && bounds[1] < bounds[3];
        visible.then(|| Self {
            shape,
            placement,
            half,
            materials,
            object: 0,
            number: 0,
            eye: placement.to_own(screen.eye),
            near: near.max(0.0),
            bounds,
        })
    }

    /// The first point along the ray `eye + t·direction` (direction in world axes) before `limit`.
    #[inline]
    pub fn hit(&self, direction: Vector, limit: f32) -> Option<SolidHit> {
        let own = self.placement.axes.map(|axis| dot(axis, direction));
        match self.shape {
            Shape::Block => self.hit_block(own, limit),
            Shape::Ball => self.hit_ball(own, limit),
            Shape::Drum => self.hit_drum(own, limit),
        }
    }

    #[inline]
    fn hit_block(&self, own: Vector, limit: f32) -> Option<SolidHit> {
        let (mut near, mut far, mut face) = (NEAR, limit, usize::MAX);
        for (axis, slope) in own.into_iter().enumerate() {
            let inverse = 1.0 / if slope.abs() < 1e-9 { 1e-9 } else { slope };
            let low = (-self.half[axis] - self.eye[axis]) * inverse;
            let high = (self.half[axis] - self.eye[axis]) * inverse;
            let (entry, exit) = if low < high { (low, high) } else { (high, low) };
            if entry > near {
                near = entry;
                face = 2 * axis + usize::from(inverse < 0.0);
            }
            far = far.min(exit);
        }
        // Inside the box there is no outer face.
        if near >= far || face == usize::MAX {
            return None;
        }
        let point = add(self.eye, scale(own, near));
        Some(SolidHit { distance: near, face, normal: crate::field::FACE_NORMALS[face], point })
    }

    fn hit_ball(&self, own: Vector, limit: f32) -> Option<SolidHit> {
        let eye: Vector = std::array::from_fn(|a| self.eye[a] / self.half[a]);
        let ray: Vector = std::array::from_fn(|a| own[a] / self.half[a]);
        let (a, b, c) = (dot(ray, ray), dot(ray, eye), dot(eye, eye) - 1.0);
        let discriminant = b * b - a * c;
        if discriminant <= 0.0 {
            return None;
        }
        let distance = (-b - discriminant.sqrt()) / a;
        if distance <= NEAR || distance >= limit {
            return None;
        }
        let point = add(self.eye, scale(own, distance));
        let steep: Vector = std::array::from_fn(|a| point[a] / (self.half[a] * self.half[a]));
        Some(SolidHit { distance, face: 0, normal: crate::vector::normalize(steep), point })
    }

    fn hit_drum(&self, own: Vector, limit: f32) -> Option<SolidHit> {
        let flat = |v: Vector| [v[0] / self.half[0], v[1] / self.half[1], 0.0];
        let (eye, ray) = (flat(self.eye), flat(own));
        let (a, b, c) = (dot(ray, ray).max(1e-12), dot(ray, eye), dot(eye, eye) - 1.0);
        let discriminant = b * b - a * c;
        if discriminant > 0.0 {
            let distance = (-b - discriminant.sqrt()) / a;
            let point = add(self.eye, scale(own, distance));
            if distance > NEAR && distance < limit && point[2].abs() <= self.half[2] {
                let [x, y] = [0, 1].map(|axis| point[axis] / (self.half[axis] * self.half[axis]));
                let normal = crate::vector::normalize([x, y, 0.0]);
                return Some(SolidHit { distance, face: 0, normal, point });
            }
        }
        let face = if self.eye[2] > 0.0 { 5 } else { 4 };
        let cap = if face == 5 { self.half[2] } else { -self.half[2] };
        if own[2].abs() < 1e-9 || (self.eye[2] - cap) * own[2] >= 0.0 {
            return None;
        }
        let distance = (cap - self.eye[2]) / own[2];
        let point = add(self.eye, scale(own, distance));
        let [x, y, _] = flat(point);
        let inside = x * x + y * y <= 1.0 && distance > NEAR && distance < limit;
        let outside = self.eye[2].abs() > self.half[2];
        (inside && outside).then(|| SolidHit {
            distance,
            face,
            normal: crate::field::FACE_NORMALS[face],
            point,
        })
    }
}

impl Screen {
    /// Pixels a box may cover, and its least distance. Edges that reach behind the eye are clipped
    /// at the near plane.
    fn bound(&self, placement: &Placement, half: Vector) -> ([i32; 4], f32) {
        let (mut low, mut high, mut near) = ([f32::MAX; 2], [f32::MIN; 2], f32::MAX);
        let mut corners = [[0.0f32; 3]; 8];
        for (number, corner) in corners.iter_mut().enumerate() {
            let sign = |bit: usize| if number >> bit & 1 == 1 { 1.0 } else { -1.0 };
            let mut point = subtract(placement.center, self.eye);
            for (axis, half) in half.into_iter().enumerate() {
                point = add(point, scale(placement.axes[axis], sign(axis) * half));
            }
            *corner = [dot(point, self.right), dot(point, self.down), dot(point, self.forward)];
        }
        let mut include = |[right, down, ahead]: Vector| {
            near = near.min(ahead);
            let image = [right / (ahead * self.tangent[0]), down / (ahead * self.tangent[1])];
            for axis in 0..2 {
                low[axis] = low[axis].min(image[axis]);
                high[axis] = high[axis].max(image[axis]);
            }
        };
        for (number, &corner) in corners.iter().enumerate() {
            if corner[2] >= NEAR {
                include(corner);
                continue;
            }
            for bit in 0..3 {
                let other = corners[number ^ 1 << bit];
                if other[2] > NEAR {
                    let share = (NEAR - corner[2]) / (other[2] - corner[2]);
                    let [right, down, _] = crate::vector::mix(corner, other, share);
                    include([right, down, NEAR]);
                }
            }
        }
        if near == f32::MAX {
            return ([0; 4], near);
        }
        // A pixel counts if any of its area is covered; the small margin allows for rounding.
        let pixel =
            |axis: usize, image: f32| (image.clamp(-2.0, 2.0) + 1.0) * 0.5 * self.size[axis] as f32;
        let bounds = [
            ((pixel(0, low[0]) - 0.01).floor() as i32).max(0),
            ((pixel(1, low[1]) - 0.01).floor() as i32).max(0),
            ((pixel(0, high[0]) + 0.01).floor() as i32 + 1).min(self.size[0]),
            ((pixel(1, high[1]) + 0.01).floor() as i32 + 1).min(self.size[1]),
        ];
        (bounds, near)
    }
}
