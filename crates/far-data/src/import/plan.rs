//! Everything that is decided before a byte is written: episodes, splits, boundaries, checks.

use std::ops::Range;
use std::path::Path;

use far_memory::{Camera, Pose};

use super::picture_reader::PictureReader;
use super::revisit::{Comparison, Likeness, view_rule};
use super::survey::{check_times, common_rate, fields_of_view, picture_rule};
use super::{
    Convention, Format, ImportOptions, PictureRule, Recording, ReturnRule, Revisit, Source, Window,
    deal,
};
use crate::{
    DataError, DatasetDescription, EpisodeFacts, Generator, PoseCheck, PoseReport, ROBOT_ACTION,
    Result, RobotAction, Split,
};

/// Version of the importer's behavior: the same version, source and options give the same bytes.
const VERSION: u32 = 2;

/// Recordings whose pictures are held against their poses at most, spread over the source: they
/// share a convention, and a source may have thousands.
const LOOKED_AT: usize = 16;

/// An import that is ready to be written.
pub struct ImportPlan {
    /// The dataset's description.
    pub description: DatasetDescription,
    /// Its episodes, by id.
    pub episodes: Vec<PlannedEpisode>,
    /// The check of every recording's poses, by name; empty without poses.
    pub reports: Vec<(String, PoseReport)>,
    /// What the person who imports should know.
    pub notes: Vec<String>,
    pub(super) recordings: Vec<Recording>,
    /// By recording; empty without poses.
    pub(super) poses: Vec<Vec<Pose>>,
    pub(super) rule: PictureRule,
}

/// An episode to be written.
#[derive(Clone, Debug)]
pub struct PlannedEpisode {
    /// Which recording it is cut from.
    pub recording: usize,
    /// Its frames in the recording.
    pub frames: Range<usize>,
    /// The first frame of the return, counted in the episode.
    pub boundary: usize,
    /// Share of the return that sees a place again, where it was looked for.
    pub share: Option<f64>,
    /// What the index says of it.
    pub facts: EpisodeFacts,
}

impl ImportPlan {
    /// Reads a source and decides.
    ///
    /// # Errors
    /// If the source or an option is refused, or the pictures contradict the poses.
    pub fn new(format: &Format, path: &Path, options: &ImportOptions) -> Result<Self> {
        let source = Source::open(path)?;
        let mut recordings = (format.read)(&source, options)?;
        let mut notes = Vec::new();
        for recording in &mut recordings {
            check_times(recording)?;
            if let Some(fps) = options.fps {
                recording.resample(fps);
            }
            notes.append(&mut recording.notes);
            if options.no_poses {
                recording.frames.iter_mut().for_each(|frame| frame.pose = None);
            }
        }
        recordings.retain(|recording| !recording.frames.is_empty());
        if recordings.is_empty() {
            return Err(source.refuse("", "there is no frame with a pose"));
        }
        let posed = has_poses(&recordings)?;
        let fps = common_rate(&recordings, options.fps)?;
        let rule = picture_rule(&recordings, options)?;
        let convention = options.convention.over(format.convention);
        let view = fields_of_view(&recordings, options, &rule, posed, &mut notes)?;
        let mut description = describe(format, &source, options, &convention, (fps, rule, view));
        if !posed {
            description = description.without_poses();
            notes.push(
                "the source has no camera poses: memories are told apart by time and by what they show"
                    .into(),
            );
        }
        let camera = description.camera();
        let mut poses = Vec::with_capacity(recordings.len());
        let mut reports = Vec::with_capacity(recordings.len());
        let looked_at = recordings.len().div_ceil(LOOKED_AT);
        let mut reader = PictureReader::default();
        for (index, recording) in recordings.iter().enumerate().filter(|_| posed) {
            let reader = index.is_multiple_of(looked_at).then_some(&mut reader);
            let (read, report) = check_poses(recording, &convention, camera, options, reader)?;
            poses.push(read);
            reports.push((recording.name.clone(), report));
        }
        description.overlap_radius = overlap_radius(&reports);
        let gap = fps.round().max(1.0) as usize;
        let (split_rule, windows) =
            deal(&recordings, options.window, options.test_share, options.seed, gap);
        description.splits = vec![split_rule];
        let mut likeness = Looked { recordings: &recordings, poses: &poses, camera, reader };
        let (episodes, best) = plan_episodes(&recordings, windows, options, &mut likeness)?;
        notes.extend(check_returns(&episodes, best)?);
        if let Some(commands) = commands(&recordings, &episodes) {
            let width = commands.width();
            notes.push(format!("`{ROBOT_ACTION}` ({width} numbers) conditions the world model"));
            description = description.with_robot_action(commands);
        }
        Ok(Self { description, episodes, reports, notes, recordings, poses, rule })
    }

