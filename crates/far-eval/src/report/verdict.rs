//! What a difference between two arms may be said to show.

use super::metric::Better;
use crate::Interval;
use serde::Serialize;

/// What a paired difference says of its first arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better, and the interval excludes zero.
    Ahead,
    /// Worse, and the interval excludes zero.
    Behind,
    /// The interval includes zero.
    Undecided,
    /// There are fewer than [`Verdict::FEWEST_CLIPS`] clips: nothing is said, whatever the interval.
    TooFew,
}

impl Verdict {
    /// Clips that a verdict takes. Resampling knows nothing beyond the clips at hand: of one clip its
    /// interval has no width, of three it misses the mean about one time in four.
    pub const FEWEST_CLIPS: usize = 5;

    /// Judges a difference, first arm minus second.
    ///
    /// ```
    /// use far_eval::{Better, Interval, Verdict};
    ///
    /// let gains = [0.4, 0.5, 0.3, 0.6, 0.4];
    /// assert_eq!(Verdict::of(&Interval::of(&gains, 0), Better::Higher), Verdict::Ahead);
    /// assert_eq!(Verdict::of(&Interval::of(&gains[..4], 0), Better::Higher), Verdict::TooFew);
    /// ```
    pub fn of(difference: &Interval, better: Better) -> Self {
        if difference.n < Self::FEWEST_CLIPS {
            return Self::TooFew;
        }
        match difference.excludes_zero() {
            false => Self::Undecided,
            true if (difference.mean > 0.0) == (better == Better::Higher) => Self::Ahead,
            true => Self::Behind,
        }
    }

    /// Whether it takes sides.
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Ahead | Self::Behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(values: &[f64], better: Better) -> Verdict {
        Verdict::of(&Interval::of(values, 3), better)
    }

    #[test]
    fn fewer_than_five_clips_decide_nothing() {
        // One clip has an interval of no width, which excludes zero by itself.
        for count in 0..5 {
            assert_eq!(judged(&[-0.4; 5][..count], Better::Higher), Verdict::TooFew);
        }
        assert_eq!(judged(&[-0.4; 5], Better::Higher), Verdict::Behind);
        assert!(!Verdict::TooFew.is_decided() && Verdict::Behind.is_decided());
    }

    #[test]
    fn less_may_be_better() {
        let falls = [-0.2, -0.1, -0.3, -0.2, -0.15, -0.2];
        assert_eq!(judged(&falls, Better::Lower), Verdict::Ahead);
        assert_eq!(judged(&falls, Better::Higher), Verdict::Behind);
        assert_eq!(judged(&[1.0, -1.0, 2.0, -2.0, 0.5, -0.5], Better::Lower), Verdict::Undecided);
    }
}
