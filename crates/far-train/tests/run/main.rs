//! Runs that are interrupted, go on, and end in the same bytes.

mod folder;
mod fragile_disk;
mod interruption;
mod toy;
