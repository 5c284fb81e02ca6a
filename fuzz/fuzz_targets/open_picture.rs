//! Any bytes as a picture file: an error or a picture of the size that the file declares, never a panic.
//!
//! ```text
//! cargo +nightly fuzz run open_picture fuzz/corpus/open_picture fuzz/seeds/open_picture
//! ```
#![no_main]

use far_data::Picture;
use libfuzzer_sys::fuzz_target;

/// Larger ones are sound but take too long here.
const MOST_PIXELS: u32 = 1 << 18;

fuzz_target!(|bytes: &[u8]| {
    let Ok([width, height]) = Picture::declared_size(bytes) else { return };
    if width.saturating_mul(height) > MOST_PIXELS {
        return;
    }
    if let Ok(picture) = Picture::from_file(bytes, [width, height]) {
        assert_eq!(picture.pixels.len() as u32, 3 * width * height);
        picture.square().resized([8, 6]);
    }
    assert!(Picture::from_file(bytes, [width + 1, height]).is_err());
});
