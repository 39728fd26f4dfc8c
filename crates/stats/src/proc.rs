//! Host and process readings from /proc, taken with each snapshot. Values that cannot be read are 0.

use std::fs;

/// USER_HZ is 100 on every Linux that Rust supports (proc_pid_stat(5) gives times in these ticks).
const MSEC_PER_TICK: u64 = 10;

macro_rules! readings {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// The readings from /proc.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct HostReadings { $($(#[$doc])* pub $field: u64,)* }

        impl HostReadings {
            fn max(&self, other: &Self) -> Self {
                HostReadings { $($field: self.$field.max(other.$field),)* }
            }
        }
    };
}

readings! {
    /// Open file descriptors of this process.
    fd_usage,
    /// Anonymous resident memory of this process in bytes, which no other process shares.
    real_memory_usage,
    /// Milliseconds in user mode.
    user_msec,
    /// Milliseconds in the kernel.
    sys_msec,
    /// Ticks the host waited for I/O.
    cpu_iowait,
    /// Ticks taken by other guests on the same machine.
    cpu_steal,
    /// UDP over IPv4, from /proc/net/snmp.
    udp_in_csum_errors,
    /// Packets that could not be delivered.
    udp_in_errors,
    /// Packets to a port without a listener.
    udp_noport_errors,
    /// Packets dropped because a receive buffer was full.
    udp_recvbuf_errors,
    /// Packets dropped because a send buffer was full.
    udp_sndbuf_errors,
    /// UDP over IPv6, from /proc/net/snmp6.
    udp6_in_csum_errors,
    /// Packets that could not be delivered.
    udp6_in_errors,
    /// Packets to a port without a listener.
    udp6_noport_errors,
    /// Packets dropped because a receive buffer was full.
    udp6_recvbuf_errors,
    /// Packets dropped because a send buffer was full.
    udp6_sndbuf_errors,
}

impl HostReadings {
    /// Reads all values from about ten small files.
    pub fn read() -> Self {
        let mut readings = HostReadings::default();
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        readings.read_process_stat(&text("/proc/self/stat"));
        readings.read_status(&text("/proc/self/status"));
        readings.read_host_stat(&text("/proc/stat"));
        readings.read_snmp(&text("/proc/net/snmp"));
        readings.read_snmp6(&text("/proc/net/snmp6"));
        // The directory being read is itself open while it is counted.
        let open = fs::read_dir("/proc/self/fd").map_or(0, |dir| dir.count());
        readings.fd_usage = open.saturating_sub(1) as u64;
        readings
    }

    /// Returns these readings with no counter below its previous value: the kernel lets iowait decrease (proc_stat(5)),
    /// and two readers may finish in a different order than they started.
    pub(crate) fn not_below(&self, before: &Self) -> Self {
        HostReadings {
            fd_usage: self.fd_usage,
            real_memory_usage: self.real_memory_usage,
            ..self.max(before)
        }
    }

    fn read_process_stat(&mut self, text: &str) {
        // The command name is in parentheses and may contain anything; fields are counted after the last one.
        let Some((_, fields)) = text.rsplit_once(')') else {
            return;
        };
        let field = |n: usize| number(fields.split_ascii_whitespace().nth(n));
        self.user_msec = field(11) * MSEC_PER_TICK;
        self.sys_msec = field(12) * MSEC_PER_TICK;
    }

    fn read_status(&mut self, text: &str) {
        let rss = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        self.real_memory_usage =
            number(rss.and_then(|rest| rest.split_ascii_whitespace().next())) * 1024;
    }

    fn read_host_stat(&mut self, text: &str) {
        let Some(line) = text.lines().find(|line| line.starts_with("cpu ")) else {
            return;
        };
        self.cpu_iowait = number(line.split_ascii_whitespace().nth(5));
        self.cpu_steal = number(line.split_ascii_whitespace().nth(8));
    }

