//! One kitchen: a room, its stations and its objects.

use std::ops::Range;
use std::sync::Arc;

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::furniture::Carpenter;
use super::object::{Object, ObjectKind};
use super::palette::Palette;
use super::room::{Berth, Room};
use super::state::{Contents, SpotNumber};
use super::station::{Station, StationKind};
use crate::{MaterialSet, Prop, Scene, Stage};

/// Containers and surfaces of a kitchen.
const CONTAINERS: usize = 4;
const SURFACES: usize = 4;

/// Number of the first object in object masks.
pub(crate) const FIRST_OBJECT: u16 = 1;

/// A kitchen with everything in it. [`Contents`] define what stands where.
#[derive(Clone, Debug)]
pub(crate) struct KitchenScene {
    stage: Arc<Stage>,
    /// All props; those of objects come last and are hidden.
    props: Vec<Prop>,
    pub stations: Vec<Station>,
    /// Station of every spot, and its index within the station.
    pub spots: Vec<(usize, usize)>,
    pub objects: Vec<Object>,
    /// Props of each object.
    parts: Vec<Range<usize>>,
}

impl KitchenScene {
    /// Draws a kitchen.
    pub fn draw(random: &mut ChaCha8Rng) -> Self {
        let mut set = MaterialSet::new(random.random());
        let palette = Palette::draw(&mut set, random);
        // Nearly every room has space for all stations; the others are drawn again.
        let (mut room, berths) = loop {
            let mut room = Room::draw(random);
            let berths: Option<Vec<_>> =
                choose_kinds(random).into_iter().map(|kind| room.berth(kind, random)).collect();
            if let Some(berths) = berths {
                break (room, berths);
            }
        };
        let mut props = Vec::new();
        room.decorate(&berths, &palette, random, &mut props);
        let build = |berth: &Berth| {
            let (palette, props, random) = (&palette, &mut props, &mut *random);
            Carpenter { palette, props, random, anchor: berth.anchor }.build(berth.kind)
        };
        let stations: Vec<Station> = berths.iter().map(build).collect();
        let own = |(number, station): (usize, &Station)| {
            (0..station.spots.len()).map(move |spot| (number, spot))
        };
        let spots = stations.iter().enumerate().flat_map(own).collect();

        let mut kinds = ObjectKind::ALL;
        kinds.shuffle(random);
        // The tomato of the paper's figure is in every kitchen.
        let tomato = kinds.iter().position(|&kind| kind == ObjectKind::Tomato).unwrap_or(0);
        kinds.swap(0, tomato);
        let count = random.random_range(7..=9);
        let objects: Vec<Object> =
            kinds[..count].iter().map(|&kind| Object::new(kind, &mut set)).collect();
        let mut parts = Vec::with_capacity(count);
        for (number, object) in objects.iter().enumerate() {
            let start = props.len();
            let mask = FIRST_OBJECT + number as u16;
            props.extend(object.props([0.0; 3], 0.0, mask).map(|p| Prop { visible: false, ..p }));
            parts.push(start..props.len());
        }
        let plan = room.stage(set, &palette, random);
        let stage = Arc::new(Stage::bake(plan, &props));
        Self { stage, props, stations, spots, objects, parts }
    }

    /// The scene with closed containers and no objects.
    pub fn empty(&self) -> Scene {
        Scene::new(Arc::clone(&self.stage), self.props.clone())
    }

    /// Station of a spot.
    pub fn station_of(&self, spot: SpotNumber) -> usize {
        self.spots[spot].0
    }

    /// Whether a spot is inside of a container.
    pub fn is_inside(&self, spot: SpotNumber) -> bool {
        self.stations[self.station_of(spot)].kind.is_container()
    }

    /// Sets up a scene: contents, and one station open by a fraction (all others closed).
    pub fn arrange(&self, scene: &mut Scene, contents: &Contents, open: Option<(usize, f32)>) {
        let fraction = |station: usize| match open {
            Some((acted, fraction)) if acted == station => fraction,
            _ => 0.0,
        };
        for (number, station) in self.stations.iter().enumerate() {
            for &index in &station.moving {
                scene.props[index].open = fraction(number);
            }
        }
        for index in self.parts.iter().cloned().flatten() {
            scene.props[index].visible = false;
        }
        for (spot, content) in contents.iter().enumerate() {
            let Some(object) = *content else { continue };
            let (number, index) = self.spots[spot];
            let station = &self.stations[number];
            // Nothing is drawn behind a closed door, so nothing shows through a gap.
            if station.kind.is_container() && fraction(number) == 0.0 {
                continue;
            }
            let foot = station.spots[index].foot(fraction(number));
            // Every object has its own angle, so that it looks the same everywhere.
            let turn = 0.35 * (object % 5) as f32 - 0.7;
            self.place(scene, object, foot, station.anchor.yaw() + turn);
        }
    }

    /// Shows an object that stands on `foot`, rotated by `yaw`.
    fn place(&self, scene: &mut Scene, object: usize, foot: [f32; 3], yaw: f32) {
        let range = self.parts[object].clone();
        let mask = FIRST_OBJECT + object as u16;
        for (index, prop) in range.zip(self.objects[object].props(foot, yaw, mask)) {
            scene.props[index] = prop;
        }
    }
}

/// A fridge, other containers and surfaces, in random order.
fn choose_kinds(random: &mut ChaCha8Rng) -> Vec<StationKind> {
    let mut containers = StationKind::CONTAINERS;
    containers[1..].shuffle(random);
    let mut surfaces = StationKind::SURFACES;
    surfaces.shuffle(random);
    let mut kinds = containers[..CONTAINERS].to_vec();
    kinds.extend(&surfaces[..SURFACES]);
    kinds.shuffle(random);
    kinds
}
