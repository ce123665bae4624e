//! Memory and time of a run on GPUs that need not be here. It counts no tokens.

use super::{
    files, gpu_memory,
    gpu_memory::GpuMemory,
    hub::Card,
    pace::{self, GPUS, Gpu, Kind, Weights, Work},
};
use crate::{
    engine::Need,
    spec::{DeviceRequest, Spec},
};

/// Name of the estimate of GPU memory.
pub const ON_A_GPU: &str = "on a GPU";

/// Name of the estimate of a shorter context.
pub const CONTEXT: &str = "context";

/// A run on GPUs.
pub struct Target<'a> {
    card: &'a Card,
    need: Need,
    /// GPUs that share a model, where the command gives their number.
    each: Option<usize>,
    /// GPUs that the command names, at least 1.
    named: usize,
    /// Memory of a GPU, where the command gives it.
    memory: Option<u64>,
    /// Tokens of the longest prompt and its answer.
    longest: usize,
}

/// GPUs that hold a run's model.
#[derive(Clone, Copy)]
struct Placement {
    /// GPUs of each copy of the model.
    each: usize,
    copies: usize,
    /// The longest context that fits.
    context: usize,
}

impl<'a> Target<'a> {
    /// `None` where the card does not state the sizes of its model.
    pub fn new(card: &'a Card, spec: &Spec, memory: Option<u64>, longest: usize) -> Option<Self> {
        let resources = &spec.resources;
        let need = gpu_memory::within(card, resources.context.unwrap_or(card.context))?;
        let named = if let DeviceRequest::Gpus(numbers) = &resources.device { numbers.len() } else { 1 };
        Some(Self { card, need, each: resources.tensor_parallel, named, memory, longest })
    }

    /// GPUs with so much memory: as few for a copy of the model as leave a context for the longest prompt.
    fn placed(&self, bytes: usize) -> Option<Placement> {
        let least = self.longest.min(self.need.context);
        let context = |each| self.need.context_in(bytes, each).filter(|&context| context >= least);
        let sizes = self.each.map_or(1..=self.need.on_each.len(), |each| each..=each);
        let divides =
            |each: &usize| self.each.is_some() || self.named == 1 || self.named.is_multiple_of(*each);
        let placement =
            |each| Some(Placement { each, copies: (self.named / each).max(1), context: context(each)? });
        sizes.filter(divides).find_map(placement)
    }

    /// Memory on each GPU and the context that it leaves, as names and values.
    pub fn memory(&self) -> Vec<(String, String)> {
        let memory = GpuMemory::find(self.memory);
        let placed = self.placed(memory.bytes());
        // One GPU is one, whatever the model would take.
        let fewest = placed.filter(|_| self.named > 1).map_or(1, |placed| placed.each);
        let each = self.each.unwrap_or(fewest);
        let name = match self.named.max(each) {
            1 => ON_A_GPU.to_owned(),
            n => format!("on each of {n} GPUs"),
        };
        let needed = match self.need.on_each.get(each - 1).copied().flatten() {
            Some(bytes) if each > 1 => files::size(bytes as u64),
            _ => gpu_memory::sum(&self.need),
        };
        let mut rows = vec![(name, format!("{needed}; {}", memory.verdict(&self.need, each)))];
        let more = || {
            self.need.context_in(memory.bytes(), each)?;
            let Placement { each: n, .. } = placed.filter(|placed| placed.each > each)?;
            let needed = format!("the longest prompt and its answer need {}", self.longest);
            Some(format!("{needed}, and the model then takes {n} GPUs"))
        };
        let context = shorter(&self.need, &memory, each, self.longest).or_else(more);
        rows.extend(context.map(|value| (CONTEXT.to_owned(), value)));
        rows
    }

    /// The time on each GPU that holds the model, of those with the given memory if there are any, and on
    /// CPUs, as names and values.
    pub fn times(&self, work: Work) -> Vec<(String, String)> {
        let Some(weights) = Weights::from_card(self.card) else { return Vec::new() };
        let Some(kind) = Kind::from_card(self.card, weights) else { return Vec::new() };
        let is_planned = |gpu: &&Gpu| self.memory.is_none_or(|bytes| gpu.has_about(bytes));
        let is_any = GPUS.iter().any(|gpu| is_planned(&gpu));
        let gpus = GPUS.iter().filter(|gpu| !is_any || is_planned(gpu));
        let row = |gpu: &Gpu| {
            let bytes = self.memory.filter(|_| is_any).unwrap_or(gpu.bytes);
            let Placement { each, copies, context } =
                self.placed(usize::try_from(bytes).unwrap_or(usize::MAX))?;
            let ([least, most], origin) = gpu.seconds(kind, weights, work)?;
            let (number, not_measured) = match each * copies {
                1 => ("one".to_owned(), ""),
                n => (n.to_string(), "; several GPUs are not measured"),
            };
            let shorter =
                (context < self.need.context).then(|| format!(", with a context of {context} tokens"));
            // At the least, several are that many times as fast as one; at the most, those that share a model
            // are as fast as one.
            let range = pace::range([least / (each * copies) as f64, most / copies as f64]);
            Some((
                format!("time on {number} {}{}", gpu.name, shorter.unwrap_or_default()),
                format!("{range} (estimate{origin}{not_measured})"),
            ))
        };
        gpus.filter_map(row).chain([pace::on_cpus(weights, work)]).collect()
    }
}