    fn read_snmp(&mut self, text: &str) {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
            return;
        };
        let of = |name| {
            let at = names.split_ascii_whitespace().position(|n| n == name);
            number(at.and_then(|at| values.split_ascii_whitespace().nth(at)))
        };
        self.udp_in_csum_errors = of("InCsumErrors");
        self.udp_in_errors = of("InErrors");
        self.udp_noport_errors = of("NoPorts");
        self.udp_recvbuf_errors = of("RcvbufErrors");
        self.udp_sndbuf_errors = of("SndbufErrors");
    }

    fn read_snmp6(&mut self, text: &str) {
        let of = |name| {
            let line = text
                .lines()
                .find(|line| line.split_ascii_whitespace().next() == Some(name));
            number(line.and_then(|line| line.split_ascii_whitespace().nth(1)))
        };
        self.udp6_in_csum_errors = of("Udp6InCsumErrors");
        self.udp6_in_errors = of("Udp6InErrors");
        self.udp6_noport_errors = of("Udp6NoPorts");
        self.udp6_recvbuf_errors = of("Udp6RcvbufErrors");
        self.udp6_sndbuf_errors = of("Udp6SndbufErrors");
    }
}

fn number(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_times_are_found_behind_a_hostile_command_name() {
        let mut readings = HostReadings::default();
        readings.read_process_stat("7 (a) b (x) S 1 7 7 0 -1 4194560 1 2 3 4 250 31 0 0 20 0");
        assert_eq!((readings.user_msec, readings.sys_msec), (2500, 310));
    }

    #[test]
    fn udp_errors_are_found_by_name_in_any_column_order() {
        let mut readings = HostReadings::default();
        readings.read_snmp(
            "Tcp: a b\nTcp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\n\
             Udp: 10 20 30 40 50 60 70\nUdpLite: InErrors\nUdpLite: 9\n",
        );
        assert_eq!(readings.udp_noport_errors, 20);
        assert_eq!(readings.udp_in_errors, 30);
        assert_eq!(readings.udp_recvbuf_errors, 50);
        assert_eq!(readings.udp_sndbuf_errors, 60);
        assert_eq!(readings.udp_in_csum_errors, 70);
        readings.read_snmp6("Udp6InErrors    4\nUdp6NoPorts 5\nUdp6RcvbufErrors 6\nUdp6SndbufErrors 7\nUdp6InCsumErrors 8\n");
        assert_eq!(readings.udp6_in_errors, 4);
        assert_eq!(readings.udp6_in_csum_errors, 8);
    }

    #[test]
    fn iowait_and_steal_are_the_fifth_and_eighth_times() {
        let mut readings = HostReadings::default();
        readings.read_host_stat("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 0 0 0 0 0 0 0 0\n");
        assert_eq!((readings.cpu_iowait, readings.cpu_steal), (5, 8));
    }

    #[test]
    fn counters_of_the_host_do_not_fall_but_gauges_may() {
        let before = HostReadings {
            cpu_iowait: 10,
            fd_usage: 10,
            ..Default::default()
        };
        let after = HostReadings {
            cpu_iowait: 9,
            fd_usage: 9,
            user_msec: 5,
            ..Default::default()
        };
        let shown = after.not_below(&before);
        assert_eq!(
            (shown.cpu_iowait, shown.fd_usage, shown.user_msec),
            (10, 9, 5)
        );
    }

    #[test]
    fn nonsense_reads_as_zero() {
        let mut readings = HostReadings::default();
        for text in ["", "Udp:", "Udp: a\nUdp:", "cpu ", ")", "RssAnon:"] {
            readings.read_process_stat(text);
            readings.read_status(text);
            readings.read_host_stat(text);
            readings.read_snmp(text);
            readings.read_snmp6(text);
        }
        assert_eq!(readings, HostReadings::default());
    }

    #[test]
    fn this_process_has_memory_and_open_files() {
        let readings = HostReadings::read();
        assert!(readings.real_memory_usage > 0);
        assert!(readings.fd_usage >= 3);
    }
}
