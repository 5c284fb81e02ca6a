//! One seeded scene for all pictures: a walk around a building that returns to its start.

use far_memory::{Camera, Cue, Error, Memory, Observation, Pose, RecallQuery, Schema, Snapshot};

/// Width and depth of the scene in meters.
pub const AREA: [f32; 2] = [24.0, 16.0];
/// How far a view reaches, in meters.
pub const REACH: f32 = 9.0;
/// Walls as [west, south, east, north].
pub const WALLS: [[f32; 4]; 4] = [
    [6.6, 5.2, 17.6, 10.6],
    [10.0, 0.0, 13.2, 1.3],
    [0.0, 8.6, 1.4, 11.4],
    [14.0, 14.8, 16.6, 16.0],
];
/// Numbers in a key.
pub const DIMENSION: usize = 4 * RAYS;

const MEMORIES: usize = 110;
const HORIZON: usize = 9;
/// Seconds between two memories.
const PERIOD: f64 = 0.5;
const RAYS: usize = 24;
const HEIGHT: f32 = 1.6;
/// The walk; it starts in the south-west, goes around the building and returns.
const WAYPOINTS: [[f32; 2]; 13] = [
    [1.6, 2.9],
    [5.5, 2.8],
    [10.0, 3.2],
    [15.0, 3.0],
    [19.5, 3.6],
    [21.6, 7.0],
    [20.6, 11.4],
    [16.0, 13.0],
    [11.0, 12.8],
    [6.0, 13.2],
    [3.6, 10.6],
    [3.4, 6.8],
    [2.2, 4.4],
];
/// Where the walk is about to go.
const AHEAD: [[f32; 2]; 4] = [[2.2, 4.4], [3.2, 3.2], [5.6, 2.7], [8.4, 2.9]];

/// The memory, the query and what the pictures show of them.
pub struct Scene {
    pub snapshot: Snapshot,
    pub query: RecallQuery,
    pub poses: Vec<Pose>,
    /// For each memory, the fraction of the goal's view that it shows, with occlusion by walls.
    pub utilities: Vec<f32>,
}

pub fn camera() -> Camera {
    Camera::from_degrees(80.0, 60.0)
}

pub fn build() -> Result<Scene, Error> {
    let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", DIMENSION)])?;
    let mut memory = Memory::new(schema);
    let mut poses = Vec::new();
    for index in 0..MEMORIES {
        let along = index as f32 / MEMORIES as f32;
        // The camera looks around during the walk.
        let glance = 0.75 * (along * 47.0).sin();
        let pose = pose_on(&WAYPOINTS, along, glance);
        let time = PERIOD * index as f64;
        memory.append(&Observation::new(time, pose).with_key("vision", &key(&pose)))?;
        poses.push(pose);
    }
    let now = pose_on(&AHEAD, 0.0, 0.0);
    let horizon: Vec<Pose> = (1..=HORIZON)
        .map(|step| pose_on(&AHEAD, 0.999 * step as f32 / HORIZON as f32, 0.0))
        .collect();
    let goal = horizon[HORIZON - 1];
    let query = RecallQuery::new(PERIOD * MEMORIES as f64, now, goal)
        .with_horizon(&horizon)
        .with_key("vision", &key(&now))
        .with_stride(4.0)
        .with_seed(7);
    let utilities = utilities(&poses, &horizon);
    Ok(Scene { snapshot: memory.snapshot(), query, poses, utilities })
}

/// The pose at a fraction of a smooth path (Catmull–Rom) through the points, turned by `glance`.
fn pose_on(points: &[[f32; 2]], share: f32, glance: f32) -> Pose {
    let segments = points.len() - 1;
    let place = share * segments as f32;
    let segment = (place as usize).min(segments - 1);
    let t = place - segment as f32;
    let point = |offset: usize| points[(segment + offset).saturating_sub(1).min(segments)];
    let (a, b, c, d) = (point(0), point(1), point(2), point(3));
    let curve = |axis: usize| {
        let (a, b, c, d) = (a[axis], b[axis], c[axis], d[axis]);
        let (first, second, third) =
            (c - a, 2.0 * a - 5.0 * b + 4.0 * c - d, 3.0 * (b - c) + d - a);
        let position = b + 0.5 * t * (first + t * (second + t * third));
        (position, 0.5 * (first + t * (2.0 * second + 3.0 * t * third)))
    };
    let ((x, dx), (y, dy)) = (curve(0), curve(1));
    Pose::from_yaw_pitch([x, y, HEIGHT], dy.atan2(dx) + glance, 0.0)
}

/// Key of a view: where its rays hit walls, as smooth functions of the position.
fn key(pose: &Pose) -> [f32; DIMENSION] {
    let mut key = [0.0; DIMENSION];
    for ray in 0..RAYS {
        let angle = camera().horizontal_field_of_view * ((ray as f32 + 0.5) / RAYS as f32 - 0.5);
        let (sin, cos) = (pose.yaw() + angle).sin_cos();
        let mut distance = 0.0;
        let mut end = [pose.position[0], pose.position[1]];
        while distance < 30.0 && !is_wall(end) {
            distance += 0.05;
            end = [pose.position[0] + distance * cos, pose.position[1] + distance * sin];
        }
        let [x, y] = end;
        let features =
            [(0.9 * x).sin(), (0.9 * y).sin(), (0.5 * (x + y)).cos(), (0.4 * x - y).cos()];
        key[4 * ray..4 * ray + 4].copy_from_slice(&features);
    }
    key
}

fn is_wall([x, y]: [f32; 2]) -> bool {
    let outside = x < 0.0 || y < 0.0 || x > AREA[0] || y > AREA[1];
    outside
        || WALLS.iter().any(|[west, south, east, north]| {
            (west..=east).contains(&&x) && (south..=north).contains(&&y)
        })
}

/// Whether a pose sees a point on the ground: in its field of view and reach, no wall between.
fn shows(pose: &Pose, place: [f32; 2]) -> bool {
    let [x, y] = [place[0] - pose.position[0], place[1] - pose.position[1]];
    let distance = x.hypot(y);
    let ahead = distance < REACH && camera().sees(pose, [place[0], place[1], HEIGHT]);
    let steps = (distance / 0.1) as usize;
    ahead
        && (0..steps).all(|step| {
            let share = step as f32 / steps as f32;
            !is_wall([pose.position[0] + share * x, pose.position[1] + share * y])
        })
}

fn utilities(poses: &[Pose], horizon: &[Pose]) -> Vec<f32> {
    let grid = (0..96 * 64).map(|cell| {
        [(cell % 96) as f32 * AREA[0] / 96.0 + 0.1, (cell / 96) as f32 * AREA[1] / 64.0 + 0.1]
    });
    let coming: Vec<[f32; 2]> =
        grid.filter(|&place| horizon.iter().any(|pose| shows(pose, place))).collect();
    let share = |pose: &Pose| {
        coming.iter().filter(|&&place| shows(pose, place)).count() as f32 / coming.len() as f32
    };
    poses.iter().map(share).collect()
}