    /// Frames of all episodes.
    pub fn frames(&self) -> u64 {
        self.episodes.iter().map(|episode| episode.frames.len() as u64).sum()
    }
}

/// Whether all frames have poses, or none.
fn has_poses(recordings: &[Recording]) -> Result<bool> {
    let mut posed = None;
    for recording in recordings {
        for (index, frame) in recording.frames.iter().enumerate() {
            if *posed.get_or_insert(frame.pose.is_some()) != frame.pose.is_some() {
                let reason = format!(
                    "frame {index} has {} pose, unlike those before: --no-poses leaves all out",
                    if frame.pose.is_some() { "a" } else { "no" }
                );
                return Err(DataError::Source { path: (&recording.name).into(), reason });
            }
        }
    }
    Ok(posed == Some(true))
}

/// What frames are held against each other by to find where a recording returns.
struct Looked<'a> {
    recordings: &'a [Recording],
    poses: &'a [Vec<Pose>],
    camera: Camera,
    reader: PictureReader,
}

impl Looked<'_> {
    /// Where some frames of a recording begin to see again what they saw.
    fn revisit(&mut self, recording: usize, frames: &Range<usize>) -> Result<Revisit> {
        if let Some(poses) = self.poses.get(recording) {
            let poses = &poses[frames.clone()];
            let rule = view_rule(poses, self.camera);
            return Ok(Revisit::find(&Comparison::of_views(poses, &rule)));
        }
        let frames = &self.recordings[recording].frames[frames.clone()];
        let picture = |frame: usize| self.reader.picture(&frames[frame].picture);
        Ok(Revisit::find(&Comparison::of_pictures(frames.len(), picture)?))
    }
}

/// What `dataset.json` says: everything that decides the bytes, so that another import conflicts.
fn describe(
    format: &Format,
    source: &Source,
    options: &ImportOptions,
    convention: &Convention,
    (fps, rule, view): (f64, PictureRule, [f32; 2]),
) -> DatasetDescription {
    let (kind, name) = (format.name, source.name());
    let mut description = DatasetDescription::new(&name, fps as f32, rule.stored, view);
    description.images = rule.encoding;
    description.generator = Generator {
        name: format!("import-{kind}"),
        version: VERSION,
        seed: options.seed,
        scenes: None,
    };
    description.provenance =
        format!("imported from {kind} \"{name}\" ({convention}; {})", options.summary());
    description.license.clone_from(&options.license);
    description
}

/// Episodes with their boundaries, and what most resembles something seen before.
fn plan_episodes(
    recordings: &[Recording],
    windows: Vec<Window>,
    options: &ImportOptions,
    looked: &mut Looked<'_>,
) -> Result<(Vec<PlannedEpisode>, Option<Likeness>)> {
    let mut episodes = Vec::with_capacity(windows.len());
    let mut best: Option<Likeness> = None;
    for Window { recording, frames, split } in windows {
        let source = &recordings[recording];
        let found =
            boundary(source, &frames, options.return_rule, || looked.revisit(recording, &frames))?;
        if found.best.is_some_and(|found| best.is_none_or(|best| found.value > best.value)) {
            best = found.best;
        }
        let mut facts = EpisodeFacts::new(&*source.scene, split, options.seed);
        facts.route.clone_from(&source.route);
        facts.tier = source.tier;
        let share = (found.share > 0.0).then_some(found.share);
        episodes.push(PlannedEpisode { recording, frames, boundary: found.boundary, share, facts });
    }
    if episodes.is_empty() {
        let reason = format!("no recording has {} frames", options.window.unwrap_or(1).div_ceil(2));
        return Err(DataError::Setting { setting: "--window", reason });
    }
    Ok((episodes, best))
}

