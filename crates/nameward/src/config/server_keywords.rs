//! Keywords of `[server]` in the configuration: how queries are answered, and what is logged.

pub use nameward_answer::{AnyPolicy, Follow};

use super::read::{keywords, words};

keywords! {
    AnyPolicy {
        "one" => AnyPolicy::OneRrset,
        "truncate" => AnyPolicy::TruncateOnUdp,
        "all" => AnyPolicy::All,
    }
}

keywords! {
    Follow {
        "served" => Follow::AllZones,
        "zone" => Follow::SameZone,
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
