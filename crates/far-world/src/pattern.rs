//! Surface patterns, 32 by 32 texels each, seamless at the edges.

use crate::color::Color;
use crate::noise::{fractal, hash, unit};

const EDGE: i32 = 32;

/// A procedural pattern. Colors are named `a`, `b`, `c` in the order of
/// [`Surface::colors`](crate::Surface).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One color `a`, nothing else.
    Plain,
    /// Rough wall paint: `a` with soft stains toward `b`.
    Plaster,
    /// Bricks of `a` and `c` with joints of `b`.
    Bricks,
    /// Large stone blocks of `a` and `c` with joints of `b`.
    Blocks,
    /// Horizontal boards of `a` and `c` with gaps of `b`.
    Planks,
    /// Vertical boards of `a` and `c` with gaps of `b`.
    Boards,
    /// Blades of `a` and `b` with specks of `c`.
    Grass,
    /// Overlapping rounded tiles of `a` and `c` with shadows of `b`.
    RoofTiles,
    /// Straw of `a`, `b` and `c`.
    Thatch,
    /// Foliage: `a` lit, `b` shaded, specks of `c`.
    Leaves,
    /// Rounded stones of `a` and `c` in `b`.
    Cobbles,
    /// Square tiles of `a` with joints of `b`.
    Tiles,
    /// A chessboard of `a` and `b`.
    Checker,
    /// Wood grain: `a` with lines of `b`.
    Wood,
    /// Tree bark: `a` with vertical furrows of `b`.
    Bark,
    /// Brushed metal: `a` with a sheen of `b`.
    Metal,
    /// Woven cloth of `a` and `b`.
    Fabric,
    /// Vertical stripes of `a` and `b`, four per tile.
    Stripes,
    /// Horizontal stripes of `a` and `b`, four per tile.
    Bands,
    /// Loose ground: grains of `a`, `b` and `c`.
    Gravel,
    /// Smooth drifts of `a` and `b` (snow, sand).
    Drift,
    /// A window: frame `a`, glass `b`, glint `c`; cross of two by two panes.
    Window,
    /// A door: boards of `a`, frame `b`, handle `c`.
    Door,
    /// Louvered shutter: slats of `a` and `b`, frame `c`.
    Shutter,
    /// A timber frame of `b` on plaster `a`.
    Timber,
    /// Book spines in `a`, `b`, `c` on shelves.
    Books,
    /// A framed picture: frame `a`, sky `b`, land `c`.
    Picture,
    /// Flowers of `b` and `c` among leaves of `a`.
    Flowers,
    /// A round sign: disk of `b` with dot `c` on `a`.
    Disk,
}

