//! Where a recording begins to see places again: there exploring ends and the return begins.

use std::str::FromStr;

use far_memory::Pose;

/// Frames that are compared at most; longer recordings are looked at in strides.
const COMPARED: usize = 1500;

/// A place is near within this share of the recording's extent,
const NEAR: f64 = 0.1;

/// or within this many meters: a hand-held camera never stands where it stood to the centimeter.
const LEAST_NEAR: f64 = 0.25;

/// One has been away after this many times the near distance.
const AWAY: f64 = 2.0;

/// A frame of the return that sees nothing again costs this much of one that does.
const COST: f64 = 0.5;

/// How the boundary between exploring and returning is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReturnRule {
    /// What the source says; where it says nothing, the poses.
    Automatic,
    /// The last part of every episode, as a share.
    Last(f64),
    /// What the source says: a column `phase`, a goal that turns home.
    Column,
}

impl FromStr for ReturnRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = |text: &str| {
            let percent: f64 = text.strip_prefix("last:")?.strip_suffix('%')?.parse().ok()?;
            (percent > 0.0 && percent < 100.0).then_some(percent / 100.0)
        };
        match (text, share(text)) {
            ("auto", _) => Ok(Self::Automatic),
            ("column", _) => Ok(Self::Column),
            (_, Some(share)) => Ok(Self::Last(share)),
            _ => Err(format!("`{text}` is not auto, column or last:30%")),
        }
    }
}

/// Where a walk returns, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Revisit {
    /// The first frame of the return; the number of frames when there is none.
    pub boundary: usize,
    /// Share of the return's frames that see a place from before the boundary.
    pub share: f64,
    /// The least distance to an earlier place after having been away, in meters; infinite when nothing
    /// was looked at again.
    pub nearest: f64,
    /// The distance within which a place is near, in meters.
    pub near: f64,
}

impl Revisit {
    /// Looks for the boundary after which most frames see what frames before it saw.
    ///
    /// Frame t sees place s again when it stands near s (a tenth of the recording's extent), looks
    /// the same way to within half of `view` (radians), and was away in between: elsewhere, or looking
    /// elsewhere.
    pub fn find(poses: &[Pose], view: f64) -> Self {
        let stride = poses.len().div_ceil(COMPARED).max(1);
        let sparse: Vec<Pose> = poses.iter().step_by(stride).copied().collect();
        let near = (NEAR * extent(&sparse)).max(LEAST_NEAR);
        let mut nearest = f64::INFINITY;
        let earliest: Vec<Option<usize>> = (0..sparse.len())
            .map(|now| earliest_place(&sparse, now, near, view, &mut nearest))
            .collect();
        let (boundary, share) = best_boundary(&earliest);
        let boundary = if boundary == sparse.len() { poses.len() } else { boundary * stride };
        Self { boundary, share, nearest, near }
    }
}

/// The diagonal of the box around all positions, in meters.
pub(crate) fn extent(poses: &[Pose]) -> f64 {
    let side = |axis: usize| {
        let values = poses.iter().map(|pose| f64::from(pose.position[axis]));
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        (high - low).max(0.0)
    };
    (0..3).map(|axis| side(axis) * side(axis)).sum::<f64>().sqrt()
}

/// The earliest frame whose place frame `now` sees again.
fn earliest_place(
    poses: &[Pose],
    now: usize,
    near: f64,
    view: f64,
    nearest: &mut f64,
) -> Option<usize> {
    let (here, ahead) = (poses[now], poses[now].forward());
    let turn = |other: &Pose| {
        let cosine: f32 = other.forward().iter().zip(ahead).map(|(a, b)| a * b).sum();
        f64::from(cosine.clamp(-1.0, 1.0)).acos()
    };
    let mut away = false;
    let mut earliest = None;
    for then in (0..now).rev() {
        let (distance, angle) = (f64::from(poses[then].distance(&here)), turn(&poses[then]));
        away |= distance > AWAY * near || angle > view;
        if !away || angle > 0.5 * view {
            continue;
        }
        *nearest = nearest.min(distance);
        if distance <= near {
            earliest = Some(then);
        }
    }
    earliest
}

