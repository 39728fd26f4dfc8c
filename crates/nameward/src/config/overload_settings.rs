//! The `[overload]` table: limits for queries that wait for look-ups and signatures.

use super::read::Count;
use super::setting::section;

section! {
    /// Queries that wait for a database.
    Overload = "overload" {
        /// Maximum number of queries waiting for one database; further ones are dropped. Answers from caches and resident
        /// zones do not wait.
        overload_queue: Count<1, 10_000_000> = "5000";
        /// How long a query may wait before it is dropped, in milliseconds.
        query_timeout_ms: Count<10, 600_000> = "1500";
        /// Maximum number of names of one zone looked up at the same time; queries for more are dropped, so that a flood
        /// of random names does not reach the database.
        lookups_per_zone: Count<1, 10_000_000> = "1000";
        /// Look-up threads per SQLite database; 0 means one per core.
        lookup_threads: Count<0, 1024> = "0";
        /// Maximum number of queries waiting for signatures, of which one zone may have a quarter; further ones are
        /// answered with TC over UDP and SERVFAIL over TCP. Cached signatures do not wait.
        signing_queue: Count<4, 10_000_000> = "4096";
        /// Share of all cores that signing answers may use, in percent. Signing zones for transfers may use as much again.
        signing_cpu_percent: Count<1, 100> = "50";
        /// Share of the queries that wait for look-ups, of one zone and of all, and for signatures that one client address
        /// (IPv6: /64) may have, in percent. More of them are refused as if the queue were full; other clients are not.
        client_percent: Count<1, 100> = "25";
    }
}
