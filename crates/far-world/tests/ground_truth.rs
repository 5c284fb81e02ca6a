//! The ground truth of frames is correct: pixels, depth, faces, masks.

use std::sync::Arc;

use far_memory::{Camera, Pose};
use far_world::*;
use proptest::prelude::*;

/// A random small scene with voxels and props.
fn scene(seed: u32) -> Scene {
    let mut materials = MaterialSet::new(seed);
    let colors = [[0xa04030, 0xc0c0c0, 0x602010], [0x40a030, 0x204010, 0x90d060]];
    let ids = colors.map(|c| materials.add(Material::new(Surface::new(Pattern::Bricks, c))));
    let mut grid = VoxelGrid::new([20, 18, 12], 0.5, [-1.0, 2.0, -0.5]);
    grid.fill([0, 0, 0], [20, 18, 1], ids[0]);
    for z in 1..12 {
        for y in 0..18 {
            for x in 0..20 {
                if unit(x, y, z, seed) < 0.03 {
                    grid.set([x, y, z], ids[(x as usize + y as usize) % 2]);
                }
            }
        }
    }
    let at = |i: i32, axis: i32| unit(i, axis, 0, seed ^ 0x55);
    let shapes = [Shape::Block, Shape::Ball, Shape::Drum];
    let props = (0..9)
        .map(|i| {
            let center = [8.0 * at(i, 0), 3.0 + 7.0 * at(i, 1), 0.5 + 3.0 * at(i, 2)];
            let size = [0.3 + at(i, 3), 0.3 + at(i, 4), 0.3 + at(i, 5)];
            Prop::block(center, size, ids[i as usize % 2])
                .with_shape(shapes[i as usize % 3])
                .with_yaw(6.0 * at(i, 6))
                .with_object(i as u16 + 1)
        })
        .collect();
    let plan = StagePlan {
        grid,
        materials,
        light: Light::daylight(1.0, 0.8),
        sky: SkyLook::plain(Color::hex(0x80b0e0)),
        ground: None,
        haze: 0.002,
    };
    Scene::new(Arc::new(Stage::bake(plan, &[])), props)
}

/// Nearest voxel along a ray by testing every voxel of the grid: distance and face.
fn slow_voxel(grid: &VoxelGrid, origin: [f32; 3], direction: [f32; 3]) -> Option<(f64, [i32; 3])> {
    let mut best: Option<(f64, [i32; 3])> = None;
    let [nx, ny, nz] = grid.count().map(|n| n as i32);
    for z in 0..nz {
        for y in 0..ny {
            for x in 0..nx {
                if !grid.is_solid([x, y, z]) {
                    continue;
                }
                let low = grid.corner([x, y, z]);
                let (mut near, mut far) = (0.0f64, f64::INFINITY);
                for axis in 0..3 {
                    let slope = f64::from(direction[axis]);
                    let a = (f64::from(low[axis]) - f64::from(origin[axis])) / slope;
                    let b = a + f64::from(grid.voxel()) / slope;
                    near = near.max(a.min(b));
                    far = far.min(a.max(b));
                }
                if near < far && best.is_none_or(|(t, _)| near < t) {
                    best = Some((near, [x, y, z]));
                }
            }
        }
    }
    best
}

/// Nothing nearer than this is drawn, in meters of depth: an eye this close to a prop sees through
/// it.
const NEAR: f64 = 0.02;

/// Nearest prop by small steps along the ray, from the prop's own test of its inside. Props that
/// contain the ray at a depth of [`NEAR`] are not drawn; `ahead` is its depth per meter.
fn slow_prop(
    props: &[Prop],
    origin: [f32; 3],
    direction: [f32; 3],
    ahead: f64,
    limit: f64,
) -> Option<(f64, u16)> {
    let at = |t: f64| -> [f32; 3] {
        std::array::from_fn(|a| (f64::from(origin[a]) + f64::from(direction[a]) * t) as f32)
    };
    let drawn: Vec<&Prop> = props.iter().filter(|prop| !prop.contains(at(NEAR / ahead))).collect();
    let step = 0.004;
    let mut t = 0.03f64;
    while t < limit.min(20.0) {
        if let Some(prop) = drawn.iter().find(|prop| prop.contains(at(t))) {
            return Some((t, prop.object));
        }
        t += step;
    }
    None
}

const WIDTH: usize = 21;
const HEIGHT: usize = 15;