/// The boundary that leaves most frames behind it that see something from before it, with their
/// share; the earliest of equals, and the end when nothing is seen again.
fn best_boundary(earliest: &[Option<usize>]) -> (usize, f64) {
    let frames = earliest.len();
    // Frame t counts for boundaries in earliest(t) + 1 ..= t.
    let mut change = vec![0i64; frames + 2];
    for (now, place) in earliest.iter().enumerate() {
        if let Some(place) = place {
            change[place + 1] += 1;
            change[now + 1] -= 1;
        }
    }
    let (mut best, mut found, mut seen) = (0.0, (frames, 0.0), 0);
    for (boundary, change) in change.iter().enumerate().take(frames) {
        seen += change;
        let after = (frames - boundary) as f64;
        let worth = seen as f64 - COST * (after - seen as f64);
        if worth > best {
            (best, found) = (worth, (boundary, seen as f64 / after));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VIEW: f64 = 1.5;

    fn walk(places: &[(f32, f32)]) -> Vec<Pose> {
        places.iter().map(|&(x, yaw)| Pose::from_yaw_pitch([x, 0.0, 1.6], yaw, 0.0)).collect()
    }

    #[test]
    fn words_are_rules() {
        assert_eq!("auto".parse(), Ok(ReturnRule::Automatic));
        assert_eq!("last:30%".parse(), Ok(ReturnRule::Last(0.3)));
        assert_eq!("column".parse(), Ok(ReturnRule::Column));
        for wrong in ["", "last", "last:0%", "last:100%", "last:30", "first:30%"] {
            assert!(wrong.parse::<ReturnRule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_way_back_looking_ahead_as_before_is_a_return() {
        // Out and back, walking backward on the way back: every place is seen again.
        let out = (0..60).map(|step| (step as f32 * 0.5, 0.0));
        let back = (0..40).map(|step| (29.5 - step as f32 * 0.5, 0.0));
        let places: Vec<_> = out.chain(back).collect();
        let found = Revisit::find(&walk(&places), VIEW);
        assert!((60..=75).contains(&found.boundary), "{found:?}");
        assert!(found.share > 0.95);
    }

    #[test]
    fn turning_around_once_is_a_return_too() {
        let places: Vec<_> = (0..90).map(|step| (0.0, step as f32 * 0.1)).collect();
        let found = Revisit::find(&walk(&places), VIEW);
        // A full turn takes 63 frames; places come into view again a little before.
        assert!((50..=64).contains(&found.boundary), "{found:?}");
    }

    #[test]
    fn a_walk_straight_on_has_none_and_says_how_near_it_came() {
        let places: Vec<_> = (0..100).map(|step| (step as f32 * 0.5, 0.0)).collect();
        let found = Revisit::find(&walk(&places), VIEW);
        assert_eq!((found.boundary, found.share), (100, 0.0));
        assert!(found.nearest.is_finite() && found.nearest > found.near, "{found:?}");
        assert_eq!(Revisit::find(&[], VIEW).boundary, 0);
        let still = walk(&[(1.0, 0.0); 30]);
        assert_eq!(Revisit::find(&still, VIEW).boundary, 30, "one who never leaves never returns");
    }

    proptest! {
        /// The differences give what counting gives.
        #[test]
        fn boundaries_are_those_of_the_plain_count(places in prop::collection::vec(prop::option::of(0usize..30), 1..30)) {
            let earliest: Vec<Option<usize>> = places
                .iter()
                .enumerate()
                .map(|(now, place)| place.filter(|place| *place < now))
                .collect();
            let worth = |boundary: usize| {
                let after = &earliest[boundary..];
                let seen = after.iter().flatten().filter(|place| **place < boundary).count() as f64;
                seen - COST * (after.len() as f64 - seen)
            };
            let mut due = (0.0, earliest.len());
            for boundary in 0..earliest.len() {
                if worth(boundary) > due.0 {
                    due = (worth(boundary), boundary);
                }
            }
            prop_assert_eq!(best_boundary(&earliest).0, due.1);
        }
    }
}