impl Pattern {
    /// Color of texel (`x` right, `y` down), both in 0..32.
    pub fn texel(self, x: i32, y: i32, [a, b, c]: [Color; 3], seed: u32) -> Color {
        let grain = |amount: f32| 1.0 + amount * (unit(x, y, 1, seed) - 0.5);
        let stain = |period: i32| {
            let scale = period as f32 / EDGE as f32;
            fractal(x as f32 * scale, y as f32 * scale, period, 3, seed)
        };
        match self {
            Self::Plain => a,
            Self::Plaster => {
                a.mix(b, (stain(4) * 1.6 - 0.5).clamp(0.0, 1.0) * 0.7).shade(grain(0.06))
            }
            Self::Bricks => masonry(x, y, 8, 4, [a, b, c], seed, grain(0.12)),
            Self::Blocks => masonry(x, y, 16, 8, [a, b, c], seed, grain(0.10)),
            Self::Planks => boards(y, x, 8, [a, b, c], seed, grain(0.08)),
            Self::Boards => boards(x, y, 8, [a, b, c], seed, grain(0.08)),
            Self::Grass => {
                let blade = unit(x, y / 3, 2, seed);
                let base = a.mix(b, (stain(8) * 0.8 + blade * 0.5 - 0.25).clamp(0.0, 1.0));
                if hash(x, y, 3, seed).is_multiple_of(61) { c } else { base.shade(grain(0.14)) }
            }
            Self::RoofTiles => roof_tiles(x, y, [a, b, c], seed, grain(0.08)),
            Self::Thatch => {
                let straw = unit(x, (y + (hash(x, 0, 5, seed) % 7) as i32) / 7, 4, seed);
                let row = if y % 16 < 2 { 0.75 } else { 1.0 };
                let color = if straw < 0.4 { a.mix(b, straw * 2.5) } else { b.mix(c, straw - 0.4) };
                color.shade(row * grain(0.1))
            }
            Self::Leaves => {
                let clump = stain(8);
                let leaf = unit(x / 2, y / 2, 6, seed);
                if leaf > 0.94 {
                    c
                } else {
                    b.mix(a, (clump * 1.3 + leaf * 0.6 - 0.45).clamp(0.0, 1.0)).shade(grain(0.2))
                }
            }
            Self::Cobbles => cobbles(x, y, [a, b, c], seed, grain(0.1)),
            Self::Tiles => {
                if x % 16 == 0 || y % 16 == 0 {
                    b
                } else {
                    let tone = 0.95 + 0.1 * unit(x / 16, y / 16, 7, seed);
                    a.shade(tone * grain(0.03))
                }
            }
            Self::Checker => if (x / 16 + y / 16) % 2 == 0 { a } else { b }.shade(grain(0.04)),
            Self::Wood => {
                let ring = stain(2) * 4.0 + y as f32 / 4.0;
                a.mix(b, (ring.fract() * 0.7).clamp(0.0, 1.0)).shade(grain(0.06))
            }
            Self::Bark => {
                let furrow = unit(x / 2, (y + (hash(x / 2, 0, 8, seed) % 9) as i32) / 9, 8, seed);
                a.mix(b, furrow).shade(grain(0.15))
            }
            Self::Metal => {
                let sheen = (x as f32 / EDGE as f32 * std::f32::consts::TAU).sin() * 0.5 + 0.5;
                a.mix(b, sheen * 0.6 + 0.15 * unit(0, y, 9, seed)).shade(grain(0.02))
            }
            Self::Fabric => {
                let over = (x / 2 + y / 2) % 2 == 0;
                if over { a } else { a.mix(b, 0.6) }.shade(grain(0.1))
            }
            Self::Stripes => if (x / 4) % 2 == 0 { a } else { b }.shade(grain(0.05)),
            Self::Bands => if (y / 4) % 2 == 0 { a } else { b }.shade(grain(0.05)),
            Self::Gravel => {
                let stone = unit(x / 2, y / 2, 10, seed);
                let base = if stone < 0.5 { a } else { a.mix(b, 0.8) };
                if stone > 0.9 { c } else { base }.shade(grain(0.16))
            }
            Self::Drift => a.mix(b, stain(4)).shade(grain(0.03)),
            Self::Window => window(x, y, [a, b, c]),
            Self::Door => door(x, y, [a, b, c], seed),
            Self::Shutter => {
                let border = rim(x, 3) || rim(y, 2) || (15..17).contains(&y);
                if border {
                    c
                } else if y % 4 < 2 {
                    a
                } else {
                    b
                }
            }
            Self::Timber => {
                let beam = y < 4 || x < 4 || (x - y).rem_euclid(EDGE) < 4;
                if beam { b.shade(grain(0.15)) } else { a.shade(grain(0.05)) }
            }
            Self::Books => books(x, y, [a, b, c], seed),
            Self::Picture => picture(x, y, [a, b, c]),
            Self::Flowers => match hash(x / 3, y / 3, 11, seed) % 7 {
                0 => b,
                1 => c,
                _ => a.shade(0.8 + 0.4 * unit(x, y, 12, seed)),
            },
            Self::Disk => {
                let square = (2 * x - 31).pow(2) + (2 * y - 31).pow(2);
                if square < 150 {
                    c
                } else if square < 700 {
                    b
                } else {
                    a
                }
            }
        }
    }
}

/// Whether a texel lies within `width` of the tile's edge.
fn rim(v: i32, width: i32) -> bool {
    !(width..EDGE - width).contains(&v)
}

/// Bricks `width` by `height` texels, every second row shifted by half.
fn masonry(
    x: i32,
    y: i32,
    width: i32,
    height: i32,
    [a, b, c]: [Color; 3],
    seed: u32,
    grain: f32,
) -> Color {
    let row = y / height;
    let shifted = (x + (row % 2) * width / 2).rem_euclid(EDGE);
    if y % height == height - 1 || shifted % width == width - 1 {
        return b.shade(grain);
    }
    let tone = unit(shifted / width, row, 13, seed);
    let light = if y % height == 0 { 1.08 } else { 1.0 };
    a.mix(c, tone).shade(light * grain)
}

/// Boards `width` texels wide along `across`, with grain running `along`.
fn boards(
    across: i32,
    along: i32,
    width: i32,
    [a, b, c]: [Color; 3],
    seed: u32,
    grain: f32,
) -> Color {
    let board = across / width;
    let joint = (hash(board, 0, 14, seed) % EDGE as u32) as i32;
    if across % width == width - 1 || along == joint {
        return b;
    }
    let fiber = unit(across, along / 6, 15, seed);
    a.mix(c, unit(board, i32::from(along < joint), 16, seed) * 0.7 + fiber * 0.3).shade(grain)
}

