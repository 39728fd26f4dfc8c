//! The vocabulary of the statistics: counters, transports and outcomes.
//!
//! Sums (`udp-queries`) are not counters: they are derived when read, so that they are consistent in every snapshot.

use std::net::IpAddr;

/// The protocol that carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// Datagrams.
    Udp,
    /// Streams.
    Tcp,
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over HTTPS (RFC 8484).
    Https,
    /// DNS over QUIC (RFC 9250).
    Quic,
}

impl Protocol {
    /// All protocols, in discriminant order.
    pub const ALL: [Protocol; 5] = [
        Protocol::Udp,
        Protocol::Tcp,
        Protocol::Tls,
        Protocol::Https,
        Protocol::Quic,
    ];
    /// Number of protocols.
    pub const COUNT: usize = Protocol::ALL.len();

    /// Returns the name used in metric labels.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Udp => "udp",
            Protocol::Tcp => "tcp",
            Protocol::Tls => "tls",
            Protocol::Https => "https",
            Protocol::Quic => "quic",
        }
    }

    /// Whether messages are encrypted on their way.
    pub fn is_encrypted(self) -> bool {
        match self {
            Protocol::Udp | Protocol::Tcp => false,
            Protocol::Tls | Protocol::Https | Protocol::Quic => true,
        }
    }
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// Both versions, in discriminant order.
    pub const ALL: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];
    /// Number of versions.
    pub const COUNT: usize = IpVersion::ALL.len();

    /// Returns the version number.
    pub fn number(self) -> u8 {
        match self {
            IpVersion::V4 => 4,
            IpVersion::V6 => 6,
        }
    }
}

/// How a query arrived: the protocol and the IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transport {
    /// The protocol.
    pub protocol: Protocol,
    /// The IP version.
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
    pub const ALL: [Transport; 10] = [
        Transport::UDP4,
        Transport::UDP6,
        Transport::TCP4,
        Transport::TCP6,
        Transport::new(Protocol::Tls, IpVersion::V4),
        Transport::new(Protocol::Tls, IpVersion::V6),
        Transport::new(Protocol::Https, IpVersion::V4),
        Transport::new(Protocol::Https, IpVersion::V6),
        Transport::new(Protocol::Quic, IpVersion::V4),
        Transport::new(Protocol::Quic, IpVersion::V6),
    ];

    const fn new(protocol: Protocol, ip: IpVersion) -> Self {
        Transport { protocol, ip }
    }

    /// Returns the transport by which a client at this address is reached.
    #[inline]
    pub fn to(protocol: Protocol, client: IpAddr) -> Self {
        let ip = match client {
            IpAddr::V4(_) => IpVersion::V4,
            IpAddr::V6(_) => IpVersion::V6,
        };
        Transport { protocol, ip }
    }
}

/// The outcome of a query, for the rings and the outcome counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// Records were found (or a CNAME chain that ends in records).
    Answer,
    /// The name exists, the type does not.
    NoData,
    /// The name does not exist in a served zone.
    NxDomain,
    /// REFUSED because no served zone matches.
    Unauth,
    /// REFUSED because the client may not query the zone.
    Denied,
    /// SERVFAIL because a backend failed or its data is unusable.
    BackendFailure,
    /// A referral was sent.
    Referral,
    /// Anything else: FORMERR, NOTIMP, BADVERS, transfers, NOTIFY, UPDATE.
    Other,
}

macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // described in the table of variables
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All values, in discriminant order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// Number of values.
            pub const COUNT: usize = $name::ALL.len();
        }
    };
}

counters! {
    /// A counter kept for each transport.
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
    /// A counter kept by a recorder. Its name on the page and its description are in the table of variables.
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
        LuaRuns,
        LuaFailures,
        SigningWaits,
        SigningRefusals,
        QueryDenied,
        BlackholeDrops,
        ProxyHeaderErrors,
        XdpDrops,
        ClientShareRefusals,
        TsigFailures,
        TransfersOut,
        TransfersOutFailed,
        TransfersOutRefused,
        QueryLogDrops,
        CookiesValid,
        CookiesInvalid,
        CookieRefusals,
        ClientSubnetQueries,
        ClientSubnetErrors,
        RateLimitDrops,
        RateLimitSlips,
        RateLimitLogged,
        DnstapDrops,
        TlsHandshakes,
        TlsHandshakesFailed,
    }
}

counters! {
    /// A value that goes up and down and is owned by some component of the server.
    Gauge {
        PacketcacheSize,
        QueryCacheSize,
        ZoneCacheSize,
        KeyCacheSize,
        MetaCacheSize,
        SignatureCacheSize,
        OpenTcpConnections,
        OpenTlsConnections,
        OpenHttpsConnections,
        OpenQuicConnections,
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
        DatabaseLagChanges,
        DatabaseLagSeconds,
        DnssecSignedZones,
        DnssecSignatureSecondsLeft,
        DnssecWaitingForParent,
        SecurityStatus,
    }
}

counters! {
    /// A moving average of a time, in microseconds on the page.
    Latency {
        /// From receiving a batch to sending it: each query waits for its whole batch.
        Answer,
        Receive,
        Send,
        Cache,
        Backend,
    }
}
