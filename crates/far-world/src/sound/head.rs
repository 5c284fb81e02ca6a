//! A rigid spherical head with an ear at each end of its left–right axis.
//!
//! Times of arrival follow Woodworth's formula; shadowing by the head is the one-pole, one-zero
//! approximation of the sphere's response by Brown and Duda ("A structural model for binaural sound
//! synthesis", 1998).

use super::{SAMPLE_RATE, SPEED_OF_SOUND};
use std::f32::consts::{FRAC_PI_2, PI};

/// The head, by its radius.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SphericalHead {
    /// Radius in meters.
    pub radius: f32,
}

impl Default for SphericalHead {
    /// An average adult's 8.75 cm.
    fn default() -> Self {
        Self { radius: 0.0875 }
    }
}

impl SphericalHead {
    /// Seconds by which an ear hears a distant source later than the head's center would, given
    /// the angle in radians between the ear's direction and the source's; negative when earlier.
    ///
    /// Toward the near ear the wave saves `r cos(angle)`; to the far ear it travels around the
    /// head. For a source at azimuth θ the two differ by Woodworth's `r/c (θ + sin θ)`.
    pub fn delay(&self, angle: f32) -> f32 {
        let meters = if angle <= FRAC_PI_2 {
            -self.radius * angle.cos()
        } else {
            self.radius * (angle - FRAC_PI_2)
        };
        meters / SPEED_OF_SOUND
    }

    /// Gain at high frequencies for the same angle: 2 toward the ear, least (0.1) at 150° from it
    /// and a little more straight behind the head, where waves around both sides meet. Low
    /// frequencies pass with gain 1.
    pub fn treble(&self, angle: f32) -> f32 {
        const LEAST: f32 = 0.1;
        const LEAST_AT: f32 = 150.0 / 180.0;
        (1.0 + LEAST / 2.0) + (1.0 - LEAST / 2.0) * (angle / LEAST_AT).min(2.0 * PI).cos()
    }

    /// The warp constant of the shadowing filter, `2 f_s · r / (2c)`: with treble gain α and input
    /// x the filter is `y = (x + x₁ + α K (x − x₁)) / (1 + K) + p y₁`, `p = (K − 1)/(K + 1)`.
    pub fn warp(&self) -> f32 {
        SAMPLE_RATE as f32 * self.radius / SPEED_OF_SOUND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ears_differ_by_the_formula_of_woodworth() {
        let head = SphericalHead::default();
        for step in 0..=18 {
            let azimuth = step as f32 / 18.0 * FRAC_PI_2;
            let difference = head.delay(FRAC_PI_2 + azimuth) - head.delay(FRAC_PI_2 - azimuth);
            let formula = 0.0875 / 343.0 * (azimuth + azimuth.sin());
            assert!((difference - formula).abs() < 1e-8);
        }
    }

    #[test]
    fn a_source_at_the_side_is_656_microseconds_apart() {
        let head = SphericalHead::default();
        assert!((head.delay(PI) - head.delay(0.0) - 656e-6).abs() < 1e-6);
    }

    #[test]
    fn treble_falls_from_the_ear_to_the_shadow() {
        let head = SphericalHead::default();
        assert!((head.treble(0.0) - 2.0).abs() < 1e-6);
        assert!((head.treble(150f32.to_radians()) - 0.1).abs() < 1e-6);
        assert!(head.treble(PI) > 0.1 && head.treble(FRAC_PI_2) < head.treble(0.5));
    }
}
