//! The second agent: it waits at an end, walks to the other, waits there, and so on.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::hall::{End, Hall};

/// Meters per frame while walking: a crossing is visible through the doorway for nearly twice the
/// 1.5 s lag of the agent's state, so that the two states of a frame show its direction (decision
/// 110).
const STRIDE: f32 = 0.07;
/// Length of two steps in meters.
const GAIT: f32 = 1.5;

/// One walk from end to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crossing {
    /// First frame of the walk.
    pub start: usize,
    /// The end it leads to.
    pub to: End,
}

/// The agent's whole schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patrol {
    /// Frame at which the agent enters the corridor; before, it does not exist.
    pub arrival: usize,
    /// The end where it waits first.
    pub first: End,
    /// Its walks in order; each leads to the end opposite of the one before.
    pub crossings: Vec<Crossing>,
    /// Frames one walk takes.
    pub walk: usize,
    /// Whether there is no agent at all.
    pub absent: bool,
}

/// The agent at one frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stance {
    /// Floor point.
    pub foot: [f32; 2],
    /// Heading in radians.
    pub yaw: f32,
    /// Phase of the walk, 0 when standing.
    pub phase: f32,
    /// The crossing under way, if any.
    pub crossing: Option<usize>,
}

impl Patrol {
    /// Draws a schedule of one to five crossings that begins at frame `arrival`.
    pub fn draw(hall: &Hall, arrival: usize, random: &mut ChaCha8Rng) -> Self {
        let first = if random.random_bool(0.5) { End::West } else { End::East };
        let way = (hall.end(End::East)[0] - hall.end(End::West)[0]).abs();
        let walk = (way / STRIDE).ceil() as usize;
        let mut crossings = Vec::new();
        let (mut frame, mut to) = (arrival, first.other());
        for _ in 0..random.random_range(1..=5) {
            frame += random.random_range(14..40);
            crossings.push(Crossing { start: frame, to });
            frame += walk;
            to = to.other();
        }
        Self { arrival, first, crossings, walk, absent: false }
    }

    /// The frame after the last walk.
    pub fn end(&self) -> usize {
        self.crossings.last().map_or(self.arrival, |crossing| crossing.start + self.walk)
    }

    /// Where the agent is at a frame; `None` if it is absent.
    pub fn stance(&self, hall: &Hall, frame: usize) -> Option<Stance> {
        if self.absent || frame < self.arrival {
            return None;
        }
        let begun = self.crossings.iter().rposition(|crossing| crossing.start <= frame);
        let Some(index) = begun else { return Some(waiting(hall, self.first)) };
        let Crossing { start, to } = self.crossings[index];
        if frame >= start + self.walk {
            return Some(waiting(hall, to));
        }
        let (from, goal) = (hall.end(to.other()), hall.end(to));
        let share = (frame - start) as f32 / self.walk as f32;
        let foot: [f32; 2] =
            std::array::from_fn(|axis| from[axis] + share * (goal[axis] - from[axis]));
        let walked = (foot[0] - from[0]).abs();
        let phase = walked / GAIT * std::f32::consts::TAU;
        Some(Stance { foot, yaw: to.yaw(), phase, crossing: Some(index) })
    }

    /// The end where the agent is after frame `frame`; `None` if there is no agent.
    pub fn place(&self, frame: usize) -> Option<End> {
        let last = self.crossings.iter().rfind(|crossing| crossing.start <= frame);
        (!self.absent && frame >= self.arrival)
            .then(|| last.map_or(self.first, |crossing| crossing.to))
    }
}

/// Standing at an end, facing along the corridor.
fn waiting(hall: &Hall, end: End) -> Stance {
    Stance { foot: hall.end(end), yaw: end.other().yaw(), phase: 0.0, crossing: None }
}
