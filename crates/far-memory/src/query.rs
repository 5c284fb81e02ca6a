//! The query of a recall. It has no field for the next observation, so recall cannot see the
//! future.

use crate::{Displacement, Error, Pool, Pose, Schema};

/// The present, the intended action and where to search.
///
/// ```
/// use far_memory::{Pose, RecallQuery};
/// let goal = Pose::from_yaw_pitch([1.0, 0.0, 0.0], 0.5, 0.0);
/// let query = RecallQuery::new(12.0, Pose::identity(), goal)
///     .with_key("vision", &[0.6, 0.8])
///     .with_stride(0.2);
/// assert!((query.action.forward - 1.0).abs() < 1e-6);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RecallQuery {
    /// The present time in seconds, on the clock of the records.
    pub time: f64,
    /// The camera's pose now, where it is known.
    pub pose: Option<Pose>,
    /// The action, in the level frame of the current pose.
    pub action: Displacement,
    /// Seconds from now to the goal (Δt).
    pub stride: f32,
    /// Which records may be recalled.
    pub pool: Pool,
    /// Search at most this many records of the pool, evenly spaced.
    pub pool_cap: Option<usize>,
    /// For policies that draw at random.
    pub seed: u64,
    horizon: Vec<Pose>,
    keys: Vec<(String, Vec<f32>)>,
}

impl RecallQuery {
    /// A query over all records, from the present to a goal pose. The action is the displacement to
    /// the goal, the stride is 0 and the seed is 0.
    pub fn new(time: f64, pose: Pose, goal: Pose) -> Self {
        Self {
            time,
            pose: Some(pose),
            action: goal.displacement_from(&pose),
            stride: 0.0,
            pool: Pool::All,
            pool_cap: None,
            seed: 0,
            horizon: vec![goal],
            keys: Vec::new(),
        }
    }

    /// A query where no pose is known: rules that look at poses refuse it, a retriever goes by time,
    /// action and keys. The action is given as it was intended.
    pub fn without_pose(time: f64, action: Displacement) -> Self {
        let known = Self::new(time, Pose::identity(), Pose::identity());
        Self { pose: None, action, horizon: Vec::new(), ..known }
    }

    /// Sets the poses of the coming frames, in order; the last is the goal. An empty list leaves
    /// the horizon as it is.
    pub fn with_horizon(mut self, poses: &[Pose]) -> Self {
        self.set_horizon(poses);
        self
    }

    /// Sets the query embedding of a key cue.
    pub fn with_key(mut self, cue: &str, embedding: &[f32]) -> Self {
        self.set_key(cue, embedding);
        self
    }

    /// Sets the seconds from now to the goal.
    pub fn with_stride(mut self, seconds: f32) -> Self {
        self.stride = seconds;
        self
    }

    /// Sets the pool.
    pub fn with_pool(mut self, pool: Pool) -> Self {
        self.pool = pool;
        self
    }

    /// Sets the cap of the pool.
    pub fn with_pool_cap(mut self, cap: usize) -> Self {
        self.pool_cap = Some(cap);
        self
    }

    /// Sets the seed.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Replaces the poses of the coming frames, without allocating if they fit; see
    /// [`with_horizon`](Self::with_horizon).
    pub fn set_horizon(&mut self, poses: &[Pose]) {
        if !poses.is_empty() {
            poses.clone_into(&mut self.horizon);
        }
    }

    /// Replaces the query embedding of a cue, without allocating if the cue already has one.
    pub fn set_key(&mut self, cue: &str, embedding: &[f32]) {
        match self.keys.iter_mut().find(|(name, _)| name == cue) {
            Some((_, values)) => {
                embedding.clone_into(values);
            }
            None => self.keys.push((cue.to_owned(), embedding.to_vec())),
        }
    }

    /// Removes the query embedding of a cue, for example when its sensor has no data.
    pub fn remove_key(&mut self, cue: &str) {
        self.keys.retain(|(name, _)| name != cue);
    }

    /// The pose to be predicted; `None` in a query without poses.
    pub fn goal(&self) -> Option<&Pose> {
        self.horizon.last()
    }

    /// The current pose and the goal, where both are known.
    pub fn way(&self) -> Option<[&Pose; 2]> {
        Some([self.pose.as_ref()?, self.goal()?])
    }

    /// The poses of the coming frames; the last is the goal. Empty in a query without poses.
    pub fn horizon(&self) -> &[Pose] {
        &self.horizon
    }

    /// The query embedding of a cue, as given by the caller's encoder; `None` if there is none.
    pub fn key(&self, cue: &str) -> Option<&[f32]> {
        self.keys.iter().find(|(name, _)| name == cue).map(|(_, values)| values.as_slice())
    }

    /// Checks the query against the cues of a memory.
    ///
    /// # Errors
    /// [`Error::Query`] for numbers that are not finite, [`Error::UnknownCue`] and
    /// [`Error::Dimension`] for embeddings that do not fit the schema.
    pub fn check(&self, schema: &Schema) -> Result<(), Error> {
        let refuse = |reason: &str| Err(Error::Query { reason: reason.to_owned() });
        let Displacement { forward, left, up, turn, tilt } = self.action;
        if !self.time.is_finite() || !self.stride.is_finite() {
            return refuse("its time or stride is not finite");
        }
        if self.pose.is_none() != self.horizon.is_empty() {
            return refuse(
                "it has a current pose without a goal, or a goal without a current pose",
            );
        }
        if !self.pose.iter().chain(&self.horizon).all(Pose::is_valid) {
            return refuse("a pose is not finite or its quaternion does not have unit length");
        }
        if ![forward, left, up, turn, tilt].iter().all(|value| value.is_finite()) {
            return refuse("its action is not finite");
        }
        for (name, values) in &self.keys {
            let index = schema.index(name)?;
            let Some((_, _, dimension, _)) = schema.keys().find(|key| key.0 == index) else {
                return refuse("the metadata cue takes no query embedding");
            };
            if dimension != values.len() {
                let (cue, found) = (name.clone(), values.len());
                return Err(Error::Dimension { cue, expected: dimension, found });
            }
            if !values.iter().all(|value| value.is_finite()) {
                return Err(Error::Query {
                    reason: format!(
                        "the embedding of cue {name:?} has a number that is not finite"
                    ),
                });
            }
        }
        Ok(())
    }
}
