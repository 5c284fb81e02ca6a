//! What a camera's numbers say about its field of view.

use std::str::FromStr;

/// The pinhole part of a camera, independent of the size of its pictures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lens {
    /// Focal lengths as shares of the picture's width and height, and the principal point likewise.
    Focal {
        /// fx / width, fy / height.
        focal: [f64; 2],
        /// cx / width, cy / height.
        center: [f64; 2],
    },
    /// The full horizontal angle in degrees; pixels are square.
    Horizontal(f64),
    /// The full vertical angle in degrees; pixels are square.
    Vertical(f64),
}

impl Lens {
    /// From focal lengths and principal point in pixels of a picture of `size` = [width, height].
    ///
    /// # Errors
    /// A sentence, when a number is not finite or a focal length is not above 0.
    pub fn from_pixels(focal: [f64; 2], center: [f64; 2], size: [f64; 2]) -> Result<Self, String> {
        let focal = [focal[0] / size[0], focal[1] / size[1]];
        let center = [center[0] / size[0], center[1] / size[1]];
        let wrong = focal.iter().any(|x| !x.is_finite() || *x <= 1e-3 || *x > 1e3)
            || center.iter().any(|x| !x.is_finite());
        if wrong {
            return Err(format!(
                "focal lengths of {focal:?} of the picture's size, center at {center:?}: not a camera"
            ));
        }
        Ok(Self::Focal { focal, center })
    }

    /// Full angles [horizontal, vertical] in degrees of a picture of `size` = [width, height] of
    /// which the middle part `kept` = [width, height] stays.
    pub fn angles(&self, size: [u32; 2], kept: [u32; 2]) -> [f32; 2] {
        let [width, height] = size.map(f64::from);
        let focal = match *self {
            Self::Focal { focal, .. } => focal,
            Self::Horizontal(degrees) => [focal(degrees), focal(degrees) * width / height],
            Self::Vertical(degrees) => [focal(degrees) * height / width, focal(degrees)],
        };
        std::array::from_fn(|side| {
            let share = f64::from(kept[side]) / f64::from(size[side]);
            (2.0 * (0.5 * share / focal[side]).atan()).to_degrees() as f32
        })
    }

    /// How far the principal point is from the middle, as a share of the picture.
    pub fn off_center(&self) -> f64 {
        match self {
            Self::Focal { center, .. } => {
                center.iter().map(|x| (x - 0.5).abs()).fold(0.0, f64::max)
            }
            Self::Horizontal(_) | Self::Vertical(_) => 0.0,
        }
    }
}

impl FromStr for Lens {
    type Err = String;

    /// `90` for the horizontal angle, or `90x75` for both, in degrees.
    fn from_str(text: &str) -> Result<Self, String> {
        let angle = |word: &str| match word.trim().parse::<f64>() {
            Ok(degrees) if degrees > 0.0 && degrees < 180.0 => Ok(degrees),
            _ => Err(format!("`{word}` is not an angle between 0 and 180 degrees")),
        };
        match text.split_once('x') {
            None => Ok(Self::Horizontal(angle(text)?)),
            Some((horizontal, vertical)) => {
                let focal = [focal(angle(horizontal)?), focal(angle(vertical)?)];
                Ok(Self::Focal { focal, center: [0.5; 2] })
            }
        }
    }
}

/// The focal length that sees this angle, as a share of the picture's side.
fn focal(degrees: f64) -> f64 {
    0.5 / (0.5 * degrees.to_radians()).tan()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: [f32; 2], due: [f32; 2]) -> bool {
        found.iter().zip(due).all(|(a, b)| (a - b).abs() < 1e-3)
    }

    #[test]
    fn angles_follow_from_focal_length_and_crop() {
        let lens = Lens::from_pixels([320.0; 2], [320.0, 240.0], [640.0, 480.0]).expect("a lens");
        assert!(close(lens.angles([640, 480], [640, 480]), [90.0, 73.7398]));
        // Half the picture, in another resolution.
        assert!(close(lens.angles([320, 240], [240, 240]), [73.7398, 73.7398]));
        let wide: Lens = "90".parse().expect("an angle");
        assert!(close(wide.angles([640, 480], [640, 480]), [90.0, 73.7398]));
        let tall = Lens::Vertical(73.7398);
        assert!(close(tall.angles([640, 480], [640, 480]), [90.0, 73.7398]));
        let both: Lens = "105x75".parse().expect("angles");
        assert!(close(both.angles([640, 360], [640, 360]), [105.0, 75.0]));
        assert!(lens.off_center() < 1e-9);
    }

    #[test]
    fn what_is_not_a_lens_is_refused() {
        for text in ["", "0", "180", "90x", "x", "ninety"] {
            assert!(text.parse::<Lens>().is_err(), "{text}");
        }
        for focal in [0.0, -3.0, f64::NAN, f64::INFINITY] {
            assert!(Lens::from_pixels([focal, 300.0], [320.0, 240.0], [640.0, 480.0]).is_err());
        }
        assert!(Lens::from_pixels([300.0; 2], [320.0, 240.0], [0.0, 480.0]).is_err());
    }
}
