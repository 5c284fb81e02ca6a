//! Many small pictures on one sheet, each with a caption and a colored bar.

use font8x8::legacy::BASIC_LEGACY;

use crate::{Episode, Phase, Picture, Result};

/// Color of the explore phase in pictures and maps.
pub const EXPLORE_COLOR: [u8; 3] = [37, 99, 235];
/// Color of the return phase in pictures and maps.
pub const RETURN_COLOR: [u8; 3] = [234, 88, 12];

const PAPER: [u8; 3] = [248, 248, 246];
const INK: [u8; 3] = [40, 42, 46];
/// Height in pixels of a letter, and of the bar under a picture.
const LETTER: u32 = 8;
const BAR: u32 = 4;
const GAP: u32 = 10;

/// One picture of a sheet.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The picture.
    pub picture: Picture,
    /// Short text below it; letters beyond ASCII are left out.
    pub caption: String,
    /// Color of the bar between picture and caption.
    pub color: [u8; 3],
}

/// Pictures in rows under a title.
#[derive(Clone, Debug)]
pub struct ContactSheet {
    /// Text above the pictures.
    pub title: String,
    /// Pictures per row; must not be 0.
    pub columns: u32,
    /// Smallest width of a picture in pixels: smaller ones are enlarged by a whole number.
    pub cell_width: u32,
    /// The pictures, row by row, all of one size.
    pub cells: Vec<Cell>,
}

impl ContactSheet {
    /// A sheet of `count` frames, spread evenly over explore and return in proportion to their
    /// lengths but with at least a quarter of the cells each.
    pub fn of_episode(episode: &Episode, count: usize, title: String) -> Result<Self> {
        let mut cells = Vec::new();
        for frame in spread(episode.boundary(), episode.len(), count.max(2)) {
            let phase = episode.phase(frame);
            let color = if phase == Phase::Explore { EXPLORE_COLOR } else { RETURN_COLOR };
            let labels = &episode.description().labels;
            let events = episode.events(frame).iter();
            let names: Vec<&str> = events
                .filter_map(|&event| labels.get(usize::from(event)).map(String::as_str))
                .collect();
            let caption = format!("{frame} {:.1}s {}", episode.times()[frame], names.join(" "));
            cells.push(Cell { picture: episode.picture(frame)?, caption, color });
        }
        Ok(Self { title, columns: 6, cell_width: 192, cells })
    }

    /// Draws the sheet.
    pub fn render(&self) -> Picture {
        let Some(first) = self.cells.first() else { return Picture::filled(1, 1, PAPER) };
        let factor = self.cell_width.div_ceil(first.picture.width.max(1)).max(1);
        let (width, height) = (first.picture.width * factor, first.picture.height * factor);
        let columns = self.columns.max(1).min(self.cells.len() as u32);
        let rows = (self.cells.len() as u32).div_ceil(columns);
        let head = if self.title.is_empty() { GAP } else { GAP + 2 * LETTER + GAP };
        let (step_x, step_y) = (width + GAP, height + BAR + LETTER + GAP + 4);
        let mut sheet = Picture::filled(GAP + columns * step_x, head + rows * step_y, PAPER);
        write_text(&mut sheet, &self.title, GAP, GAP, 2, columns * step_x - GAP);
        for (index, cell) in self.cells.iter().enumerate() {
            let (column, row) = (index as u32 % columns, index as u32 / columns);
            let (x, y) = (GAP + column * step_x, head + row * step_y);
            sheet.paste(&cell.picture.enlarged(factor), x, y);
            sheet.paste(&Picture::filled(width, BAR, cell.color), x, y + height);
            write_text(&mut sheet, &cell.caption, x, y + height + BAR + 3, 1, width);
        }
        sheet
    }
}

/// Writes one line of text, cut to `width` pixels.
fn write_text(picture: &mut Picture, text: &str, x: u32, y: u32, scale: u32, width: u32) {
    let letters = text.chars().filter_map(|letter| BASIC_LEGACY.get(letter as usize));
    for (place, letter) in letters.take((width / (LETTER * scale)) as usize).enumerate() {
        for (row, bits) in letter.iter().enumerate() {
            for column in (0..LETTER).filter(|column| bits >> column & 1 == 1) {
                let left = x + (place as u32 * LETTER + column) * scale;
                let dot = Picture::filled(scale, scale, INK);
                picture.paste(&dot, left, y + row as u32 * scale);
            }
        }
    }
}

/// Frames to show: first and last of each phase and evenly between, ascending.
fn spread(boundary: usize, length: usize, count: usize) -> Vec<usize> {
    let returning = length - boundary;
    let share = (count * returning).div_ceil(length.max(1));
    let low = (count / 4).max(1);
    let for_return = if returning == 0 { 0 } else { share.clamp(low, count - low) };
    let for_return = if boundary == 0 { count } else { for_return };
    let mut frames = evenly(0, boundary, count - for_return);
    frames.extend(evenly(boundary, returning, for_return));
    frames
}

fn evenly(start: usize, length: usize, count: usize) -> Vec<usize> {
    let count = count.min(length);
    (0..count).map(|i| start + i * (length - 1) / (count.max(2) - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spread_frames_ascend_and_stay_inside(boundary in 0usize..50, more in 0usize..50, count in 2usize..40) {
            let length = boundary + more;
            prop_assume!(length > 0);
            let frames = spread(boundary, length, count);
            prop_assert!(frames.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(!frames.is_empty() && frames.len() <= count);
            prop_assert!(frames.iter().all(|&frame| frame < length));
            if boundary > 0 { prop_assert_eq!(frames[0], 0); }
        }
    }

    #[test]
    fn cells_do_not_overlap_and_captions_are_cut() {
        let cell = |color| Cell {
            picture: Picture::filled(4, 4, color),
            caption: "a very long caption that would not fit at all".into(),
            color: [1, 2, 3],
        };
        let cells = vec![cell([255, 0, 0]), cell([0, 255, 0]), cell([0, 0, 255])];
        let sheet =
            ContactSheet { title: "Three".into(), columns: 2, cell_width: 32, cells }.render();
        let count = |color| sheet.pixels.chunks_exact(3).filter(|pixel| *pixel == color).count();
        for color in [[255, 0, 0], [0, 255, 0], [0, 0, 255]] {
            assert_eq!(count(color), 32 * 32);
        }
        assert_eq!(count([1, 2, 3]), 3 * 32 * BAR as usize);
    }
}
