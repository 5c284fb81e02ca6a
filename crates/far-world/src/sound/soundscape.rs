//! Sources on a floor, and a listener who walks among them.

use super::arrival::{ARRIVALS, Arrival, Model, Surroundings};
use super::clip::Clip;
use super::floor::Floor;
use super::geodesic::{Corners, SoundPath, SourceField};
use super::tap::Tap;
use far_memory::Pose;
use std::sync::Arc;

/// Sound fades in and out over this many samples (5 ms) at the ends of a phase.
const FADE: usize = 80;

/// A source that plays a clip in a loop at one place.
#[derive(Clone, Debug)]
pub struct Source {
    /// X, Y and height above the floor in meters.
    pub position: [f32; 3],
    /// The clip.
    pub clip: Arc<Clip>,
    /// Amplitude at one meter, relative to the clip.
    pub gain: f32,
}

/// A floor with its sources, for any number of listeners.
#[derive(Clone, Debug)]
pub struct Soundscape {
    floor: Floor,
    ceiling: f32,
    model: Model,
    corners: Corners,
    sources: Vec<(Source, SourceField)>,
}

impl Soundscape {
    /// Places sources on a floor whose ceiling is at `ceiling` meters. A source inside a wall is
    /// not audible.
    pub fn new(floor: Floor, ceiling: f32, model: Model, sources: Vec<Source>) -> Self {
        let corners = Corners::new(&floor);
        let sources = sources
            .into_iter()
            .map(|source| {
                let [x, y, _] = source.position;
                let field = corners.field(&floor, [x, y]);
                (source, field)
            })
            .collect();
        Self { floor, ceiling, model, corners, sources }
    }

    /// The sources, in the order given.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = &Source> {
        self.sources.iter().map(|(source, _)| source)
    }

    /// The shortest path to one source from a point on the floor; `None` if walls leave none or no
    /// source has this index.
    pub fn path(&self, source: usize, listener: [f32; 2]) -> Option<SoundPath> {
        let mut seen = Vec::new();
        self.corners.in_sight(&self.floor, listener, &mut seen);
        let (_, field) = self.sources.get(source)?;
        self.corners.path(&self.floor, field, listener, &seen)
    }

    /// A listener with its buffers, for frames of `frame_samples`.
    pub fn listener(&self, frame_samples: usize) -> Listener<'_> {
        Listener {
            scape: self,
            seen: Vec::new(),
            voices: vec![Voice::default(); self.sources.len()],
            mix: [vec![0.0; frame_samples], vec![0.0; frame_samples]],
        }
    }
}

/// The state of one source at one head.
#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    /// The arrivals at the frame's start …
    from: [Arrival; ARRIVALS],
    /// … and at its end.
    to: [Arrival; ARRIVALS],
    taps: [Tap; ARRIVALS],
}

/// A head that moves through a [`Soundscape`].
#[derive(Debug)]
pub struct Listener<'a> {
    scape: &'a Soundscape,
    seen: Vec<(usize, f32)>,
    voices: Vec<Voice>,
    mix: [Vec<f32>; 2],
}

impl Listener<'_> {
    /// Renders a whole phase from silence: all sources restart their clips, the head moves evenly
    /// from each pose to the next and rests at the last, and samples, left and right in [−1, 1],
    /// are appended to `out`, one frame's worth per pose.
    ///
    /// The result depends on the poses alone, not on earlier calls. Samples beyond ±1 are clipped.
    pub fn hear(&mut self, poses: &[Pose], out: &mut Vec<[f32; 2]>) {
        let Some(first) = poses.first() else { return };
        let frame = self.mix[0].len();
        out.reserve(frame * poses.len());
        self.voices.fill(Voice::default());
        self.turn_to(first);
        for (index, pose) in poses.iter().enumerate() {
            let clock = (index * frame) as u64;
            self.frame(clock, poses.get(index + 1).unwrap_or(pose));
            if index == 0 {
                self.fade(|i| i);
            }
            if index + 1 == poses.len() {
                self.fade(|i| frame - 1 - i);
            }
            let [left, right] = &self.mix;
            let pairs = left.iter().zip(right);
            out.extend(pairs.map(|(&left, &right)| [left, right].map(|x| x.clamp(-1.0, 1.0))));
        }
    }

    /// Moves the head to a pose: the arrivals at the frame's end become those at its start.
    fn turn_to(&mut self, pose: &Pose) {
        let Soundscape { floor, corners, model, ceiling, sources } = self.scape;
        let [x, y, _] = pose.position;
        let listener = [x, y];
        // Nothing is audible inside a wall.
        let around = floor.is_open(listener).then(|| {
            corners.in_sight(floor, listener, &mut self.seen);
            Surroundings { walls: floor.walls_around(listener), ceiling: *ceiling }
        });
        for (voice, (source, field)) in self.voices.iter_mut().zip(sources) {
            voice.from = voice.to;
            voice.to = around
                .and_then(|around| {
                    let path = corners.path(floor, field, listener, &self.seen)?;
                    let height = source.position[2];
                    Some(model.arrivals(&path, source.gain, height, pose, &around))
                })
                .unwrap_or_default();
        }
    }

    /// Mixes one frame, at the end of which the head is at `next`.
    fn frame(&mut self, clock: u64, next: &Pose) {
        self.turn_to(next);
        let warp = self.scape.model.head.warp();
        self.mix.iter_mut().for_each(|ear| ear.fill(0.0));
        for (voice, (source, _)) in self.voices.iter_mut().zip(&self.scape.sources) {
            let clip = source.clip.padded();
            let arrivals = voice.from.iter().zip(&voice.to);
            for (tap, (from, to)) in voice.taps.iter_mut().zip(arrivals) {
                tap.add_frame(clip, clock, [from, to], warp, &mut self.mix);
            }
        }
    }

    /// Ramps the ends: `distance(i)` is sample i's distance from the silent end.
    fn fade(&mut self, distance: impl Fn(usize) -> usize) {
        for ear in &mut self.mix {
            for (i, sample) in ear.iter_mut().enumerate() {
                *sample *= (distance(i) as f32 / FADE as f32).min(1.0);
            }
        }
    }
}
