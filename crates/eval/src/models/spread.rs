//! The number of GPUs of a model where the command does not give it: as few as hold the model with its full
//! context. It loads nothing; where no number of GPUs holds the model, loading it fails with the missing
//! amount.

use std::path::Path;

use tribunal_cuda::Gpu;

use crate::{
    engine::{Device, Need, Options},
    error::Result,
    spec::DeviceRequest,
};

/// Spreads a model that does not fit on one GPU over as few as hold it together, and returns a note about it.
/// Of GPUs that were named all are used, in groups of as many; else the first ones of this machine that have
/// room.
///
/// # Errors
/// No model that runs here, or a device that fails.
pub fn over_fewest(
    name: &str,
    weights: &Path,
    options: &mut Options,
    device: &DeviceRequest,
) -> Result<Option<String>> {
    let Some((n_cards, devices)) = fewest(weights, options, device)? else { return Ok(None) };
    let note = format!("`{name}` {}", in_words(n_cards, &devices, device.is_named()));
    let mut devices = Device::grouped(devices, n_cards)?;
    options.device = devices.remove(0);
    options.more_devices = devices;
    Ok(Some(note))
}

/// The GPUs over which a model is spread, and how many hold it together; `None` where it is not.
///
/// # Errors
/// No model that runs here.
pub fn fewest(
    weights: &Path,
    options: &Options,
    device: &DeviceRequest,
) -> Result<Option<(usize, Vec<Device>)>> {
    let named: Vec<Device> = std::iter::once(&options.device).chain(&options.more_devices).cloned().collect();
    let are_named = device.is_named();
    let n_known = if are_named { named.len() } else { named[0].n_of_machine() };
    if n_known < 2 {
        return Ok(None);
    }
    let need = Need::of(weights, options, named[0].gpus().iter().any(Gpu::packs))?;
    Ok(if are_named { in_groups(named, &need) } else { first_with_room(&named[0], &need) })
}

/// All of these in groups of the fewest that hold the model; `None` where one does, or no number.
fn in_groups(named: Vec<Device>, need: &Need) -> Option<(usize, Vec<Device>)> {
    let divides = |n: &usize| named.len().is_multiple_of(*n);
    let n_cards = sizes(need).filter(divides).find(|&n| named.iter().all(|device| holds(device, n, need)))?;
    (n_cards > 1).then_some((n_cards, named))
}

/// The fewest GPUs of this machine that together hold the model, in order; `None` if the first one alone
/// does, or no number.
fn first_with_room(first: &Device, need: &Need) -> Option<(usize, Vec<Device>)> {
    if holds(first, 1, need) {
        return None;
    }
    let all = first.alike();
    sizes(need).find_map(|n| {
        let with_room = all.iter().filter(|device| holds(device, n, need)).take(n);
        let with_room: Vec<Device> = with_room.cloned().collect();
        (with_room.len() == n).then_some((n, with_room))
    })
}

/// Numbers of GPUs.
fn sizes(need: &Need) -> impl Iterator<Item = usize> + use<> {
    1..=need.on_each.len()
}

/// Returns true if a GPU has room for its part of a model that so many hold together.
fn holds(device: &Device, n_cards: usize, need: &Need) -> bool {
    // One that fails has no room.
    let free = device.gpus().iter().map(|gpu| gpu.memory().map_or(0, |(free, _)| free)).min();
    need.on_each[n_cards - 1].is_some_and(|bytes| bytes <= free.unwrap_or(0))
}

fn in_words(n_cards: usize, devices: &[Device], are_named: bool) -> String {
    let ordinals: Vec<usize> = devices.iter().flat_map(Device::ordinals).collect();
    let is_first = are_named || ordinals.iter().copied().eq(0..n_cards);
    let list = ordinals.iter().map(ToString::to_string).collect::<Vec<String>>().join(",");
    if n_cards == 1 {
        return format!("does not fit on GPU 0, so it has another one (`cuda:{list}`)");
    }
    let which = if is_first { String::new() } else { format!(" (`cuda:{list}`)") };
    format!("does not fit on one GPU, so it is spread over {n_cards}{which}")
}
