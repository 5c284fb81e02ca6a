//! Decoding PNG files of a size that is known beforehand.

use std::io::Cursor;

/// Color type and samples of a PNG of `size` = [width, height], brought to 8 bits, palettes
/// expanded.
///
/// The size is compared before a pixel is decoded, so that a hostile header cannot ask for
/// gigabytes.
pub(crate) fn read(bytes: &[u8], size: [u32; 2]) -> Result<(png::ColorType, Vec<u8>), String> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    same_size([reader.info().width, reader.info().height], size)?;
    let length = reader.output_buffer_size().ok_or("the PNG is too large")?;
    let mut samples = vec![0; length];
    let info = reader.next_frame(&mut samples).map_err(|error| error.to_string())?;
    samples.truncate(info.buffer_size());
    Ok((info.color_type, samples))
}

/// The size [width, height] that the header declares.
pub(crate) fn declared_size(bytes: &[u8]) -> Result<[u32; 2], String> {
    let reader =
        png::Decoder::new(Cursor::new(bytes)).read_info().map_err(|error| error.to_string())?;
    Ok([reader.info().width, reader.info().height])
}

/// Refuses pictures of another size than `dataset.json` says.
pub(crate) fn same_size(found: [u32; 2], wanted: [u32; 2]) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("is {}x{} where {}x{} was due", found[0], found[1], wanted[0], wanted[1]))
}
