//! Where a recording begins to see again what it saw: there exploring ends and the return begins.
//!
//! Two frames are alike by the share of their fields of view that both have, or, without poses, by
//! their pictures. A frame sees something again when it is like an earlier one and the camera looked
//! away in between.

use std::fmt;
use std::str::FromStr;

use far_memory::{Camera, Pose};
use rayon::prelude::*;

use crate::overlap::{OverlapRule, View};
use crate::{Picture, Result};

/// Frames that are compared at most; longer recordings are looked at in strides.
const COMPARED: usize = 1500;

/// Views are compared within this share of the recording's extent,
const REACH: f64 = 0.3;

/// or at least and at most this many meters.
const REACHES: [f64; 2] = [1.5, 10.0];

/// Views that share this much show the same place; those that share less than the second number do not.
const SHARED_VIEW: [f64; 2] = [0.5, 0.2];

/// The same of the correlation of small gray pictures.
const ALIKE_PICTURES: [f64; 2] = [0.85, 0.6];

/// Width and height of the pictures that are compared.
const SMALL: [u32; 2] = [16, 12];

/// A frame of the return that sees nothing again costs this much of one that does.
const COST: f64 = 0.5;

/// How the boundary between exploring and returning is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReturnRule {
    /// What the source says; where it says nothing, the poses, and without them the pictures.
    Automatic,
    /// The last part of every episode, as a share.
    Last(f64),
    /// What the source says: a column `phase`, a goal that turns home.
    Column,
}

impl FromStr for ReturnRule {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
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

/// How alike frames are.
pub(super) struct Comparison<'a> {
    /// Frames of the recording, every [`stride`]th of which is compared.
    frames: usize,
    /// How alike two of them are, 1 when they are the same.
    likeness: Box<dyn Fn(usize, usize) -> f64 + Sync + 'a>,
    /// From where on they show the same, and below what they do not.
    bounds: [f64; 2],
    /// What is compared, for messages.
    measure: &'static str,
}

impl<'a> Comparison<'a> {
    /// Frames with these poses, alike by how much of their views they share. The smaller share of
    /// the two counts: a view from afar holds a near one, but shows little of it.
    pub(super) fn of_views(poses: &[Pose], rule: &'a OverlapRule) -> Self {
        let compared: Vec<Pose> = poses.iter().step_by(stride(poses.len())).copied().collect();
        let views: Vec<(Pose, View<'_>)> =
            compared.into_par_iter().map(|pose| (pose, rule.view(&pose))).collect();
        let share = move |own: usize, other: usize| views[own].1.share(&views[other].0);
        let likeness = Box::new(move |now, then| match share(now, then) {
            low if low < SHARED_VIEW[1] => low,
            other => other.min(share(then, now)),
        });
        Self { frames: poses.len(), likeness, bounds: SHARED_VIEW, measure: "views share" }
    }

    /// So many frames with these pictures, alike by the correlation of their small gray pictures.
    ///
    /// # Errors
    /// If a picture cannot be read.
    pub(super) fn of_pictures(
        frames: usize,
        mut picture: impl FnMut(usize) -> Result<Picture>,
    ) -> Result<Self> {
        // [frames, pixels], each row without its mean and of unit length.
        let mut rows: Vec<f32> = Vec::new();
        for frame in (0..frames).step_by(stride(frames)) {
            let small = picture(frame)?.resized(SMALL);
            let shades = small.pixels.chunks_exact(3);
            let shades: Vec<f32> =
                shades.map(|color| color.iter().map(|&part| f32::from(part)).sum()).collect();
            let mean = shades.iter().sum::<f32>() / shades.len() as f32;
            let length = shades.iter().map(|shade| (shade - mean).powi(2)).sum::<f32>().sqrt();
            rows.extend(shades.iter().map(|shade| (shade - mean) / length.max(1.0)));
        }
        let pixels = (SMALL[0] * SMALL[1]) as usize;
        let likeness = Box::new(move |now: usize, then: usize| {
            let [now, then] = [now, then].map(|frame| &rows[frame * pixels..][..pixels]);
            now.iter().zip(then).map(|(a, b)| f64::from(a * b)).sum()
        });
        Ok(Self { frames, likeness, bounds: ALIKE_PICTURES, measure: "pictures are alike by" })
    }
}

/// The rule by which views of frames with these poses are compared.
pub(super) fn view_rule(poses: &[Pose], camera: Camera) -> OverlapRule {
    let reach = (REACH * extent(poses)).clamp(REACHES[0], REACHES[1]);
    OverlapRule::new(camera, reach as f32)
}

/// How alike the most alike frames are of those between which the camera looked away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likeness {
    /// From 0 to 1.
    pub value: f64,
    /// From where on frames count as showing the same.
    pub due: f64,
    /// What is compared.
    measure: &'static str,
}

impl fmt::Display for Likeness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, due, measure } = self;
        let [value, due] = [value, due].map(|share| (100.0 * share).round());
        if value >= due {
            return write!(
                formatter,
                "after looking away, {measure} up to {value} %, but too seldom"
            );
        }
        write!(formatter, "after looking away, {measure} at most {value} %; {due} % count")
    }
}

