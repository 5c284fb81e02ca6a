//! Contents of the spots, and the interactions that change them.

/// A spot of the whole kitchen, counted over all stations in order.
pub(crate) type SpotNumber = usize;

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
