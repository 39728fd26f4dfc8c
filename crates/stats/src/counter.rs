//! The words of the statistics: what is counted, by which transport, with which outcome.
//!
//! Sums (`udp-queries`) are not counters: they are derived when read, so that they hold in every snapshot.

/// How a question arrived: the transport and the IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Transport {
    /// UDP over IPv4.
    Udp4,
    /// UDP over IPv6.
    Udp6,
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
}

impl Transport {
    /// All transports, in the order of their counters.
    pub const ALL: [Transport; 4] = [
        Transport::Udp4,
        Transport::Udp6,
        Transport::Tcp4,
        Transport::Tcp6,
    ];

    /// True for UDP on either IP version.
    #[inline]
    pub fn is_udp(self) -> bool {
        (self as u8) < Transport::Tcp4 as u8
    }
}

/// What became of a question, as the rings and the outcome counters see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// Records were found (or a CNAME chain that ends in records).
    Answer,
    /// The name exists, the type does not.
    NoData,
    /// The name does not exist in a zone that is served.
    NxDomain,
    /// REFUSED because no served zone matches.
    Unauth,
    /// SERVFAIL because a backend failed or its data cannot be used.
    BackendFailure,
    /// A delegation was handed out.
    Referral,
    /// Anything else: FORMERR, NOTIMP, BADVERS, transfers, NOTIFY, UPDATE.
    Other,
}

macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // the meaning of each stands in the table of variables
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All of them, in the order of their discriminants.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// How many there are.
            pub const COUNT: usize = $name::ALL.len();
        }
    };
}

counters! {
    /// A counter that a recorder keeps. Its page name and description stand in the table of variables.
    Counter {
        // The first twelve are indexed by transport: keep their order.
        Udp4Queries,
        Udp6Queries,
        Tcp4Queries,
        Tcp6Queries,
        Udp4Answers,
        Udp6Answers,
        Tcp4Answers,
        Tcp6Answers,
        Udp4AnswersBytes,
        Udp6AnswersBytes,
        Tcp4AnswersBytes,
        Tcp6AnswersBytes,
        UdpCookieQueries,
        TcpCookieQueries,
        UdpDoQueries,
        RdQueries,
        CorruptPackets,
        NoerrorPackets,
        NxdomainPackets,
        ServfailPackets,
        UnauthPackets,
        OverloadDrops,
        TimedoutPackets,
        ZoneCacheHit,
        ZoneCacheMiss,
        PacketcacheHit,
        PacketcacheMiss,
        QueryCacheHit,
        QueryCacheMiss,
        BackendQueries,
        DeferredCacheInserts,
        DeferredCacheLookup,
        DeferredPacketcacheInserts,
        DeferredPacketcacheLookup,
        DnsupdateQueries,
        DnsupdateAnswers,
        DnsupdateRefused,
        DnsupdateChanges,
        IncomingNotifications,
        RecursingQuestions,
        RecursingAnswers,
        RecursionUnanswered,
        Signatures,
    }
}

counters! {
    /// A value that goes up and down and that some part of the server owns.
    Gauge {
        PacketcacheSize,
        QueryCacheSize,
        ZoneCacheSize,
        KeyCacheSize,
        MetaCacheSize,
        SignatureCacheSize,
        OpenTcpConnections,
        QsizeQ,
        XfrQueue,
        SecurityStatus,
    }
}

counters! {
    /// A moving average of time, in microseconds on the page.
    Latency {
        /// From the receipt of a batch to its sending: each question waits for its whole batch.
        Answer,
        Receive,
        Send,
        Cache,
        Backend,
    }
}
