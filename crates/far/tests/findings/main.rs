//! What a new user ran into, done again as they did it: nothing is lost, and messages name the cause.

mod checks;
mod data;
mod demo;
mod folder;
mod interrupts;
mod kills;
mod messages;
mod program;
