//! Contents of the spots, and the interactions that change them.

use super::scene::KitchenScene;
use crate::Scene;

/// A spot of the whole kitchen, counted over all stations in order.
pub(crate) type SpotNumber = usize;

/// The station of every spot of a kitchen.
#[derive(Clone, Debug)]
pub(crate) struct SpotTable {
    /// Station and index within the station, per spot.
    pub places: Vec<(usize, usize)>,
}

impl SpotTable {
    /// All spots of a kitchen.
    pub fn new(scene: &KitchenScene) -> Self {
        let places = scene
            .stations
            .iter()
            .enumerate()
            .flat_map(|(station, own)| (0..own.spots.len()).map(move |spot| (station, spot)))
            .collect();
        Self { places }
    }

    /// Station of a spot.
    pub fn station(&self, spot: SpotNumber) -> usize {
        self.places[spot].0
    }
}

/// Content of every spot: an object's number or none. Carried objects are on no spot.
pub(crate) type Contents = Vec<Option<usize>>;

/// One interaction: an object taken from a spot, or put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interaction {
    /// The spot.
    pub spot: SpotNumber,
    /// The object.
    pub object: usize,
    /// Whether it is put there; otherwise it is taken.
    pub put: bool,
}

/// All contents of an episode: before the first interaction, and after each.
#[derive(Clone, Debug)]
pub(crate) struct Chronicle {
    /// `versions[d]` are the contents before interaction `d`.
    versions: Vec<Contents>,
    /// The interactions; `None` for one that a counterfactual history leaves out.
    pub interactions: Vec<Option<Interaction>>,
}

impl Chronicle {
    /// A chronicle with these initial contents.
    pub fn new(first: Contents) -> Self {
        Self { versions: vec![first], interactions: Vec::new() }
    }

    /// Appends an interaction.
    pub fn add(&mut self, interaction: Interaction) {
        let mut next = self.now().clone();
        next[interaction.spot] = interaction.put.then_some(interaction.object);
        self.versions.push(next);
        self.interactions.push(Some(interaction));
    }

    /// The latest contents.
    pub fn now(&self) -> &Contents {
        &self.versions[self.interactions.len()]
    }

    /// Contents after `version` interactions.
    pub fn contents(&self, version: usize) -> &Contents {
        &self.versions[version]
    }

    /// The last of the first `version` interactions with a spot.
    pub fn last_interaction(&self, spot: SpotNumber, version: usize) -> Option<usize> {
        (0..version)
            .rev()
            .find(|&interaction| self.interactions[interaction].is_some_and(|d| d.spot == spot))
    }

    /// The history without one interaction. The object that it put down stays in the hand, so later
    /// interactions must not touch it.
    pub fn without(&self, omitted: usize) -> Self {
        let mut other = Self::new(self.versions[0].clone());
        for (index, interaction) in self.interactions.iter().enumerate() {
            match interaction {
                Some(interaction) if index != omitted => other.add(*interaction),
                _ => {
                    // The number stays in use, so that both histories are numbered alike.
                    other.versions.push(other.now().clone());
                    other.interactions.push(None);
                }
            }
        }
        other
    }
}

/// Number of a state in a dataset's state columns: the spot and its content.
pub(crate) fn state_number(spot: SpotNumber, content: Option<usize>) -> u64 {
    (spot as u64 + 1) << 32 | content.map_or(0, |object| object as u64 + 1)
}

/// Sets up a scene: contents, and one station open by a fraction (all others closed).
pub(crate) fn arrange(
    kitchen: &KitchenScene,
    spots: &SpotTable,
    scene: &mut Scene,
    contents: &Contents,
    open: Option<(usize, f32)>,
) {
    let fraction = |station: usize| match open {
        Some((acted, fraction)) if acted == station => fraction,
        _ => 0.0,
    };
    for station in 0..kitchen.stations.len() {
        kitchen.open(scene, station, fraction(station));
    }
    for object in 0..kitchen.objects.len() {
        kitchen.hide(scene, object);
    }
    for (spot, content) in contents.iter().enumerate() {
        let Some(object) = *content else { continue };
        let (number, index) = spots.places[spot];
        let station = &kitchen.stations[number];
        // Nothing is drawn behind a closed door, so nothing shows through a gap.
        if station.kind.is_container() && fraction(number) == 0.0 {
            continue;
        }
        let foot = station.spots[index].foot(fraction(number));
        // Every object has its own angle, so that it looks the same everywhere.
        let turn = 0.35 * (object % 5) as f32 - 0.7;
        kitchen.place(scene, object, foot, station.anchor.yaw() + turn);
    }
}
