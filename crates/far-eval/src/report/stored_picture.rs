//! Pictures inside JSON files: PNG as base64, each distinct one once, named by its number.

use super::picture_pack::PicturePack;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use far_data::Picture;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Bytes of pixels that one file may have: a hostile file cannot ask for more memory.
const MAX_PIXELS: u64 = 1 << 30;

/// One picture of a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredPicture {
    size: [u32; 2],
    png: String,
}

impl StoredPicture {
    /// All pictures of a pack by their numbers, without loss.
    pub(super) fn all(pack: &PicturePack<'_>) -> Vec<Self> {
        let store = |picture: &&Picture| Self {
            size: [picture.width, picture.height],
            png: BASE64.encode(picture.to_png()),
        };
        pack.pictures().iter().map(store).collect()
    }
}

/// Decoded pictures by number, and how many bytes of pixels may still be made.
pub(super) struct Pictures {
    pictures: Vec<Picture>,
    left: Cell<u64>,
}

impl Pictures {
    /// Decodes all pictures of a file.
    ///
    /// # Errors
    /// Which picture is wrong and how, or that they are too large together.
    pub(super) fn decode(stored: &[StoredPicture]) -> Result<Self, String> {
        let mut pictures = Self { pictures: Vec::new(), left: Cell::new(MAX_PIXELS) };
        for (index, StoredPicture { size, png }) in stored.iter().enumerate() {
            let wrong = |reason: String| format!("picture {index}: {reason}");
            pictures.reserve(*size).map_err(wrong)?;
            let bytes = BASE64.decode(png).map_err(|error| wrong(error.to_string()))?;
            pictures.pictures.push(Picture::from_png(&bytes, *size).map_err(wrong)?);
        }
        Ok(pictures)
    }

    /// A copy of a picture.
    ///
    /// # Errors
    /// If there is no such picture, or the copies are too large together.
    pub(super) fn take(&self, index: usize) -> Result<Picture, String> {
        let count = self.pictures.len();
        let picture = self.pictures.get(index);
        let picture = picture.ok_or_else(|| format!("picture {index} of {count} is named"))?;
        self.reserve([picture.width, picture.height])?;
        Ok(picture.clone())
    }

    /// Copies of the pictures of some frames.
    ///
    /// # Errors
    /// As [`Pictures::take`].
    pub(super) fn by_frame(
        &self,
        indices: &BTreeMap<usize, usize>,
    ) -> Result<BTreeMap<usize, Picture>, String> {
        indices.iter().map(|(frame, index)| Ok((*frame, self.take(*index)?))).collect()
    }

    fn reserve(&self, [width, height]: [u32; 2]) -> Result<(), String> {
        let bytes = u64::from(width).saturating_mul(u64::from(height)).saturating_mul(3);
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.ok_or("more than a gigabyte of pixels")?);
        Ok(())
    }
}
