//! The store against everything that can happen to a disk.

mod damage;
mod disk_full;
mod failed_sync;
mod kill;
mod numbered_record;
mod power_cut;
mod round_trip;
mod sharing;
mod simulated_disk;
