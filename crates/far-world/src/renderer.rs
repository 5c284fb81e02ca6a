//! Renders a scene from a pose: one ray per pixel, two more at visible edges.

use far_memory::{Camera, Pose};

use crate::color::Color;
use crate::frame::Frame;
use crate::scene::Scene;
use crate::shade::{Ray, Shader, Surfel};
use crate::solid::{Screen, Solid};
use crate::vector::{Vector, add, scale};

/// Pixels along one edge of a screen tile; each tile lists the solids that may cover it.
const TILE: usize = 8;
/// Additional rays of a pixel at an edge, in pixels from its center.
const EXTRA: [[f32; 2]; 2] = [[-0.25, -0.3], [0.25, 0.3]];

/// Renders scenes; reuses its buffers between frames. Use one per thread.
#[derive(Debug, Default)]
pub struct Renderer {
    solids: Vec<Solid>,
    tiles: Vec<Vec<u16>>,
    surfels: Vec<Surfel>,
    light: Vec<Vector>,
    /// Pixels at visible edges.
    edges: Vec<u32>,
}

/// The pinhole camera of one frame.
#[derive(Clone, Copy, Debug)]
struct Pinhole {
    /// Direction of the image's upper left corner; its component along the viewing direction is 1.
    corner: Vector,
    /// Change of direction per pixel rightward and downward.
    step: [Vector; 2],
}

impl Pinhole {
    #[inline]
    fn direction(&self, x: f32, y: f32) -> Vector {
        add(self.corner, add(scale(self.step[0], x), scale(self.step[1], y)))
    }
}

/// Whether two lights differ enough that a jagged edge between them would be visible.
fn contrast(a: Vector, b: Vector) -> bool {
    (0..3).any(|channel| (a[channel] - b[channel]).abs() > 0.2 * (a[channel] + b[channel]) + 0.004)
}

impl Renderer {
    /// Renders the view from `pose` into `frame`, with the channels that the frame has. The same
    /// scene, pose, camera and size give the same bytes.
    pub fn render(
        &mut self,
        scene: &Scene,
        pose: &Pose,
        camera: &Camera,
        width: usize,
        height: usize,
        frame: &mut Frame,
    ) {
        frame.resize(width, height);
        let (right, down, forward) = (pose.right(), pose.down(), pose.forward());
        let tangent = camera.half_tangents();
        let size = [width as i32, height as i32];
        let screen = Screen { eye: pose.position, right, down, forward, tangent, size };
        let step = [
            scale(right, 2.0 * tangent[0] / width as f32),
            scale(down, 2.0 * tangent[1] / height as f32),
        ];
        let corner = add(forward, add(scale(right, -tangent[0]), scale(down, -tangent[1])));
        let pinhole = Pinhole { corner, step };
        self.place(scene, &screen);

        let pixel_width = 2.0 * tangent[0] / width as f32;
        let shader = Shader::new(scene, pose.position, pixel_width);
        self.surfels.resize(width * height, Surfel::default());
        self.light.resize(width * height, [0.0; 3]);
        let columns = width.div_ceil(TILE);
        for y in 0..height {
            for column in 0..columns {
                let tile = &self.tiles[y / TILE * columns + column];
                let rays: [Ray; TILE] = std::array::from_fn(|lane| {
                    let x = (column * TILE + lane) as f32;
                    Ray::new(pinhole.direction(x + 0.5, y as f32 + 0.5))
                });
                let voxels = shader.voxels(&rays);
                // The last tile of a row may stick out of the picture.
                let inside = width - column * TILE;
                for (lane, (ray, voxel)) in rays.iter().zip(voxels).take(inside).enumerate() {
                    let x = column * TILE + lane;
                    let pixel = [x as i32, y as i32];
                    let surfel = shader.look(ray, voxel, &self.solids, tile, pixel);
                    self.light[y * width + x] = shader.light(ray, &surfel, &self.solids);
                    self.surfels[y * width + x] = surfel;
                }
            }
        }
        self.smooth(&shader, &pinhole, width, height);
        for (pixel, light) in frame.rgb.chunks_exact_mut(3).zip(&self.light) {
            pixel.copy_from_slice(&Color::from_light(*light).0);
        }
        self.write_truth(&shader, frame);
    }

