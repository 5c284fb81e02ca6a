//! What stands where, and the deeds that change it.

use super::scene::KitchenScene;
use crate::Scene;

/// A spot of the whole kitchen, counted over all stations in order.
pub(crate) type SpotNumber = usize;

/// Where every spot of a kitchen belongs.
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

/// What every spot holds: an object's number or nothing. Carried objects are on no spot.
pub(crate) type Contents = Vec<Option<usize>>;

/// Something taken from a spot, or put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    /// The spot.
    pub spot: SpotNumber,
    /// The object.
    pub object: usize,
    /// Whether it is put there (or else taken).
    pub put: bool,
}

/// All contents of an episode: before the first deed, and after each.
#[derive(Clone, Debug)]
pub(crate) struct Chronicle {
    /// `versions[d]` is what holds before deed `d`.
    versions: Vec<Contents>,
    /// What was done; `None` for a deed that a counterfactual history leaves out.
    deeds: Vec<Option<Deed>>,
}

impl Chronicle {
    /// A chronicle that begins with some contents.
    pub fn new(first: Contents) -> Self {
        Self { versions: vec![first], deeds: Vec::new() }
    }

    /// Appends a deed.
    pub fn add(&mut self, deed: Deed) {
        let mut next = self.now().clone();
        next[deed.spot] = deed.put.then_some(deed.object);
        self.versions.push(next);
        self.deeds.push(Some(deed));
    }

    /// The latest contents.
    pub fn now(&self) -> &Contents {
        &self.versions[self.deeds.len()]
    }

    /// All deeds in order.
    pub fn deeds(&self) -> &[Option<Deed>] {
        &self.deeds
    }

    /// Contents after `version` deeds.
    pub fn contents(&self, version: usize) -> &Contents {
        &self.versions[version]
    }

    /// The last of the first `version` deeds that touched a spot.
    pub fn last_deed(&self, spot: SpotNumber, version: usize) -> Option<usize> {
        (0..version).rev().find(|&deed| self.deeds[deed].is_some_and(|d| d.spot == spot))
    }

    /// The same history in which one deed never happened. What was put by it stays in the hand,
    /// so it must not be touched by later deeds.
    pub fn without(&self, omitted: usize) -> Self {
        let mut other = Self::new(self.versions[0].clone());
        for (index, deed) in self.deeds.iter().enumerate() {
            match deed {
                Some(deed) if index != omitted => other.add(*deed),
                _ => {
                    // The number stays taken, so that both histories count alike.
                    other.versions.push(other.now().clone());
                    other.deeds.push(None);
                }
            }
        }
        other
    }
}

/// Number of a state in a dataset's state columns: which spot, and what it holds.
pub(crate) fn state_number(spot: SpotNumber, content: Option<usize>) -> u64 {
    (spot as u64 + 1) << 32 | content.map_or(0, |object| object as u64 + 1)
}

/// Arranges a scene: contents, and one station open by a fraction (all others closed).
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
        // Behind a closed door nothing is drawn, so nothing can shine through a gap.
        if station.kind.is_container() && fraction(number) == 0.0 {
            continue;
        }
        let foot = station.spots[index].foot(fraction(number));
        // Every object has its own angle, so that it looks the same wherever it stands.
        let turn = 0.35 * (object % 5) as f32 - 0.7;
        kitchen.place(scene, object, foot, station.anchor.yaw() + turn);
    }
}
