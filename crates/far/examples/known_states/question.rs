//! What is asked of each corpus, and which memories know.

use far_data::{ChangeKind, Dataset, Divergence, Episode, Signal, last_crossing};
use far_memory::{Pool, Recall, RecallQuery};
use far_model::{EncodedEpisode, Present, embed_queries};
use far_train::Workshop;
use far_world::Sight;
use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::sync::Arc;

/// A view that only some memories tell of.
pub struct Question {
    pub episode: Arc<EncodedEpisode>,
    pub query: RecallQuery,
    pub kind: &'static str,
    /// For each thing to be known, the memories that show it.
    pub witnesses: Vec<Vec<usize>>,
    /// Whether part of it counts in part.
    pub in_part: bool,
}

impl Question {
    /// How much of what is to be known these memories show, from 0 to 1.
    pub fn shown(&self, recall: &Recall) -> f64 {
        let seen = |frames: &&Vec<usize>| recall.ids().any(|id| frames.contains(&id.index()));
        let share = self.witnesses.iter().filter(seen).count() as f64 / self.witnesses.len() as f64;
        if self.in_part { share } else { share.floor() }
    }
}

/// What the queries of key cues are made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AsksFrom {
    /// The present, as ever.
    Present,
    /// The goal: its own key, as if one were there already.
    Goal,
}

/// What is asked of an episode.
struct Asked {
    frame: usize,
    goal: usize,
    kind: &'static str,
    witnesses: Vec<Vec<usize>>,
}

/// The changed views, each viewpoint of a return once, `stride` frames ahead.
fn changed_views(episode: &Episode, stride: usize) -> Result<Vec<Asked>, Box<dyn Error>> {
    let (mut viewpoints, mut found) = (BTreeSet::new(), Vec::new());
    for goal in episode.boundary() + stride..episode.len() {
        let changed = episode.is_changed(goal) && episode.pose_key(goal) >= 0;
        if !changed || !viewpoints.insert(episode.pose_key(goal)) {
            continue;
        }
        let Some(change) = episode.change(goal)? else { continue };
        let kind = match change.kind {
            ChangeKind::Surface => "surfaces",
            ChangeKind::Container => "containers",
        };
        found.push(Asked { frame: goal - stride, goal, kind, witnesses: episode.witnesses(goal) });
    }
    Ok(found)
}

/// The reveal of a counterfactual pair, which only memories of the deed tell; nothing where it has none.
fn histories(dataset: &Dataset, episode: &Episode) -> Result<Vec<Asked>, Box<dyn Error>> {
    let Some(pair) = dataset.summary(episode.id())?.facts.pair else {
        return Ok(Vec::new());
    };
    let other = dataset.episode(pair.episode)?;
    let divergence = Divergence::of(episode, &other);
    let asked = divergence.into_iter().map(|Divergence { current, goal, remembered }| Asked {
        frame: current,
        goal,
        kind: "histories",
        witnesses: vec![remembered],
    });
    Ok(asked.collect())
}

/// Both ends of a corridor, from where the return begins; nothing where nobody crossed.
fn crossings(episode: &Episode) -> Vec<Asked> {
    let witnesses = last_crossing(episode, episode.boundary());
    if witnesses.is_empty() {
        return Vec::new();
    }
    let mut viewpoints = BTreeSet::new();
    let goals = episode.boundary() + 1..episode.len();
    let ends = goals
        .filter(|goal| episode.pose_key(*goal) >= 0 && viewpoints.insert(episode.pose_key(*goal)));
    let (frame, kind) = (episode.boundary(), "crossings");
    ends.map(|goal| Asked { frame, goal, kind, witnesses: vec![witnesses.clone()] }).collect()
}

/// Views of the way back, `stride` frames ahead, doubled until `horizon`; to be known are the faces that
/// they see and some memory saw, apart by whether a wall stands before the goal.
fn views(
    dataset: &Dataset,
    episode: &Episode,
    [stride, horizon]: [usize; 2],
) -> Result<Vec<Asked>, Box<dyn Error>> {
    let sight = Sight::of_episode(dataset.description(), episode.id())?
        .ok_or("nobody knows where the walls of this corpus stand")?;
    let (poses, memories) = (episode.poses(), episode.boundary());
    let mut seen: HashMap<u32, Vec<usize>> = HashMap::new();
    for memory in 0..memories {
        for face in episode.visible_faces(memory) {
            seen.entry(*face).or_default().push(memory);
        }
    }
    let mut found = Vec::new();
    for frame in (memories..episode.len()).step_by(stride) {
        let strides = std::iter::successors(Some(stride), |stride| Some(2 * stride));
        let goals = strides.take_while(|stride| *stride <= horizon).map(|stride| frame + stride);
        for goal in goals.filter(|goal| *goal < episode.len()) {
            let faces = episode.visible_faces(goal).iter();
            let witnesses: Vec<_> = faces.filter_map(|face| seen.get(face).cloned()).collect();
            let hidden = sight.is_blocked(poses[frame].position, poses[goal].position);
            let kind = if hidden { "behind walls" } else { "in sight" };
            if !witnesses.is_empty() {
                found.push(Asked { frame, goal, kind, witnesses });
            }
        }
    }
    Ok(found)
}

/// The questions about some episodes.
pub fn questions(
    workshop: &Workshop,
    episodes: &[u32],
    asks_from: AsksFrom,
) -> Result<Vec<Question>, Box<dyn Error>> {
    let (data, config) = (workshop.data(), workshop.config());
    let (dataset, stride) = (data.dataset(), config.evaluation.stride as usize);
    let mut found = Vec::new();
    for id in episodes {
        let (recorded, episode) = (dataset.episode(*id)?, data.episode(*id)?);
        let has = |signal| recorded.description().has(signal);
        let in_part = !has(Signal::Agent) && !has(Signal::States);
        let asked = if has(Signal::Agent) {
            crossings(&recorded)
        } else if has(Signal::States) {
            let mut asked = changed_views(&recorded, stride)?;
            asked.extend(histories(dataset, &recorded)?);
            asked
        } else {
            views(dataset, &recorded, [stride, config.data.horizon as usize])?
        };
        for Asked { frame, goal, kind, witnesses } in asked {
            let mut query = [episode.recall_query(frame, goal, Pool::All)];
            let present = Present { episode: &episode, frame, goal, latent: episode.latent(frame) };
            embed_queries(data.encoders(), &workshop.scale(), &[present], &mut query)?;
            if asks_from == AsksFrom::Goal {
                for encoder in data.encoders() {
                    let key = encoder.keys(episode.input(encoder.cue(), goal))?;
                    query[0].set_key(encoder.cue(), &key);
                }
            }
            let ([query], episode) = (query, episode.clone());
            found.push(Question { episode, query, kind, witnesses, in_part });
        }
    }
    Ok(found)
}
