//! `dataset`: our own format, to decode the videos of a dataset once, or to cut, scale and split it anew.

use super::Format;
use crate::import::{
    Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording, RigidPose, Source,
};
use crate::{DataError, Dataset, Episode, ImageEncoding, ROBOT_ACTION, Result};

/// Datasets of this project.
pub const FORMAT: Format = Format {
    name: "dataset",
    about: "a dataset of this project, with pictures or video: times, poses, phases and columns of numbers",
    convention: Convention::OURS,
    read,
};

fn read(source: &Source, _: &ImportOptions) -> Result<Vec<Recording>> {
    let dataset = Dataset::open(source.path())?;
    let description = dataset.description();
    let view = description.field_of_view;
    let lens: Option<Lens> =
        format!("{}x{}", view.horizontal_degrees, view.vertical_degrees).parse().ok();
    let mut recordings = Vec::with_capacity(dataset.len());
    for id in dataset.ids() {
        let facts = dataset.summary(id)?.facts;
        let episode = dataset.episode(id)?;
        let (columns, frames) = frames(source, &episode)?;
        let mut recording = Recording::new(format!("episode {id}"), facts.scene, frames);
        recording.columns = columns;
        recording.split = Some(facts.split);
        recording.fps = Some(f64::from(description.fps));
        recording.lens = lens;
        recording.boundary = Some(episode.boundary());
        recording.route = facts.route;
        recording.tier = facts.tier;
        recordings.push(recording);
    }
    let lost = !description.signals.is_empty() || description.audio_rate.is_some();
    if let (true, Some(first)) = (lost, recordings.first_mut()) {
        first.notes.push("signals and sound of the dataset are not imported".into());
    }
    Ok(recordings)
}

/// Columns of numbers by name and width.
type Columns = Vec<(String, usize)>;

/// The frames of an episode, with the columns that the format does not know and that are numbers.
fn frames(source: &Source, episode: &Episode) -> Result<(Columns, Vec<RecordedFrame>)> {
    let mut numbers: Vec<_> = Vec::new();
    if let Some(commands) = &episode.description().robot_action {
        numbers.push((ROBOT_ACTION.to_owned(), commands.stored(episode)?));
    }
    let unknown = episode.unknown_columns().iter();
    numbers.extend(unknown.filter_map(|name| Some((name.clone(), episode.numbers(name).ok()?))));
    let mut frames = Vec::with_capacity(episode.len());
    for (index, &time) in episode.times().iter().enumerate() {
        let pose = episode.pose(index).map(|pose| {
            let rotation = pose.rotation.map(f64::from);
            RigidPose::from_quaternion(rotation, pose.position.map(f64::from))
        });
        let wrong = |reason| DataError::Episode { episode: episode.id(), reason };
        let pose = pose.transpose().map_err(wrong)?;
        let mut frame = RecordedFrame::new(time, pose, picture(source, episode, index)?);
        frame.numbers = numbers.iter().flat_map(|(_, column)| column.row(index)).copied().collect();
        frames.push(frame);
    }
    Ok((numbers.into_iter().map(|(name, column)| (name, column.width)).collect(), frames))
}

fn picture(source: &Source, episode: &Episode, frame: usize) -> Result<PictureSource> {
    let none = |reason: &str| DataError::Episode { episode: episode.id(), reason: reason.into() };
    match episode.description().images {
        ImageEncoding::Png | ImageEncoding::Jpeg | ImageEncoding::Raw => {
            Ok(PictureSource::Bytes(episode.picture_file(frame)?.into()))
        }
        ImageEncoding::Video => {
            let (path, frame) = episode
                .video_frame(frame)
                .ok_or_else(|| none("episodes.arrow names no video file for it"))?;
            // Its name comes from the index: it must not lead elsewhere.
            let name = path.strip_prefix(source.path()).unwrap_or(&path);
            Ok(PictureSource::Video { path: source.file(name)?.into(), frame })
        }
        ImageEncoding::None => Err(none("the dataset has no pictures")),
    }
}
