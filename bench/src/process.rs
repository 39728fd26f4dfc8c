//! Processor time and memory of a server: its process and all its descendants, from /proc.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Sub;

use crate::sys;

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// In user mode.
    pub user: f64,
    /// In the kernel on the process's behalf.
    pub system: f64,
}

impl CpuTime {
    /// Both together.
    pub fn total(self) -> f64 {
        self.user + self.system
    }
}

impl Sub for CpuTime {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            user: self.user - earlier.user,
            system: self.system - earlier.system,
        }
    }
}

/// Memory in octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident pages, those shared by several processes of the tree divided among them (PSS).
    pub proportional: u64,
    /// The most that a single process of the tree ever had resident (VmHWM).
    pub peak: u64,
}

/// The process ids of `root` and all its descendants.
pub fn tree(root: u32) -> io::Result<Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end after it was listed: it is then irrelevant.
        if let Some(stat) = fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .as_deref()
            .and_then(Stat::parse)
        {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        found.extend(children.remove(&found[next]).unwrap_or_default());
        next += 1;
    }
    Ok(found)
}

/// Time used so far by these processes, and by children of theirs that have ended.
pub fn cpu_time(pids: &[u32]) -> CpuTime {
    let ticks = sys::clock_ticks();
    let mut sum = CpuTime::default();
    for pid in pids {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(stat) = Stat::parse(&text) {
            sum.user += stat.user_ticks as f64 / ticks;
            sum.system += stat.system_ticks as f64 / ticks;
        }
    }
    sum
}

/// Memory of these processes now.
pub fn memory(pids: &[u32]) -> Memory {
    let mut sum = Memory::default();
    for pid in pids {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        sum.proportional += kilobytes(&rollup, "Pss:") * 1024;
        sum.peak = sum.peak.max(kilobytes(&status, "VmHWM:") * 1024);
    }
    sum
}

/// Time that all cores together spent busy, in seconds since boot.
pub fn machine_busy() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<f64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal
    let busy: f64 = fields
        .iter()
        .take(7)
        .enumerate()
        .filter(|(index, _)| *index != 3 && *index != 4)
        .map(|(_, ticks)| ticks)
        .sum();
    busy / sys::clock_ticks()
}

fn kilobytes(text: &str, key: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .and_then(|rest| rest.split_ascii_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// The fields of /proc/PID/stat that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    user_ticks: u64,
    system_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The command in parentheses may hold anything; fields are counted after its end, so
        // index 0 is field 3 (state) of proc_pid_stat(5).
        let fields: Vec<&str> = text
            .rsplit_once(')')?
            .1
            .split_ascii_whitespace()
            .take(15)
            .collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            parent: number(4)? as u32,
            user_ticks: number(14)? + number(16)?,
            system_ticks: number(15)? + number(17)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_a_command_with_parentheses() {
        let text = "42 (a) b (c)) S 7 42 42 0 -1 4 1 2 3 4 100 20 5 6 20 0 1 0 9";
        let stat = Stat {
            parent: 7,
            user_ticks: 105,
            system_ticks: 26,
        };
        assert_eq!(Stat::parse(text), Some(stat));
        assert_eq!(Stat::parse("42 (x"), None);
    }

    #[test]
    fn a_tree_has_its_children_and_their_memory() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pids = tree(std::process::id()).unwrap();
        assert!(pids.contains(&child.id()));
        assert!(memory(&pids).proportional > 0 && memory(&pids).peak > 0);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