/// Where a walk returns, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Revisit {
    /// The first frame of the return; the number of frames when there is none.
    pub boundary: usize,
    /// Share of the return's frames that see something from before the boundary.
    pub share: f64,
    /// The most alike frames after looking away; `None` when the camera never looks away.
    pub best: Option<Likeness>,
}

impl Revisit {
    /// Looks for the boundary after which most frames see what frames before it saw.
    pub(super) fn find(frames: &Comparison<'_>) -> Self {
        let (all, stride) = (frames.frames, stride(frames.frames));
        let count = all.div_ceil(stride);
        let seen: Vec<(Option<usize>, f64)> =
            (0..count).into_par_iter().map(|now| earliest_again(frames, now)).collect();
        let earliest: Vec<Option<usize>> = seen.iter().map(|(place, _)| *place).collect();
        let value = seen.iter().map(|(_, best)| *best).fold(f64::NEG_INFINITY, f64::max);
        let likeness =
            Likeness { value: value.max(0.0), due: frames.bounds[0], measure: frames.measure };
        let (boundary, share) = best_boundary(&earliest);
        let boundary = (boundary * stride).min(all);
        Self { boundary, share, best: value.is_finite().then_some(likeness) }
    }
}

/// The earliest frame that frame `now` sees again, and how alike the most alike one is.
fn earliest_again(frames: &Comparison<'_>, now: usize) -> (Option<usize>, f64) {
    let [again, away] = frames.bounds;
    let (mut was_away, mut earliest, mut best) = (false, None, f64::NEG_INFINITY);
    for then in (0..now).rev() {
        let likeness = (frames.likeness)(now, then);
        was_away |= likeness < away;
        if was_away {
            best = best.max(likeness);
            if likeness >= again {
                earliest = Some(then);
            }
        }
    }
    (earliest, best)
}

/// Every how many frames are compared.
fn stride(frames: usize) -> usize {
    frames.div_ceil(COMPARED).max(1)
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

    fn walk(places: &[(f32, f32)]) -> Vec<Pose> {
        places.iter().map(|&(x, yaw)| Pose::from_yaw_pitch([x, 0.0, 1.6], yaw, 0.0)).collect()
    }

    fn find(places: &[(f32, f32)]) -> Revisit {
        let poses = walk(places);
        let rule = view_rule(&poses, Camera::from_degrees(86.0, 70.0));
        Revisit::find(&Comparison::of_views(&poses, &rule))
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
        let found = find(&places);
        assert!((60..=75).contains(&found.boundary), "{found:?}");
        assert!(found.share > 0.95);
    }

    #[test]
    fn turning_around_once_is_a_return_too() {
        let places: Vec<_> = (0..90).map(|step| (0.0, step as f32 * 0.1)).collect();
        let found = find(&places);
        // A full turn takes 63 frames; places come into view again a little before.
        assert!((50..=64).contains(&found.boundary), "{found:?}");
    }

    #[test]
    fn a_walk_straight_on_has_none_and_says_how_near_it_came() {
        let places: Vec<_> = (0..100).map(|step| (step as f32 * 0.5, 0.0)).collect();
        let found = find(&places);
        assert_eq!((found.boundary, found.share), (100, 0.0));
        let best = found.best.expect("it leaves places behind");
        assert!(best.value < best.due && best.to_string().contains('%'), "{best}");
        assert_eq!(find(&[]).boundary, 0);
        let still = find(&[(1.0, 0.0); 30]);
        assert_eq!((still.boundary, still.best), (30, None), "one who never leaves never returns");
    }

    #[test]
    fn looking_back_from_a_step_aside_sees_again_and_looking_elsewhere_does_not() {
        // Turns away, takes half a step, and looks back, or back and a quarter turn farther.
        let turned = |back: f32| {
            let away = (0..20).map(|step| (0.0, 0.1 * step as f32));
            let other = (0..20).map(move |step| (0.4, 1.9 + 0.1 * step as f32 * back));
            away.chain(other).collect::<Vec<_>>()
        };
        assert!(find(&turned(-1.0)).boundary < 40);
        assert_eq!(find(&turned(1.0)).boundary, 40);
    }

    #[test]
    fn pictures_stand_in_for_poses() {
        let picture = |frame: usize| {
            let shade = |x: u32| if (x / 8) as usize == frame % 8 { 220 } else { 30 };
            let pixels = (0..64 * 48).flat_map(|at| [shade(at % 64); 3]).collect();
            Ok(Picture { width: 64, height: 48, pixels })
        };
        // Eight different pictures, then the same eight again.
        let found = Revisit::find(&Comparison::of_pictures(16, picture).expect("pictures"));
        assert_eq!((found.boundary, found.share), (8, 1.0));
        let found = Revisit::find(&Comparison::of_pictures(8, picture).expect("pictures"));
        assert_eq!(found.boundary, 8);
        assert!(found.best.expect("all differ").value < 0.5);
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
