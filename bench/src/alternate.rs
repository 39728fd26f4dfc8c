//! Servers measured in turn: all run at once, and each is loaded for a fraction of a second, round after round. A machine
//! whose speed changes by the second slows all of them alike, so the ratio of two servers is steady where that of two long
//! runs is not.

use std::fmt::Write;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use nameward_testkit::peers::Peer;

use crate::compare::Plan;
use crate::load::{Generator, Limit, Outcome};
use crate::process;
use crate::queries::Queries;
use crate::sys::{self, ModeSamples};

/// How long a server is loaded at a time.
const SLICE: Duration = Duration::from_millis(150);

/// A server to compare.
pub struct Contender {
    /// Its name in the table.
    pub name: String,
    /// The running server.
    pub peer: Peer,
}

/// The figures of one server.
#[derive(Default)]
struct Turns {
    /// CPU time of an answer in each slice, in microseconds.
    cpu_us: Vec<f64>,
    answered: u64,
    lost: u64,
    wrong: u64,
    elapsed: Duration,
    /// Samples in user mode, and in the kernel.
    samples: (u64, u64),
}

/// Loads each server in `slices` slices and returns the table. The servers must be pinned to the plan's core.
pub fn run(
    contenders: &[Contender],
    queries: &Queries,
    plan: &Plan<'_>,
    slices: NonZeroUsize,
) -> io::Result<String> {
    sys::pin_to_core(plan.client_core)?;
    let mut generators = Vec::new();
    for contender in contenders {
        let mut generator = Generator::connect(contender.peer.addr(), queries, plan.shape)?;
        generator.run(Limit::Time(plan.warm_up))?;
        generators.push(generator);
    }
    let mut turns: Vec<Turns> = contenders.iter().map(|_| Turns::default()).collect();
    for slice in 0..slices.get() {
        if slice % 10 == 0 {
            eprintln!("slice {slice} of {slices} ...");
        }
        for ((contender, generator), turns) in
            contenders.iter().zip(&mut generators).zip(&mut turns)
        {
            let pids = process::tree(contender.peer.pid())?;
            let samples = ModeSamples::begin(plan.server_core).ok();
            let before = running_time(&pids)?;
            let outcome = generator.run(Limit::Time(SLICE))?;
            // A thread that ended has taken its time with it; the median ignores such a slice.
            let used = running_time(&pids)?.saturating_sub(before);
            let modes = samples.map(|samples| samples.end(|pid| pids.contains(&pid)));
            turns.add(&outcome, used, modes.unwrap_or_default());
        }
    }
    Ok(table(contenders, &turns))
}

impl Turns {
    fn add(&mut self, outcome: &Outcome, used: Duration, (user, kernel): (u64, u64)) {
        self.cpu_us
            .push(used.as_secs_f64() * 1e6 / outcome.answered.max(1) as f64);
        self.answered += outcome.answered;
        self.lost += outcome.lost;
        self.wrong += outcome.wrong;
        self.elapsed += outcome.elapsed;
        self.samples.0 += user;
        self.samples.1 += kernel;
    }

    /// Returns the quartiles of this server's time compared with another one's in the same slices.
    fn ratios_to(&self, other: &Turns) -> [f64; 3] {
        let pairs = self.cpu_us.iter().zip(&other.cpu_us);
        let mut ratios: Vec<f64> = pairs.map(|(own, other)| own / other).collect();
        ratios.sort_by(f64::total_cmp);
        [1, 2, 3].map(|quarter| {
            let place = ratios.len() * quarter / 4;
            ratios.get(place).copied().unwrap_or(f64::NAN)
        })
    }

    fn median_us(&self) -> f64 {
        let mut sorted = self.cpu_us.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Returns the time that all threads of these processes have run, to the nanosecond: the ticks of `/proc/PID/stat` are
/// too coarse for a slice.
fn running_time(pids: &[u32]) -> io::Result<Duration> {
    let threads = pids
        .iter()
        .filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok())
        .flatten()
        .filter_map(Result::ok);
    let times = threads.filter_map(|thread| {
        // A thread may end after it was listed.
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    match times.sum() {
        0 => Err(io::Error::other("this kernel has no /proc/PID/schedstat")),
        nanoseconds => Ok(Duration::from_nanos(nanoseconds)),
    }
}

fn table(contenders: &[Contender], turns: &[Turns]) -> String {
    let names = contenders.iter().map(|contender| contender.name.as_str());
    let first = contenders.first().map_or("", |first| first.name.as_str());
    let mut text = format!(
        "| server | answered/s | CPU us/query | in user mode | CPU : {first} | quartiles | lost | wrong |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|\n"
    );
    for (name, own) in names.zip(turns) {
        let [lower, median, upper] = own.ratios_to(&turns[0]);
        let (user, kernel) = own.samples;
        let in_user_mode = match user + kernel {
            0 => "-".to_string(),
            all => format!("{:.0}%", user as f64 * 100.0 / all as f64),
        };
        let _ = writeln!(
            text,
            "| {name} | {:.0} | {:.2} | {in_user_mode} | {median:.2} | {lower:.2} to {upper:.2} | {} | {} |",
            own.answered as f64 / own.elapsed.as_secs_f64(),
            own.median_us(),
            own.lost,
            own.wrong,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(cpu_us: &[f64]) -> Turns {
        Turns {
            cpu_us: cpu_us.to_vec(),
            ..Turns::default()
        }
    }

    #[test]
    fn slices_are_compared_with_those_of_the_same_round() {
        // The machine was slower by half in some rounds, for both.
        let first = turns(&[2.0, 4.0, 2.0, 4.0]);
        let second = turns(&[1.0, 2.0, 1.0, 2.0]);
        assert_eq!(second.ratios_to(&first), [0.5; 3]);
        assert_eq!(first.ratios_to(&second), [2.0; 3]);
    }

    #[test]
    fn threads_that_run_take_time() {
        let own = [std::process::id()];
        let before = running_time(&own).unwrap();
        let mut sum = 0_u64;
        while running_time(&own).unwrap() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