/// What the commands of the training episodes are like, where all recordings have them.
fn commands(recordings: &[Recording], episodes: &[PlannedEpisode]) -> Option<RobotAction> {
    let mut places = recordings.iter().map(|recording| recording.place_of(ROBOT_ACTION));
    let place = places.next()??;
    if places.any(|own| own.as_ref() != Some(&place)) {
        return None;
    }
    let training = episodes.iter().filter(|episode| episode.facts.split == Split::Train);
    let place = &place;
    RobotAction::of(training.flat_map(move |episode| {
        let frames = &recordings[episode.recording].frames[episode.frames.clone()];
        frames.iter().map(move |frame| &frame.numbers[place.clone()])
    }))
}

/// Refuses a source that never returns; says so of single episodes.
fn check_returns(episodes: &[PlannedEpisode], best: Option<Likeness>) -> Result<Option<String>> {
    let without = episodes.iter().filter(|one| one.boundary >= one.frames.len()).count();
    if without == episodes.len() {
        let reason = match best {
            Some(best) => best.to_string(),
            None => "no camera ever looks away from what it saw first".into(),
        };
        return Err(DataError::NoReturn { reason });
    }
    let count = episodes.len();
    let note =
        || format!("{without} of {count} episodes see no place again: all their frames explore");
    Ok((without > 0).then(note))
}

/// The poses of a recording in our axes, checked against its pictures.
fn check_poses(
    recording: &Recording,
    convention: &Convention,
    camera: Camera,
    options: &ImportOptions,
    mut reader: Option<&mut PictureReader>,
) -> Result<(Vec<Pose>, PoseReport)> {
    let raw: Vec<_> = recording.frames.iter().filter_map(|frame| frame.pose).collect();
    let times: Vec<f64> = recording.frames.iter().map(|frame| frame.time).collect();
    let named = |reason: String, better: String| DataError::Poses {
        recording: recording.name.clone(),
        reason,
        better,
    };
    let poses = convention.convert(&raw).map_err(|reason| named(reason, String::new()))?;
    let check = PoseCheck { poses: &raw, convention: *convention, times: &times, camera };
    let report = match &mut reader {
        Some(reader) => check.run(Some(&mut |frame: usize| {
            let picture = reader.picture(&recording.frames[frame].picture)?;
            Ok(if options.square { picture.square() } else { picture })
        }))?,
        None => check.run(None)?,
    };
    if report.contradicted && !options.trust_poses {
        let better = report.better.clone().unwrap_or_default();
        let reason = match &report.warp {
            Some(warp) => format!(
                "the poses do not fit: {better} would. Neighboring frames turned by the poses: {:.1} dB \
                 alike, unturned {:.1} dB",
                warp.warped_db, warp.unwarped_db
            ),
            None => format!("the poses do not fit: {better} would"),
        };
        return Err(named(reason, report.options));
    }
    Ok((poses, report))
}

/// Views are compared within about the size of the place.
fn overlap_radius(reports: &[(String, PoseReport)]) -> f32 {
    let widest = reports.iter().map(|(_, report)| report.extent).fold(0.0, f64::max);
    (widest.clamp(3.0, 30.0) * 10.0).round() as f32 / 10.0
}

/// Where an episode begins to return.
fn boundary(
    recording: &Recording,
    frames: &Range<usize>,
    rule: ReturnRule,
    look: impl FnOnce() -> Result<Revisit>,
) -> Result<Revisit> {
    // A window that lies in the return altogether has nothing to remember by that boundary.
    let said = recording.boundary.filter(|boundary| *boundary > frames.start);
    let said = said.map(|boundary| (boundary - frames.start).min(frames.len()));
    let plain = |boundary| Revisit { boundary, share: 0.0, best: None };
    match (rule, said) {
        (ReturnRule::Last(share), _) => {
            let explore = (frames.len() as f64 * (1.0 - share)).round() as usize;
            Ok(plain(explore.clamp(1, frames.len())))
        }
        (ReturnRule::Column | ReturnRule::Automatic, Some(boundary)) => Ok(plain(boundary)),
        (ReturnRule::Column, None) if recording.boundary.is_some() => Ok(plain(frames.len())),
        (ReturnRule::Column, None) => Err(DataError::Setting {
            setting: "--return",
            reason: format!("{}: the source does not say where the return begins", recording.name),
        }),
        (ReturnRule::Automatic, None) => look(),
    }
}