fn roof_tiles(x: i32, y: i32, [a, b, c]: [Color; 3], seed: u32, grain: f32) -> Color {
    let row = y / 8;
    let shifted = (x + (row % 2) * 4).rem_euclid(EDGE);
    let (column, across, down) = (shifted / 8, shifted % 8, y % 8);
    // The lower end of each tile is round; the gap between two tiles is in shadow.
    let bulge = (across - 4).abs() - 1 + down;
    if bulge > 8 || across == 0 {
        return b.shade(grain);
    }
    let tone = unit(column, row, 17, seed);
    a.mix(c, tone).shade((0.86 + 0.035 * down as f32) * grain)
}

fn cobbles(x: i32, y: i32, [a, b, c]: [Color; 3], seed: u32, grain: f32) -> Color {
    // Nearest and second nearest of one jittered point per 8-texel cell, on a torus.
    let (mut first, mut second, mut stone) = (f32::MAX, f32::MAX, 0);
    for dy in -1..=1 {
        for dx in -1..=1 {
            let (cell_x, cell_y) = (x.div_euclid(8) + dx, y.div_euclid(8) + dy);
            let (wrapped_x, wrapped_y) = (cell_x.rem_euclid(4), cell_y.rem_euclid(4));
            let center_x = (cell_x as f32 + 0.2 + 0.6 * unit(wrapped_x, wrapped_y, 18, seed)) * 8.0;
            let center_y = (cell_y as f32 + 0.2 + 0.6 * unit(wrapped_x, wrapped_y, 19, seed)) * 8.0;
            let distance = (x as f32 + 0.5 - center_x).hypot(y as f32 + 0.5 - center_y);
            if distance < first {
                (second, first, stone) = (first, distance, wrapped_y * 4 + wrapped_x);
            } else if distance < second {
                second = distance;
            }
        }
    }
    if second - first < 1.3 {
        return b.shade(grain);
    }
    a.mix(c, unit(stone, 0, 20, seed)).shade((1.1 - 0.03 * first) * grain)
}

fn window(x: i32, y: i32, [a, b, c]: [Color; 3]) -> Color {
    let bar = |v: i32| rim(v, 3) || (15..17).contains(&v);
    if bar(x) || bar(y) {
        return a;
    }
    let (pane_x, pane_y) = (x % 16, y % 16);
    if (pane_x + pane_y - 12).abs() < 2 { c } else { b.shade(1.1 - 0.012 * y as f32) }
}

fn door(x: i32, y: i32, [a, b, c]: [Color; 3], seed: u32) -> Color {
    if rim(x, 2) || y < 2 {
        return b;
    }
    if (25..28).contains(&x) && (16..19).contains(&y) {
        return c;
    }
    let panel = |low: i32, high: i32| y == low || y == high || x == 6 || x == 25;
    let inside = (6..26).contains(&x);
    let groove =
        inside && ((4..14).contains(&y) && panel(4, 13) || (18..30).contains(&y) && panel(18, 29));
    if groove { a.shade(0.65) } else { a.shade(0.95 + 0.1 * unit(x / 3, 0, 21, seed)) }
}

fn books(x: i32, y: i32, [a, b, c]: [Color; 3], seed: u32) -> Color {
    let (shelf, height) = (y / 16, y % 16);
    if height >= 14 {
        return Color::hex(0x5b3d22);
    }
    let book = (x + (hash(0, shelf, 22, seed) % 3) as i32) / 3;
    let tall = 2 + (hash(book, shelf, 23, seed) % 4) as i32;
    if height < tall {
        return Color::hex(0x2a1c12);
    }
    let spine = [a, b, c, a.mix(b, 0.5), b.mix(c, 0.5)][(hash(book, shelf, 24, seed) % 5) as usize];
    if height == tall + 2 { spine.shade(1.3) } else { spine }
}

fn picture(x: i32, y: i32, [a, b, c]: [Color; 3]) -> Color {
    if rim(x, 3) || rim(y, 3) {
        return a;
    }
    let hill = 18 + ((x * x / 9) % 7) - (x / 6);
    if y > hill { c.shade(1.1 - 0.01 * y as f32) } else { b.shade(1.2 - 0.012 * y as f32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_picture() {
        let colors = [Color::hex(0xa04030), Color::hex(0xc0c0c0), Color::hex(0x602010)];
        for pattern in [Pattern::Bricks, Pattern::Cobbles, Pattern::Grass, Pattern::RoofTiles] {
            let draw = |seed| {
                (0..1024).map(|i| pattern.texel(i % 32, i / 32, colors, seed).0).collect::<Vec<_>>()
            };
            assert_eq!(draw(5), draw(5));
            assert_ne!(draw(5), draw(6));
        }
    }
}