/// Pixels that differ between the two ray casters; `None` from inside a solid, where the result is
/// undefined.
fn differing_pixels(seed: u32, yaw: f32, pitch: f32, [x, y]: [f32; 2]) -> Option<usize> {
    let scene = scene(seed);
    let grid = scene.stage.grid();
    let eye = [x, y, 1.3];
    if grid.is_solid(grid.voxel_at(eye)) || scene.props.iter().any(|prop| prop.contains(eye)) {
        return None;
    }
    let pose = Pose::from_yaw_pitch(eye, yaw, pitch);
    let camera = Camera::from_degrees(80.0, 60.0);
    let mut frame = Frame::with_channels(Channels::ALL);
    Renderer::default().render(&scene, &pose, &camera, WIDTH, HEIGHT, &mut frame);
    let differs = |pixel: &usize| {
        let (row, column) = (pixel / WIDTH, pixel % WIDTH);
        let image = [
            (column as f32 + 0.5) / WIDTH as f32 * 2.0 - 1.0,
            (row as f32 + 0.5) / HEIGHT as f32 * 2.0 - 1.0,
        ];
        let direction = camera.ray(&pose, image);
        let voxel = slow_voxel(grid, eye, direction);
        let limit = voxel.map_or(f64::INFINITY, |(t, _)| t);
        let ahead: f32 = (0..3).map(|a| direction[a] * pose.forward()[a]).sum();
        let ahead = f64::from(ahead);
        let prop = slow_prop(&scene.props, eye, direction, ahead, limit);
        let wanted = prop.map_or(limit, |(t, _)| t) * ahead;
        let found = f64::from(frame.depth[*pixel]);
        let same_depth = found == wanted || (found - wanted).abs() < 0.02;
        let same_object = frame.objects[*pixel] == prop.map_or(0, |(_, object)| object);
        !(same_depth && same_object)
    };
    Some((0..WIDTH * HEIGHT).filter(differs).count())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn the_fast_caster_agrees_with_the_slow_one(
        seed in 0u32..1000, yaw in -3.1f32..3.1, pitch in -0.6f32..0.6, x in 0.5f32..7.5, y in 3.0f32..10.0,
    ) {
        let wrong = differing_pixels(seed, yaw, pitch, [x, y]);
        prop_assume!(wrong.is_some());
        // Rays that graze an edge may fall on either side of it.
        prop_assert!(wrong <= Some(4), "{wrong:?} of {} pixels differ", WIDTH * HEIGHT);
    }
}

#[test]
fn a_prop_that_the_eye_nearly_touches_is_seen_through_by_both() {
    let found = [
        differing_pixels(218, -2.501_487_5, 0.229_673_39, [1.929_844_4, 9.224_065]),
        differing_pixels(935, -0.945_132_14, 0.169_137_95, [4.100_693, 4.445_922]),
    ];
    assert!(found.iter().all(|wrong| wrong.is_some_and(|wrong| wrong <= 4)), "{found:?}");
}

#[test]
fn the_same_pose_gives_the_same_bytes() {
    let scene = scene(5);
    let camera = Camera::from_degrees(75.0, 75.0);
    let poses: Vec<Pose> =
        (0..6).map(|i| Pose::from_yaw_pitch([4.0, 6.0, 1.2], i as f32, 0.0)).collect();
    let render = |renderer: &mut Renderer, pose: &Pose| {
        let mut frame = Frame::with_channels(Channels::ALL);
        renderer.render(&scene, pose, &camera, 50, 37, &mut frame);
        (frame.rgb, frame.depth.iter().map(|d| d.to_bits()).collect::<Vec<_>>(), frame.faces)
    };
    let mut used = Renderer::default();
    for pose in &poses {
        let warm = render(&mut used, pose);
        assert_eq!(warm, render(&mut Renderer::default(), pose));
    }
}

#[test]
fn a_world_point_lands_on_its_pixel_in_a_recorded_village() {
    let village = world("village").unwrap();
    let recording = Recording::new(village, None, 3, 96).unwrap();
    let mut episode = village.episode(&recording, 1).unwrap();
    let mut studio = Studio::new(village.camera(), 96);
    let camera = description(village, &recording).camera();
    for index in (0..episode.course().poses.len()).step_by(40) {
        let pose = episode.frame(index, &mut studio).unwrap().pose.expect("a pose");
        let frame = studio.frame().clone();
        let field = episode.scene(index).stage.field();
        let mut checked = 0;
        for pixel in (0..96 * 96).step_by(37) {
            // Only the static grid: its hit point is known without the renderer.
            if !frame.depth[pixel].is_finite() || frame.objects[pixel] != 0 {
                continue;
            }
            let (column, row) = ((pixel % 96) as f32 + 0.5, (pixel / 96) as f32 + 0.5);
            let ray = camera.ray(&pose, [column / 48.0 - 1.0, row / 48.0 - 1.0]);
            let Some(hit) = field.cast(pose.position, ray, f32::INFINITY) else { continue };
            let point = std::array::from_fn(|a| pose.position[a] + ray[a] * hit.distance);
            let [x, y] = camera.project(&pose, point).expect("it was seen");
            assert!(((x + 1.0) * 48.0 - column).abs() < 0.02, "frame {index}");
            assert!(((y + 1.0) * 48.0 - row).abs() < 0.02, "frame {index}");
            let depth = pose.to_camera(point)[2];
            // A prop may stand in front of the voxel, never behind it.
            assert!(frame.depth[pixel] <= depth + 0.01 + 1e-3 * depth);
            checked += usize::from((frame.depth[pixel] - depth).abs() < 0.01 + 1e-3 * depth);
        }
        assert!(checked > 20, "frame {index}: only {checked} pixels of the grid");
    }
}
