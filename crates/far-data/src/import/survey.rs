//! What all recordings of a source have in common: rate, size of pictures, field of view.

use rayon::prelude::*;

use super::picture_reader::declared_size;
use super::{ImportOptions, Lens, PictureRule, PictureSource, Recording};
use crate::{DataError, ImageEncoding, Result};

/// Fields of view that differ by more than this are worth a note, in degrees.
const VIEW_SPREAD: f32 = 1.0;

/// What a camera of which nobody says anything is noted to see, in degrees: without poses nothing is
/// computed of it.
const UNKNOWN_VIEW: Lens = Lens::Horizontal(60.0);

/// Times must be finite and ascend.
pub(super) fn check_times(recording: &Recording) -> Result<()> {
    let times = recording.frames.iter().map(|frame| frame.time);
    let mut last = f64::NEG_INFINITY;
    for (frame, time) in times.enumerate() {
        if !time.is_finite() || time <= last {
            let reason = format!("frame {frame}: time {time} does not come after {last}");
            return Err(DataError::Source { path: (&recording.name).into(), reason });
        }
        last = time;
    }
    Ok(())
}

/// The frames per second that all recordings share.
pub(super) fn common_rate(recordings: &[Recording], wanted: Option<f64>) -> Result<f64> {
    let rates: Vec<f64> = recordings.iter().filter_map(Recording::rate).collect();
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    let wrong = |reason: String| DataError::Setting { setting: "--fps", reason };
    match wanted {
        _ if rates.is_empty() => Err(wrong("no recording has two frames".into())),
        Some(fps) if low < 0.9 * fps => {
            Err(wrong(format!("a recording has {low:.2} frames per second")))
        }
        Some(fps) => Ok(fps),
        None if high > 1.1 * low => Err(wrong(format!(
            "recordings have {low:.2} to {high:.2} frames per second: say what to keep"
        ))),
        // Times are rarely exact to more digits.
        None => Ok((rates[0] * 1000.0).round() / 1000.0),
    }
}

/// One size for all pictures, each of which is asked.
pub(super) fn picture_rule(
    recordings: &[Recording],
    options: &ImportOptions,
) -> Result<PictureRule> {
    let mut size = None;
    let mut jpeg = true;
    for recording in recordings {
        // Frames of one video share their size; the decoder is asked once.
        let asked: Vec<&PictureSource> = match &recording.frames[0].picture {
            PictureSource::Video { .. } => vec![&recording.frames[0].picture],
            _ => recording.frames.iter().map(|frame| &frame.picture).collect(),
        };
        let is_jpeg = |source: &&PictureSource| match source {
            PictureSource::File(path) => {
                path.extension().is_some_and(|e| e == "jpg" || e == "jpeg")
            }
            PictureSource::Bytes(bytes) => bytes.starts_with(&[0xff, 0xd8]),
            PictureSource::Video { .. } => false,
        };
        jpeg &= asked.iter().all(is_jpeg);
        let sizes: Vec<[u32; 2]> =
            asked.par_iter().map(|source| declared_size(source)).collect::<Result<_>>()?;
        let due = *size.get_or_insert(sizes[0]);
        if let Some(other) = sizes.iter().position(|size| *size != due) {
            let reason = format!(
                "picture {other} is {:?} pixels, the first of the source {due:?}",
                sizes[other]
            );
            return Err(DataError::Source { path: (&recording.name).into(), reason });
        }
    }
    let size = size.unwrap_or([1, 1]);
    let kept = if options.square { [size[0].min(size[1]); 2] } else { size };
    let stored = options.resize.unwrap_or(kept);
    let encoding = if jpeg && stored == size { ImageEncoding::Jpeg } else { ImageEncoding::Png };
    Ok(PictureRule { size, square: options.square, stored, encoding })
}

/// The field of view that stands for all recordings: the median one.
pub(super) fn fields_of_view(
    recordings: &[Recording],
    options: &ImportOptions,
    rule: &PictureRule,
    posed: bool,
    notes: &mut Vec<String>,
) -> Result<[f32; 2]> {
    let kept = if rule.square { [rule.size[0].min(rule.size[1]); 2] } else { rule.size };
    let mut views = Vec::with_capacity(recordings.len());
    let mut off_center = 0f64;
    for recording in recordings {
        let guess = || (!posed).then_some(UNKNOWN_VIEW);
        let lens =
            options.lens.or(recording.lens).or_else(guess).ok_or_else(|| DataError::Setting {
                setting: "--fov",
                reason: format!("{}: the source does not say what the camera sees", recording.name),
            })?;
        off_center = off_center.max(lens.off_center());
        views.push(lens.angles(rule.size, kept));
    }
    views.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let spread = views[views.len() - 1][0] - views[0][0];
    if spread > VIEW_SPREAD {
        notes.push(format!(
            "fields of view differ by {spread:.1} degrees; the dataset has the median"
        ));
    }
    if off_center > 0.05 {
        notes.push(format!(
            "the principal point is {:.0} % off the middle, where the dataset takes it to be",
            100.0 * off_center
        ));
    }
    Ok(views[views.len() / 2])
}
