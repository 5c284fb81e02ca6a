//! A metric over the steps of a run, for a terminal.

use crate::braille::Canvas;
use std::ops::RangeInclusive;

/// Weight of a new value in the smoothed one.
const FRESH: f64 = 0.05;
/// Characters of a number beside a plot.
const NUMBER: usize = 6;

/// A named curve.
pub struct Curve {
    name: &'static str,
    points: Vec<(f64, f64)>,
    smooth: Option<f64>,
    /// The vertical range, if known in advance.
    range: Option<RangeInclusive<f64>>,
}

impl Curve {
    /// A curve whose range follows from its values.
    pub fn falling(name: &'static str) -> Self {
        Self { name, points: Vec::new(), smooth: None, range: None }
    }

    /// A curve between 0 and 1.
    pub fn share(name: &'static str) -> Self {
        Self { range: Some(0.0..=1.0), ..Self::falling(name) }
    }

    /// Adds a value; values that are not finite are skipped.
    pub fn push(&mut self, x: f64, y: f64) {
        if y.is_finite() {
            self.points.push((x, y));
            self.smooth = Some(self.smooth.map_or(y, |smooth| smooth + FRESH * (y - smooth)));
        }
    }

    /// The last value.
    pub fn last(&self) -> Option<f64> {
        self.points.last().map(|(_, y)| *y)
    }

    /// Exponential moving average of the values.
    pub fn smooth(&self) -> Option<f64> {
        self.smooth
    }

    /// The curve with its name and the ends of its range, as lines of `NUMBER + 2 + columns`
    /// characters.
    pub fn plot(&self, columns: usize, rows: usize, across: RangeInclusive<f64>) -> Vec<String> {
        let upward = self.range.clone().unwrap_or_else(|| self.values());
        let ends = [*upward.end(), *upward.start()];
        let canvas = Canvas { columns, rows, across, upward };
        let shown = if self.range.is_some() { self.last() } else { self.smooth };
        let value = shown.map_or("not yet".to_owned(), |value| format!("{value:.4}"));
        let title = format!("{:NUMBER$}  {} {value}", "", self.name);
        let mut lines = vec![format!("{title:<width$}", width = NUMBER + 2 + columns)];
        for (row, dots) in canvas.draw(&self.points).into_iter().enumerate() {
            let label = match row {
                _ if self.points.is_empty() && self.range.is_none() => String::new(),
                0 => format!("{:.2}", ends[0]),
                last if last + 1 == rows => format!("{:.2}", ends[1]),
                _ => String::new(),
            };
            lines.push(format!("{label:>NUMBER$} │{dots}"));
        }
        lines
    }

    /// From the smallest value to a high quantile: the first losses would flatten all others.
    fn values(&self) -> RangeInclusive<f64> {
        let mut values: Vec<f64> = self.points.iter().map(|(_, y)| *y).collect();
        values.sort_unstable_by(f64::total_cmp);
        let most = values.len().saturating_sub(1 + values.len() / 20);
        let (least, most) = (values.first(), values.get(most));
        least.copied().unwrap_or(0.0)..=most.copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_title_and_lines_of_one_width() {
        let mut curve = Curve::falling("loss");
        (0..50).for_each(|n| curve.push(f64::from(n), 1.0 / f64::from(n + 1)));
        curve.push(50.0, f64::NAN);
        let lines = curve.plot(20, 3, 0.0..=100.0);
        assert_eq!(lines.len(), 4);
        assert!(lines[0].contains("loss 0."), "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() == NUMBER + 2 + 20), "{lines:?}");
        assert!(lines[3].starts_with("  0.02 │"), "{lines:?}");
    }

    #[test]
    fn a_share_reaches_from_zero_to_one_before_there_is_a_value() {
        let lines = Curve::share("recall quality").plot(4, 2, 0.0..=1.0);
        assert!(lines[0].contains("recall quality not yet"), "{lines:?}");
        assert!(lines[1].starts_with("  1.00") && lines[2].starts_with("  0.00"), "{lines:?}");
    }
}
