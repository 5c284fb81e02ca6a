//! Rotary position embedding: pairs of channels rotated by an angle proportional to the token's
//! position.
//!
//! x [rows…, S·H·d] holds S slots of H heads of d channels; the first `rotated` slots are rotated.
//! A head is cut into `parts` equal parts (one per spatial axis) of width w; inside a part,
//! channels j and j + w/2 form a pair: (a, b) ↦ (a·cos − b·sin, b·cos + a·sin). Row r uses the
//! angles of token r mod T. Backward rotates the other way.

use super::row::for_rows;
use crate::cuda::Rotation;
use crate::{Result, Tape, Tensor};

/// The angles of every token and pair of channels.
#[derive(Clone, Debug)]
pub struct RotaryTable {
    tokens: usize,
    channels: usize,
    parts: usize,
    /// Cosine and sine of each angle: [tokens, channels / 2, 2].
    turns: Tensor,
}

impl RotaryTable {
    /// A table for heads of `channels` channels; `positions[token]` has one coordinate per part.
    ///
    /// The j-th pair of a part of width w is rotated by position · base^(−2j/w).
    ///
    /// # Panics
    /// If `channels` is not a multiple of twice the number of parts, or the tokens differ in their
    /// number of coordinates: bugs in the caller's code.
    pub fn new(channels: usize, positions: &[Vec<f32>], base: f32) -> Self {
        let parts = positions.first().map_or(1, Vec::len);
        assert!(parts > 0 && channels.is_multiple_of(2 * parts), "channels come in pairs per part");
        let width = channels / parts;
        let mut angles = Vec::with_capacity(positions.len() * channels / 2);
        for position in positions {
            assert_eq!(position.len(), parts, "every token has one coordinate per part");
            for coordinate in position {
                angles.extend((0..width / 2).map(|pair| {
                    let rate = f64::from(base).powf(-2.0 * pair as f64 / width as f64);
                    f64::from(*coordinate) * rate
                }));
            }
        }
        Self { parts, ..Self::from_angles(channels, &angles) }
    }

    /// A table of one part: `angles` [tokens, channels/2] turns channel j and j + channels/2 of each
    /// head of a token by its j-th angle.
    ///
    /// # Panics
    /// If `channels` is odd or zero, or the angles do not fill the tokens: bugs in the caller's code.
    pub fn from_angles(channels: usize, angles: &[f64]) -> Self {
        assert!(channels > 0 && channels.is_multiple_of(2), "channels come in pairs");
        assert!(angles.len().is_multiple_of(channels / 2), "every token has an angle per pair");
        let tokens = angles.len() / (channels / 2);
        let turns: Vec<f32> =
            angles.iter().flat_map(|angle| [angle.cos() as f32, angle.sin() as f32]).collect();
        let turns = Tensor::from_slice(&turns, [tokens, channels / 2, 2]);
        Self { tokens, channels, parts: 1, turns: turns.expect("one angle for each pair") }
    }

    /// Rotates one head of token `token` in place, forward for `sign` 1 and back for −1.
    fn turn(&self, head: &mut [f32], token: usize, sign: f32) {
        let half = self.channels / self.parts / 2;
        let turns = &self.turns.values()[token % self.tokens * self.channels..];
        for (part, channels) in head.chunks_exact_mut(2 * half).enumerate() {
            let (first, second) = channels.split_at_mut(half);
            let turns = turns[2 * part * half..].chunks_exact(2);
            for ((a, b), turn) in first.iter_mut().zip(second).zip(turns) {
                let (cos, sin) = (turn[0], sign * turn[1]);
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}

impl Tape {
    /// Rotates the heads of the first `rotated` of `slots` slots of x [rows…, slots·H·d].
    ///
    /// # Errors
    /// If the table's heads do not divide the last axis.
    pub fn rotary(
        &mut self,
        x: &Tensor,
        slots: usize,
        rotated: usize,
        table: &RotaryTable,
    ) -> Result<Tensor> {
        let width = x.shape().last();
        let fits = slots >= rotated && slots > 0 && width.is_multiple_of(slots * table.channels);
        x.expect("rotary", fits && table.tokens > 0, || {
            format!(
                "{slots} slots of heads of {} channels must divide the last axis",
                table.channels
            )
        })?;
        if let Some(cuda) = self.cuda() {
            let rotation = Rotation {
                turns: table.turns.clone(),
                sizes: [x.shape().rows(), width, width / slots * rotated],
                tokens: table.tokens,
                channels: table.channels,
                half: table.channels / table.parts / 2,
            };
            return self.rotary_cuda(&cuda, x, rotation);
        }
        let mut output = self.device().buffer(x.shape().elements());
        output.copy_from_slice(x.values());
        turn_rows(&mut output, width, width / slots * rotated, table, 1.0);
        Ok(self.record("rotary", *x.shape(), output, &[x], |_| {
            let (x, turned, table) = (x.clone(), width / slots * rotated, table.clone());
            move |mut upstream, gradients| {
                turn_rows(&mut upstream, x.shape().last(), turned, &table, -1.0);
                gradients.add_whole(&x, upstream);
            }
        }))
    }
}

fn turn_rows(values: &mut [f32], width: usize, turned: usize, table: &RotaryTable, sign: f32) {
    for_rows(values, width, width, |row, part| {
        for head in part[..turned].chunks_exact_mut(table.channels) {
            table.turn(head, row, sign);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, check_gradients, evaluate, normal};

    fn table(tokens: usize) -> RotaryTable {
        let positions: Vec<Vec<f32>> = (0..tokens)
            .map(|token| vec![(token / 2) as f32 + 1.0, (token % 2) as f32 + 1.0])
            .collect();
        RotaryTable::new(8, &positions, 100.0)
    }

    #[test]
    fn values_match_the_formula() {
        let x = normal([2, 3, 2 * 8], 1);
        let found = evaluate(|tape| tape.rotary(&x, 2, 1, &table(3)));
        let mut expected = x.values().to_vec();
        for row in 0..6 {
            let token = row % 3;
            let position = [(token / 2) as f32 + 1.0, (token % 2) as f32 + 1.0];
            for (part, coordinate) in position.into_iter().enumerate() {
                for pair in 0..2 {
                    let angle = coordinate * 100f32.powf(-2.0 * pair as f32 / 4.0);
                    let at = row * 16 + part * 4 + pair;
                    let (a, b) = (x.values()[at], x.values()[at + 2]);
                    expected[at] = a * angle.cos() - b * angle.sin();
                    expected[at + 2] = b * angle.cos() + a * angle.sin();
                }
            }
        }
        assert_close(found.values(), &expected, 1e-6);
    }

    #[test]
    fn scores_depend_on_relative_position_alone() {
        let head = normal([1, 8], 2);
        let positions: Vec<Vec<f32>> = (0..6).map(|token| vec![token as f32]).collect();
        let table = RotaryTable::new(8, &positions, 10.0);
        let turned = |token: usize| {
            let mut values = head.values().to_vec();
            table.turn(&mut values, token, 1.0);
            values
        };
        let score = |a: usize, b: usize| -> f32 {
            turned(a).iter().zip(turned(b)).map(|(x, y)| x * y).sum()
        };
        assert!((score(0, 2) - score(3, 5)).abs() < 1e-4);
    }

    #[test]
    fn gradients_match_differences() {
        check_gradients(&[normal([4, 3 * 8], 3)], |tape, x| tape.rotary(&x[0], 3, 2, &table(4)));
    }
}
