//! Owns the words of `[server]` in the configuration: how questions are answered, and what is logged.

use super::read::words;

words! {
    /// The answer to a question for type ANY (RFC 8482).
    AnyPolicy {
        /// One RRset of the name.
        One = "one",
        /// TC over UDP, so that only clients with a true address get every RRset.
        Truncate = "truncate",
        /// Every RRset of the name.
        All = "all",
    }
}

words! {
    /// How far a CNAME is followed.
    CnamePolicy {
        /// Into every zone this server has.
        Served = "served",
        /// To the edge of the zone.
        Zone = "zone",
    }
}

words! {
    /// The least important message that is logged.
    LogLevel {
        /// Faults that stop something from working.
        Error = "error",
        /// Events that an operator should look at.
        Warn = "warn",
        /// Start, reload, end.
        Info = "info",
        /// Details for developers.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}
