//! The script of an episode: a survey, interactions from canonical or offset viewpoints, a return.

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::scene::KitchenScene;
use super::state::{Chronicle, Contents, Interaction};
use super::track::{Moment, Stand, Tracker};

/// Stations that an episode visits, half of them containers.
const ROUTE: usize = 6;
/// Objects that are moved.
const MOVES: usize = 4;
/// Probability that an interaction is done from the canonical viewpoint, so that memory holds a
/// current view of it.
const FRESH: f64 = 0.4;
/// Probability of another view of a random station between two moves.
const GLANCE: f64 = 0.35;

/// Whether an object comes out of a container, and whether it goes into one.
type Errand = [bool; 2];

/// A planned episode.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub moments: Vec<Moment>,
    pub chronicle: Chronicle,
    /// Index of the first return frame.
    pub boundary: usize,
    /// The interaction that a counterfactual episode leaves out: the last object put into a
    /// container.
    pub pivot: usize,
}

impl Script {
    /// Plans an episode; `None` in the rare case that no object was put into a container.
    pub fn draw(kitchen: &KitchenScene, random: &mut ChaCha8Rng) -> Option<Self> {
        let route = choose_route(kitchen, random);
        let contents = choose_contents(kitchen, &route, random);
        let mut tracker = Tracker::new(kitchen, contents, route[0]);
        for &station in &route {
            tracker.inspect(station);
        }
        let mut errands: [Errand; 4] =
            [[false, true], [false, true], [true, false], [false, false]];
        errands.shuffle(random);
        let mut carried = Vec::new();
        for errand in errands.into_iter().take(MOVES) {
            if random.random_bool(GLANCE) {
                tracker.inspect(route[random.random_range(0..ROUTE)]);
            }
            move_object(kitchen, &route, errand, &mut tracker, &mut carried, random);
        }
        let boundary = tracker.moments.len();
        let mut back = route.clone();
        back.shuffle(random);
        for station in back {
            tracker.inspect(station);
        }
        let fills =
            |interaction: &Interaction| interaction.put && kitchen.is_inside(interaction.spot);
        let interactions = &tracker.chronicle.interactions;
        let pivot =
            interactions.iter().rposition(|interaction| interaction.as_ref().is_some_and(fills))?;
        Some(Self { moments: tracker.moments, chronicle: tracker.chronicle, boundary, pivot })
    }

    /// The episode without putting the pivotal object down: same path, and same frames from then
    /// until its container is opened again.
    pub fn counterfactual(mut self) -> Self {
        self.chronicle = self.chronicle.without(self.pivot);
        let done = |moment: &Moment| moment.version == self.pivot + 1;
        if let Some(moment) = self.moments.iter_mut().find(|moment| done(moment)) {
            moment.event = None;
        }
        self
    }
}

/// Half containers, half surfaces, in random order.
fn choose_route(kitchen: &KitchenScene, random: &mut ChaCha8Rng) -> Vec<usize> {
    let (mut containers, mut surfaces): (Vec<usize>, Vec<usize>) = (0..kitchen.stations.len())
        .partition(|&station| kitchen.stations[station].kind.is_container());
    containers.shuffle(random);
    surfaces.shuffle(random);
    let mut route = containers[..ROUTE / 2].to_vec();
    route.extend(&surfaces[..ROUTE / 2]);
    route.shuffle(random);
    route
}

/// Assigns the objects to the spots of the route, two of them to containers.
fn choose_contents(kitchen: &KitchenScene, route: &[usize], random: &mut ChaCha8Rng) -> Contents {
    let mut contents: Contents = vec![None; kitchen.spots.len()];
    let mut objects: Vec<usize> = (0..kitchen.objects.len()).collect();
    objects.shuffle(random);
    let mut open = Vec::new();
    let mut closed = Vec::new();
    for spot in (0..contents.len()).filter(|&spot| route.contains(&kitchen.station_of(spot))) {
        if kitchen.is_inside(spot) { &mut closed } else { &mut open }.push(spot);
    }
    open.shuffle(random);
    closed.shuffle(random);
    // At least one surface spot stays free for objects taken out of containers.
    let surface = open.len().saturating_sub(2).min(objects.len().saturating_sub(2));
    let chosen = closed.into_iter().take(2).chain(open.into_iter().take(surface));
    for (spot, object) in chosen.zip(objects) {
        contents[spot] = Some(object);
    }
    contents
}

/// Moves one object, not moved before, from one station to another.
fn move_object(
    kitchen: &KitchenScene,
    route: &[usize],
    [from_container, to_container]: Errand,
    tracker: &mut Tracker,
    carried: &mut Vec<usize>,
    random: &mut ChaCha8Rng,
) {
    let contents = tracker.chronicle.now().clone();
    let on_route = |spot: &usize| route.contains(&kitchen.station_of(*spot));
    let sources: Vec<(usize, usize)> = (0..contents.len())
        .filter(on_route)
        .filter(|&spot| kitchen.is_inside(spot) == from_container)
        .filter_map(|spot| Some((spot, contents[spot]?)))
        .filter(|(_, object)| !carried.contains(object))
        .collect();
    let Some(&(source, object)) = sources.choose(random) else { return };
    let goals: Vec<usize> = (0..contents.len())
        .filter(on_route)
        .filter(|&spot| kitchen.is_inside(spot) == to_container && contents[spot].is_none())
        .filter(|&spot| kitchen.station_of(spot) != kitchen.station_of(source))
        .collect();
    let Some(&goal) = goals.choose(random) else { return };
    carried.push(object);
    let mut stand = || if random.random_bool(FRESH) { Stand::Canonical } else { Stand::Reach };
    let (first, second) = (stand(), stand());
    tracker.act(Interaction { spot: source, object, put: false }, first);
    tracker.act(Interaction { spot: goal, object, put: true }, second);
}
