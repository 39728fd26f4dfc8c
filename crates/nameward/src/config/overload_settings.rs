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
        /// Maximum number of names in one zone looked up at the same time; queries for further names are dropped, so that
        /// a flood of random names does not reach the database.
        lookups_per_zone: Count<1, 10_000_000> = "1000";
        /// Look-up threads per SQLite database; 0 means one per core.
        lookup_threads: Count<0, 1024> = "0";
        /// Maximum number of queries waiting for signatures, of which one zone may have a quarter; further ones are
        /// answered with TC over UDP and SERVFAIL over TCP. Cached signatures do not wait.
        signing_queue: Count<4, 10_000_000> = "4096";
        /// Share of all cores that signing answers may use, in percent. Signing zones for transfers may use the same
        /// share in addition.
        signing_cpu_percent: Count<1, 100> = "50";
        /// Maximum share of one client address (IPv6: /64) in the queries that wait for signatures and for look-ups (per
        /// zone and in total), in percent. Its further queries are refused as if the queue were full; other clients are
        /// not affected.
        client_percent: Count<1, 100> = "25";
    }
}