/// The shorter context with which a model fits on each of so many GPUs, and the tokens of the longest prompt
/// and its answer; `None` where its whole context fits, or none that holds them.
pub fn shorter(need: &Need, memory: &GpuMemory, each: usize, longest: usize) -> Option<String> {
    let context = need.context_in(memory.bytes(), each)?;
    if context >= need.context || context < longest {
        return None;
    }
    let gpus = |n: usize| if n == 1 { "one GPU".to_owned() } else { format!("{n} GPUs") };
    let more = (each + 1..=need.on_each.len()).find(|&n| memory.fits(need, n));
    let more = more.map(|n| format!("; without this limit, the model takes {}", gpus(n)));
    Some(format!(
        "{context} tokens fit on {}, and the longest prompt and its answer need {longest}{}",
        gpus(each),
        more.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub;

    const WORK: Work = Work { prompt_tokens: 1_000_000, answer_tokens: 100_000 };

    fn spec(context: Option<usize>, device: &str, each: Option<usize>) -> Spec {
        let mut spec = Spec::default();
        spec.resources.context = context;
        spec.resources.device = device.parse::<DeviceRequest>().unwrap();
        spec.resources.tensor_parallel = each;
        spec
    }

    fn rows(name: &str, spec: &Spec, gib: Option<u64>, longest: usize) -> [Vec<(String, String)>; 2] {
        let card = hub::find(name).unwrap();
        let target = Target::new(&card, spec, gib.map(|gib| gib << 30), longest).unwrap();
        [target.memory(), target.times(WORK)]
    }

    #[test]
    fn a_shorter_context_that_holds_the_longest_prompt_saves_a_gpu() {
        let [memory, times] = rows("gemma-4-31b-it", &spec(None, "cuda", None), Some(79), 2812);
        assert_eq!(memory[0].0, ON_A_GPU);
        let (name, value) = &memory[1];
        let (context, needed) = value.split_once(' ').unwrap();
        assert!(name == CONTEXT && (8192..32_768).contains(&context.parse().unwrap()), "{value}");
        let expected = "tokens fit on one GPU, and the longest prompt and its answer need 2812; without this limit, the \
                        model takes 2 GPUs";
        assert_eq!(needed, expected);
        assert_eq!(times[1].0, format!("time on one H100, with a context of {context} tokens"));
    }

    #[test]
    fn a_prompt_that_is_longer_than_the_context_of_one_gpu_takes_more() {
        let [memory, times] = rows("gemma-4-31b-it", &spec(None, "cuda", None), Some(79), 30_000);
        let needed = "the longest prompt and its answer need 30000, and the model then takes 2 GPUs";
        assert_eq!((memory[0].0.as_str(), memory[1].1.as_str()), (ON_A_GPU, needed), "{memory:?}");
        assert!(times[1].0 == "time on 2 H100" && times[1].1.contains("several GPUs are not"), "{times:?}");
        // One GPU, as the command says, cannot do it.
        let [memory, times] = rows("gemma-4-31b-it", &spec(None, "cuda", Some(1)), Some(79), 30_000);
        assert_eq!((memory[0].0.as_str(), memory.len()), (ON_A_GPU, 1), "{memory:?}");
        assert!(times.len() == 1 && times[0].0 == "time on CPUs", "{times:?}");
    }

    /// `1.7 to 21 min (...)`, in seconds.
    fn seconds((_, value): &(String, String)) -> [f64; 2] {
        let words: Vec<&str> = value.split(' ').collect();
        let unit =
            [("s", 1.0), ("min", 60.0), ("hours", 3600.0)].into_iter().find(|(name, _)| *name == words[3]);
        [words[0], words[2]].map(|number| number.parse::<f64>().unwrap() * unit.unwrap().1)
    }

    #[test]
    fn copies_of_a_model_share_the_time() {
        let of = |device: &str, each: Option<usize>| {
            rows("qwen2.5-7b-instruct", &spec(None, device, each), Some(79), 3000)
        };
        let [alone, four, together] =
            [("cuda", None), ("cuda:0,1,2,3", None), ("cuda", Some(4))].map(|(d, n)| of(d, n));
        let names =
            [&alone, &four, &together].map(|[memory, times]| (memory[0].0.as_str(), times[1].0.as_str()));
        let on_four = ("on each of 4 GPUs", "time on 4 H100");
        assert_eq!(names, [(ON_A_GPU, "time on one H100"), on_four, on_four]);
        let [one, copies, shared] = [&alone, &four, &together].map(|[_, times]| seconds(&times[1]));
        let about = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.06;
        assert!(about(copies[0], one[0] / 4.0) && about(copies[1], one[1] / 4.0), "{one:?} {copies:?}");
        assert!(about(shared[0], one[0] / 4.0) && about(shared[1], one[1]), "{one:?} {shared:?}");
    }

    #[test]
    fn every_card_has_estimates_for_the_devices_that_hold_it() {
        for card in hub::all().unwrap() {
            // Encoders generate nothing, and their cards have no shape.
            let Some(target) = Target::new(&card, &spec(None, "cuda", None), None, 3000) else {
                assert!(card.shape.is_none(), "{}", card.name);
                continue;
            };
            let times = target.times(WORK);
            let is_measured =
                |(name, value): &&(String, String)| name.contains("H200") && value.contains("measured 20");
            assert_eq!(times.iter().filter(is_measured).count(), 1, "{}: {times:?}", card.name);
        }
        // 135 GiB of weights and 10 GiB of cache are more than the 139 GiB of an H200.
        let name = |context| {
            rows("qwen2.5-72b-instruct", &spec(context, "cuda", None), Some(139), 900)[1][0].0.clone()
        };
        assert!(name(None).starts_with("time on one H200, with a context of "), "{}", name(None));
        assert_eq!(name(Some(1024)), "time on one H200");
    }
}
