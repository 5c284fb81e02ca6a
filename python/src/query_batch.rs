//! A batch of queries as arrays.

use crate::failure::{Failure, Outcome};
use crate::key_rows::{GivenKeys, KeyRows};
use crate::pose_rows::Axes;
use far_memory::{MemoryId, Pool, Pose, RecallQuery, Schema};
use far_model::{ActionFeatures, ConditionScale};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// What `far_memory.Queries` hands over: n queries.
#[derive(FromPyObject)]
pub struct GivenQueries<'py> {
    /// The present of each query in seconds, [n].
    times: PyReadonlyArray1<'py, f64>,
    /// Where the camera is, [n, 16 or 7].
    poses: PyReadonlyArray2<'py, f64>,
    /// The poses of the coming frames, [n · horizon, 16 or 7]; the last of each query is its goal.
    goals: PyReadonlyArray2<'py, f64>,
    convention: Axes,
    keys: Vec<GivenKeys<'py>>,
    /// Seconds to the goal, [n].
    strides: PyReadonlyArray1<'py, f64>,
    /// For rules that draw, [n].
    seeds: PyReadonlyArray1<'py, u64>,
    /// Ids that may be recalled, or first and end of a run of them; all if absent.
    pool: Option<GivenPool<'py>>,
    pool_cap: Option<usize>,
}

/// Which records may be recalled, for all queries alike or one range each.
#[derive(FromPyObject)]
enum GivenPool<'py> {
    /// First and end for each query, [n, 2].
    Ranges(PyReadonlyArray2<'py, u64>),
    Ids(PyReadonlyArray1<'py, u64>),
}

/// Queries that were checked, without Python.
pub struct QueryBatch {
    queries: Vec<RecallQuery>,
}

impl QueryBatch {
    /// Checks the arrays against each other and the cues of a memory.
    pub fn new(given: &GivenQueries<'_>, schema: &Schema) -> Outcome<Self> {
        let times = flat(given.times.as_slice(), "the times")?;
        let count = times.len();
        let strides = flat(given.strides.as_slice(), "the strides")?;
        let seeds = flat(given.seeds.as_slice(), "the seeds")?;
        let poses = poses(&given.convention, &given.poses, "pose")?;
        let goals = poses_of_goals(given, count)?;
        for (what, found) in
            [("poses", poses.len()), ("strides", strides.len()), ("seeds", seeds.len())]
        {
            if found != count {
                return Err(misfit(what, found, count));
            }
        }
        let keys = KeyRows::all(&given.keys, schema, count)?;
        let pools = pools(given.pool.as_ref(), count)?;
        if given.pool_cap == Some(0) {
            return Err(Failure::input("the pool's cap is 0", "leave it out to search everything"));
        }
        let horizon = goals.len() / count.max(1);
        let mut queries = Vec::with_capacity(count);
        for row in 0..count {
            let ahead = &goals[row * horizon..(row + 1) * horizon];
            let goal = *ahead.last().expect("a horizon has a pose");
            let mut query = RecallQuery::new(times[row], poses[row], goal)
                .with_horizon(ahead)
                .with_stride(strides[row] as f32)
                .with_seed(seeds[row])
                .with_pool(pools.of(row));
            query.pool_cap = given.pool_cap;
            for keys in &keys {
                if let Some(key) = keys.row(row) {
                    query.set_key(keys.cue, key);
                }
            }
            query.check(schema)?;
            queries.push(query);
        }
        Ok(Self { queries })
    }

    /// The queries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &RecallQuery> {
        self.queries.iter()
    }
}

/// What each query is about to do, [n, 8]: the way to the goal as the camera at the present has it
/// (meters ahead, left and up, sine and cosine of turn and tilt) and the seconds it takes. Encoders of
/// queries read it.
#[pyfunction]
pub fn query_actions<'py>(
    py: Python<'py>,
    queries: GivenQueries<'py>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let poses = poses(&queries.convention, &queries.poses, "pose")?;
    let strides = flat(queries.strides.as_slice(), "the strides")?;
    let goals = poses_of_goals(&queries, poses.len())?;
    if strides.len() != poses.len() {
        return Err(misfit("strides", strides.len(), poses.len()).into());
    }
    let horizon = goals.len() / poses.len().max(1);
    let scale = ConditionScale { length: 1.0, time: 1.0 };
    let mut actions = Array2::zeros((poses.len(), ActionFeatures::LENGTH));
    for (row, mut action) in actions.rows_mut().into_iter().enumerate() {
        let way = goals[(row + 1) * horizon - 1].displacement_from(&poses[row]);
        let features = ActionFeatures::new(&scale, way, strides[row] as f32, &[]);
        action.iter_mut().zip(features.displacement()).for_each(|(slot, value)| *slot = *value);
    }
    Ok(actions.into_pyarray(py))
}

fn poses_of_goals(given: &GivenQueries<'_>, count: usize) -> Outcome<Vec<Pose>> {
    let goals = poses(&given.convention, &given.goals, "goal")?;
    if count > 0 && (goals.is_empty() || !goals.len().is_multiple_of(count)) {
        return Err(misfit("goals", goals.len(), count));
    }
    Ok(goals)
}

/// Pools of the queries.
enum Pools {
    Same(Pool),
    Ranges(Vec<std::ops::Range<usize>>),
}

impl Pools {
    fn of(&self, row: usize) -> Pool {
        match self {
            Self::Same(pool) => pool.clone(),
            Self::Ranges(ranges) => Pool::Range(ranges[row].clone()),
        }
    }
}

fn pools(given: Option<&GivenPool<'_>>, count: usize) -> Outcome<Pools> {
    Ok(match given {
        None => Pools::Same(Pool::All),
        Some(GivenPool::Ids(ids)) => {
            let ids = flat(ids.as_slice(), "the pool's ids")?;
            Pools::Same(Pool::ids(ids.iter().map(|id| MemoryId(*id))))
        }
        Some(GivenPool::Ranges(ranges)) => {
            if ranges.shape() != [count, 2] {
                return Err(Failure::input(
                    format!("the pool has shape {:?} instead of [{count}, 2]", ranges.shape()),
                    "give one pair of first id and end for each query",
                ));
            }
            let ends = flat(ranges.as_slice(), "the pool's ranges")?;
            Pools::Ranges(
                ends.chunks_exact(2).map(|pair| pair[0] as usize..pair[1] as usize).collect(),
            )
        }
    })
}

/// The poses of an array.
pub fn poses(axes: &Axes, rows: &PyReadonlyArray2<'_, f64>, what: &str) -> Outcome<Vec<Pose>> {
    axes.poses(flat(rows.as_slice(), what)?, rows.shape()[1], what)
}

/// The numbers of an array that lie one after the other.
pub fn flat<'a, T>(slice: Result<&'a [T], numpy::AsSliceError>, what: &str) -> Outcome<&'a [T]> {
    slice.map_err(|_| {
        Failure::input(
            format!("{what} do not lie one after the other"),
            "pass numpy.ascontiguousarray(…)",
        )
    })
}

/// Rows that are not as many as there should be.
pub fn misfit(what: &str, found: usize, expected: usize) -> Failure {
    Failure::input(
        format!("there are {found} {what} for {expected} times"),
        "give one row for each record or query",
    )
}
