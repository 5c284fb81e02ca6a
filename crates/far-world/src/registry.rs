//! All worlds by name.

use crate::apartment::Apartment;
use crate::corridor::Corridor;
use crate::error::{Result, WorldError};
use crate::kitchen::Kitchen;
use crate::village::Village;
use crate::world::World;

/// The built-in worlds, one line each.
const WORLDS: &[&dyn World] = &[&Village, &Apartment, &Kitchen, &Corridor];

/// All built-in worlds.
pub fn worlds() -> &'static [&'static dyn World] {
    WORLDS
}

/// The world with this name.
///
/// ```
/// assert_eq!(far_world::world("village").unwrap().name(), "village");
/// assert!(far_world::world("atlantis").is_err());
/// ```
pub fn world(name: &str) -> Result<&'static dyn World> {
    WORLDS.iter().copied().find(|world| world.name() == name).ok_or_else(|| {
        WorldError::UnknownWorld {
            name: name.to_string(),
            known: WORLDS.iter().map(|world| world.name()).collect(),
        }
    })
}
