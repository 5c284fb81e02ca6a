//! The tables of empty boxes behind [`Field`](crate::Field).

/// Bits of an entry that hold the horizontal reach; the rest holds the logarithm of the layers.
pub(crate) const REACH_BITS: u8 = 5;
/// Mask for the horizontal reach.
pub(crate) const REACH_MASK: u8 = (1 << REACH_BITS) - 1;
/// Boxes are 1, 2, 4, 8 or 16 layers high.
const HEIGHTS: u8 = 5;
/// Cells a typical ray travels sideways per layer; weighs height against width.
const TYPICAL_RUN: i32 = 3;

/// One entry per cell and vertical direction. The lower bits are the horizontal reach `h`: all
/// cells nearer than `h` (Chebyshev distance) are empty in all layers of the box; 0 in cells that
/// stop a ray. The upper bits are the logarithm of the number of layers, counted from the cell's
/// own in the ray's direction.
#[derive(Clone, Debug)]
pub(crate) struct Leaps {
    /// The table for rising rays, then the one for falling rays.
    pub entries: Vec<u8>,
    /// Where the second table begins.
    pub falling: usize,
}

impl Leaps {
    /// Tables for cells, of which those not 0 stop rays; the outermost layer must stop them.
    pub fn new(cells: &[u8], count: [i32; 3]) -> Self {
        let mut entries = table(cells, count, 1);
        entries.append(&mut table(cells, count, -1));
        Self { entries, falling: cells.len() }
    }
}

fn table(cells: &[u8], count: [i32; 3], direction: i32) -> Vec<u8> {
    let [width, depth, layers] = count;
    let area = (width * depth) as usize;
    let layer = |z: i32| &cells[z as usize * area..][..area];
    let mut entries = vec![0u8; cells.len()];
    let mut distance = vec![0u8; area];
    let mut occupied = vec![0u8; area];
    let mut best = vec![0u8; area];
    for z in 1..layers - 1 {
        let entries = &mut entries[z as usize * area..][..area];
        best.fill(0);
        occupied.fill(0);
        let mut thickness = 0;
        for height in 0..HEIGHTS {
            let last = z + direction * ((1 << height) - 1);
            if last < 1 || last > layers - 2 {
                break;
            }
            while thickness < 1 << height {
                for (mark, cell) in occupied.iter_mut().zip(layer(z + direction * thickness)) {
                    *mark |= cell;
                }
                thickness += 1;
            }
            chebyshev(&occupied, width as usize, &mut distance);
            let run = (TYPICAL_RUN * thickness).min(255) as u8;
            for ((entry, best), reach) in entries.iter_mut().zip(&mut best).zip(&distance) {
                let score = run.min(*reach);
                if *reach > 0 && score >= *best {
                    *best = score;
                    *entry = height << REACH_BITS | reach;
                }
            }
        }
    }
    entries
}

/// Chebyshev distance of every cell of a layer to the nearest occupied one, at most [`REACH_MASK`].
/// The outermost cells must be occupied.
fn chebyshev(occupied: &[u8], width: usize, distance: &mut [u8]) {
    for (distance, mark) in distance.iter_mut().zip(occupied) {
        *distance = if *mark == 0 { REACH_MASK } else { 0 };
    }
    let rows = occupied.len() / width;
    // Two sweeps: each takes the best of the three neighbors in the previous row, then of the one
    // beside.
    for y in 1..rows {
        let (before, row) = distance[(y - 1) * width..].split_at_mut(width);
        relax(before, &mut row[..width]);
        for x in 1..width {
            row[x] = row[x].min(row[x - 1] + 1);
        }
    }
    for y in (0..rows - 1).rev() {
        let (row, after) = distance[y * width..].split_at_mut(width);
        relax(&after[..width], row);
        for x in (0..width - 1).rev() {
            row[x] = row[x].min(row[x + 1] + 1);
        }
    }
}

fn relax(before: &[u8], row: &mut [u8]) {
    let last = row.len() - 1;
    for x in 1..last {
        let nearest = before[x - 1].min(before[x]).min(before[x + 1]);
        row[x] = row[x].min(nearest + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::unit;

    /// Every box given by an entry is empty, and solid cells have none.
    #[test]
    fn promised_boxes_are_empty() {
        for seed in 0..4u32 {
            let count = [14, 11, 20];
            let at = |x: i32, y: i32, z: i32| (x + count[0] * (y + count[1] * z)) as usize;
            let mut cells = vec![255u8; (count[0] * count[1] * count[2]) as usize];
            for z in 1..count[2] - 1 {
                for y in 1..count[1] - 1 {
                    for x in 1..count[0] - 1 {
                        cells[at(x, y, z)] = u8::from(unit(x, y, z, seed) < 0.01);
                    }
                }
            }
            let leaps = Leaps::new(&cells, count);
            for (table, direction) in leaps.entries.chunks(leaps.falling).zip([1, -1]) {
                for z in 1..count[2] - 1 {
                    for y in 1..count[1] - 1 {
                        for x in 1..count[0] - 1 {
                            let entry = table[at(x, y, z)];
                            let side = i32::from(entry & REACH_MASK) - 1;
                            assert_eq!(side < 0, cells[at(x, y, z)] != 0);
                            for layer in 0..1 << (entry >> REACH_BITS) {
                                for dy in -side..=side {
                                    for dx in -side..=side {
                                        let cell = at(x + dx, y + dy, z + direction * layer);
                                        assert!(side < 0 || cells[cell] == 0);
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