    /// Prepares the solids of this frame and sorts them into screen tiles, nearest first.
    fn place(&mut self, scene: &Scene, screen: &Screen) {
        self.solids.clear();
        for (index, prop) in scene.props.iter().enumerate() {
            self.solids.extend(Solid::of_prop(index, prop, screen));
        }
        for (index, person) in scene.people.iter().enumerate() {
            Solid::of_person(index, person, screen, &mut self.solids);
        }
        self.solids.sort_unstable_by(|a, b| {
            a.near.total_cmp(&b.near).then(a.number.cmp(&b.number)).then_with(|| {
                let key = |solid: &Solid| solid.placement.center.map(f32::to_bits);
                key(a).cmp(&key(b))
            })
        });
        let [columns, rows] = screen.size.map(|pixels| (pixels as usize).div_ceil(TILE));
        self.tiles.resize_with(columns * rows, Vec::new);
        self.tiles.iter_mut().for_each(Vec::clear);
        for (index, solid) in self.solids.iter().enumerate() {
            let [left, top, right, bottom] = solid.bounds.map(|pixel| pixel as usize);
            for row in top / TILE..bottom.div_ceil(TILE) {
                for column in left / TILE..right.div_ceil(TILE) {
                    self.tiles[row * columns + column].push(index as u16);
                }
            }
        }
    }

    /// Averages additional rays into the pixels whose neighbors show another surface.
    fn smooth(&mut self, shader: &Shader, pinhole: &Pinhole, width: usize, height: usize) {
        self.edges.clear();
        for y in 0..height {
            for x in 0..width {
                let at = y * width + x;
                let (edge, light) = (self.surfels[at].edge, self.light[at]);
                let differs = |other: usize| {
                    self.surfels[other].edge != edge && contrast(self.light[other], light)
                };
                if x > 0 && differs(at - 1)
                    || x + 1 < width && differs(at + 1)
                    || y > 0 && differs(at - width)
                    || y + 1 < height && differs(at + width)
                {
                    self.edges.push(at as u32);
                }
            }
        }
        let columns = width.div_ceil(TILE);
        for group in self.edges.chunks(TILE / EXTRA.len()) {
            // The last group may be short: it repeats its last pixel and drops the results.
            let pixel = |lane: usize| {
                let at = group[(lane / EXTRA.len()).min(group.len() - 1)] as usize;
                [at % width, at / width]
            };
            let rays: [Ray; TILE] = std::array::from_fn(|lane| {
                let ([x, y], [dx, dy]) = (pixel(lane), EXTRA[lane % EXTRA.len()]);
                Ray::new(pinhole.direction(x as f32 + 0.5 + dx, y as f32 + 0.5 + dy))
            });
            let voxels = shader.voxels(&rays);
            for (number, &at) in group.iter().enumerate() {
                let first = number * EXTRA.len();
                let [x, y] = pixel(first);
                let tile = &self.tiles[y / TILE * columns + x / TILE];
                let mut sum = self.light[at as usize];
                for lane in first..first + EXTRA.len() {
                    let pixel = [x as i32, y as i32];
                    let surfel = shader.look(&rays[lane], voxels[lane], &self.solids, tile, pixel);
                    sum = add(sum, shader.light(&rays[lane], &surfel, &self.solids));
                }
                self.light[at as usize] = scale(sum, 1.0 / (1.0 + EXTRA.len() as f32));
            }
        }
    }

    fn write_truth(&self, shader: &Shader, frame: &mut Frame) {
        for (depth, surfel) in frame.depth.iter_mut().zip(&self.surfels) {
            *depth = surfel.distance;
        }
        for (object, surfel) in frame.objects.iter_mut().zip(&self.surfels) {
            *object = surfel.object(&self.solids);
        }
        for (face, surfel) in frame.faces.iter_mut().zip(&self.surfels) {
            *face = shader.face_number(surfel, &self.solids);
        }
    }
}
