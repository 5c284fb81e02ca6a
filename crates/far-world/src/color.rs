//! Colors as display values and as linear light.

use crate::vector::Vector;

/// A display color, 8 bits per channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub [u8; 3]);

impl Color {
    /// A color from `0xRRGGBB`.
    ///
    /// ```
    /// assert_eq!(far_world::Color::hex(0xff8000).0, [255, 128, 0]);
    /// ```
    pub const fn hex(code: u32) -> Self {
        Self([(code >> 16) as u8, (code >> 8) as u8, code as u8])
    }

    /// Linear light, 0 to 1 per channel. Display values are taken as square roots of light, close
    /// to the usual curve and exact to invert with one instruction.
    pub fn to_light(self) -> Vector {
        self.0.map(|channel| (f32::from(channel) / 255.0).powi(2))
    }

    /// The display color of linear light; light above 1 is cut.
    #[inline]
    pub fn from_light(light: Vector) -> Self {
        Self(light.map(|channel| (channel.clamp(0.0, 1.0).sqrt() * 255.0 + 0.5) as u8))
    }

    /// This color made lighter (above 1) or darker (below 1).
    pub fn shade(self, factor: f32) -> Self {
        Self(self.0.map(|channel| (f32::from(channel) * factor).clamp(0.0, 255.0) as u8))
    }

    /// A blend of two display colors: `self` at 0, `other` at 1.
    pub fn mix(self, other: Self, share: f32) -> Self {
        Self(std::array::from_fn(|channel| {
            let (a, b) = (f32::from(self.0[channel]), f32::from(other.0[channel]));
            (a + (b - a) * share).clamp(0.0, 255.0) as u8
        }))
    }
}
