//! How alike two pictures are.
//!
//! | metric | what it sees | range |
//! |---|---|---|
//! | [`psnr`] | each pixel by itself | decibels, more is better |
//! | [`ssim`] | light, contrast and structure around each pixel | at most 1, more is better |
//! | [`Lpips`] | features of a network that learned to see | from 0, less is better |
//! | [`DreamSim`] | what networks that learned to see make of the whole picture | 0 to 2, less is better |
//!
//! All compare RGB in [0, 1] frame by frame. Over frames and clips, take the mean of the values,
//! never the value of a mean.

mod dreamsim;
mod lpips;
mod lpips_net;
mod perceptual_loss;
mod psnr;
mod ssim;

pub use dreamsim::{DreamSim, DreamSimBranch};
pub use lpips::Lpips;
pub use lpips_net::LpipsNet;
pub use perceptual_loss::PerceptualLoss;
pub use psnr::psnr;
pub use ssim::ssim;

use crate::{Error, Result};
use far_data::Picture;

/// Checks that two pictures are whole, of the same size, and at least `side` pixels each way.
fn check_pictures(metric: &'static str, a: &Picture, b: &Picture, side: u32) -> Result<()> {
    for picture in [a, b] {
        let expected = picture.width as usize * picture.height as usize * 3;
        Error::check_length("a picture", picture.pixels.len(), expected)?;
    }
    let sizes = [[a.width, a.height], [b.width, b.height]];
    check_sizes(metric, sizes, side)
}

/// Checks that two sizes [width, height] are equal and at least `side` each way.
fn check_sizes(metric: &'static str, [left, right]: [[u32; 2]; 2], side: u32) -> Result<()> {
    let requirement = if left != right {
        "they must have the same size".to_owned()
    } else if left.iter().any(|extent| *extent < side) {
        format!("they must have at least {side} pixels each way")
    } else {
        return Ok(());
    };
    Err(Error::Pictures { metric, left, right, requirement })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_that_cannot_be_compared_are_named() {
        let [wide, high] = [[12, 11], [11, 12]].map(|[w, h]| Picture::filled(w, h, [0; 3]));
        let error = psnr(&wide, &high).unwrap_err().to_string();
        assert_eq!(error, "psnr of pictures of 12x11 and 11x12: they must have the same size");
        let small = Picture::filled(11, 10, [0; 3]);
        let error = ssim(&small, &small).unwrap_err().to_string();
        assert!(error.ends_with("at least 11 pixels each way"), "{error}");
        let torn = Picture { pixels: vec![0; 5], ..small };
        assert!(psnr(&torn, &torn).is_err());
    }
}
