//! The words of the statistics: what is counted, by which transport, with which outcome.
//!
//! Sums (`udp-queries`) are not counters: they are derived when read, so that they hold in every snapshot.

use std::net::IpAddr;

/// The protocol that carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// Datagrams.
    Udp,
    /// Streams.
    Tcp,
}

impl Protocol {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Protocol; 2] = [Protocol::Udp, Protocol::Tcp];
    /// How many there are.
    pub const COUNT: usize = Protocol::ALL.len();

    /// Its name in labels of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Udp => "udp",
            Protocol::Tcp => "tcp",
        }
    }
}

/// The version of IP below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// Both, in the order of their discriminants.
    pub const ALL: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];
    /// How many there are.
    pub const COUNT: usize = IpVersion::ALL.len();

    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            IpVersion::V4 => 4,
            IpVersion::V6 => 6,
        }
    }
}

/// How a question arrived: the protocol and the version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transport {
    /// The protocol.
    pub protocol: Protocol,
    /// The version of IP.
    pub ip: IpVersion,
}

impl Transport {
    /// UDP over IPv4.
    pub const UDP4: Transport = Transport::new(Protocol::Udp, IpVersion::V4);
    /// UDP over IPv6.
    pub const UDP6: Transport = Transport::new(Protocol::Udp, IpVersion::V6);
    /// TCP over IPv4.
    pub const TCP4: Transport = Transport::new(Protocol::Tcp, IpVersion::V4);
    /// TCP over IPv6.
    pub const TCP6: Transport = Transport::new(Protocol::Tcp, IpVersion::V6);
    /// All transports.
    pub const ALL: [Transport; 4] = [
        Transport::UDP4,
        Transport::UDP6,
        Transport::TCP4,
        Transport::TCP6,
    ];

    const fn new(protocol: Protocol, ip: IpVersion) -> Self {
        Transport { protocol, ip }
    }

    /// The transport by which a client at this address is reached.
    #[inline]
    pub fn to(protocol: Protocol, client: IpAddr) -> Self {
        let ip = match client {
            IpAddr::V4(_) => IpVersion::V4,
            IpAddr::V6(_) => IpVersion::V6,
        };
        Transport { protocol, ip }
    }
}

/// The outcome of a question, as the rings and the outcome counters see it.
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
    /// REFUSED because the zone is not for this client.
    Denied,
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
    /// A counter that is kept for each transport.
    Traffic {
        Queries,
        Answers,
        AnswerBytes,
        /// With the COOKIE option (RFC 7873).
        CookieQueries,
        /// With the DO bit (RFC 3225).
        DoQueries,
    }
}

counters! {
    /// A counter that a recorder keeps. Its page name and description stand in the table of variables.
    Counter {
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
        SigningWaits,
        SigningRefusals,
        QueryDenied,
        BlackholeDrops,
        TsigFailures,
        TransfersOut,
        TransfersOutFailed,
        TransfersOutRefused,
        QueryLogDrops,
        DnstapDrops,
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
        SigningQueue,
        XfrQueue,
        SecondariesStale,
        SecondariesExpired,
        SecondariesRefreshAge,
        StoredSignaturesBroken,
        StoredSignaturesEnding,
        TransfersInWhole,
        TransfersInIncremental,
        TransfersInNotNewer,
        TransfersInRefused,
        TransfersInFailed,
        NotifyWaiting,
        NotifySent,
        DnssecSignedZones,
        DnssecSignatureSecondsLeft,
        DnssecWaitingForParent,
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
