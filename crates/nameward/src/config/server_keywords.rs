//! Keywords of `[server]` in the configuration: how queries are answered, and what is logged.

use super::read::words;

words! {
    /// The response to a query for type ANY (RFC 8482).
    AnyPolicy {
        /// One RRset of the name.
        One = "one",
        /// TC over UDP, so that only clients with a genuine address get every RRset.
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
        /// Only within the zone.
        Zone = "zone",
    }
}

words! {
    /// Whether the server restricts itself after its start.
    SandboxMode {
        /// As far as the kernel can.
        Auto = "auto",
        /// Completely, or the server does not start.
        Require = "require",
        /// Not at all.
        Off = "off",
    }
}

words! {
    /// The least severe level that is logged.
    LogLevel {
        /// Faults that stop something from working.
        Error = "error",
        /// Events that need an operator's attention.
        Warn = "warn",
        /// Start, reload, stop.
        Info = "info",
        /// Details for developers.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}
