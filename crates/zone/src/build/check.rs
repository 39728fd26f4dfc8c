//! Per-name checks that run while a name is packed: SOA, NSEC3 cost, data at a delegation.

use super::ZoneBuilder;
use crate::draft::Draft;
use crate::large_rrset::LargeRrset;
use nameward_wire::Type;

/// Maximum NSEC3 iterations a zone may use.
const MAX_ITERATIONS: u16 = 100;

impl ZoneBuilder {
    /// Checks that there is one SOA, at the apex (RFC 1035 section 5.2).
    pub(super) fn check_soa(&mut self, draft: &Draft, is_apex: bool) {
        let Some(soa) = draft.entries.iter().find(|e| e.rtype == Type::SOA) else {
            return;
        };
        if is_apex {
            self.soa_from = soa.from;
            return;
        }
        let name = self.current_name;
        let message = format_args!(
            "expected the SOA record at {}, found one at {name}",
            self.apex_name
        );
        self.findings
            .name_error(soa.from, message, self.is_tolerant);
        self.add_broken(name.as_name(), None);
    }

    /// Rejects high NSEC3 iteration counts, which are expensive for the server and its clients (RFC 9276,
    /// CVE-2023-50868).
    pub(super) fn check_iterations(&mut self, draft: &Draft) {
        for entry in &draft.entries {
            if matches!(entry.rtype, Type::NSEC3 | Type::NSEC3PARAM)
                && let Some(&[_, _, high, low]) = draft.rdata(entry).first_chunk()
                && u16::from_be_bytes([high, low]) > MAX_ITERATIONS
            {
                let found = u16::from_be_bytes([high, low]);
                let message = format_args!(
                    "expected at most {MAX_ITERATIONS} NSEC3 iterations, found {found}"
                );
                self.findings
                    .name_error(entry.from, message, self.is_tolerant);
                let name = self.current_name;
                self.add_broken(name.as_name(), None);
            }
        }
        self.warn_of_iterations(draft);
    }

    /// Warns about NSEC3 iterations: they protect nothing and cost this server and every validator CPU time (RFC 9276
    /// section 3.1).
    fn warn_of_iterations(&mut self, draft: &Draft) {
        if self.is_tolerant || self.findings.are_silent() {
            return;
        }
        for entry in &draft.entries {
            if entry.rtype == Type::NSEC3PARAM
                && let Some(&[_, _, high, low]) = draft.rdata(entry).first_chunk()
                && let found @ 1..=MAX_ITERATIONS = u16::from_be_bytes([high, low])
            {
                let name = self.current_name;
                let message = format_args!(
                    "{name} has {found} NSEC3 iterations; sign the zone with 0 (RFC 9276)"
                );
                self.findings.warning(entry.from, message);
            }
        }
    }

    /// Warns about RRsets that do not fit into a TCP message of 65,535 octets (RFC 1035 section 4.2.2).
    #[inline]
    pub(super) fn warn_of_large_rrset(&mut self, draft: &Draft) {
        if let Some((first, octets)) = draft.oversized() {
            let large = LargeRrset {
                owner: self.current_name,
                rtype: first.rtype,
                octets,
            };
            self.findings.warning(first.from, format_args!("{large}"));
        }
    }

    pub(super) fn warn_of_data_at_cut(&mut self, draft: &Draft) {
        // RFC 4035 section 2.6 and RFC 1034 section 4.2.1: types allowed on the parent side of a cut.
        let allowed = |t| {
            matches!(
                t,
                Type::NS | Type::DS | Type::NSEC | Type::RRSIG | Type::A | Type::AAAA
            )
        };
        if let Some(other) = draft.entries.iter().find(|e| !allowed(e.rtype)) {
            let message = format_args!(
                "{} {} is at a delegation: not served",
                self.current_name, other.rtype
            );
            self.findings.warning(other.from, message);
        }
    }

    /// Warns about a wildcard with NS records, whose meaning RFC 4592 section 4.2 leaves undefined.
    pub(super) fn warn_of_wildcard_cut(&mut self, draft: &Draft) {
        if self.current_name.as_name().is_wildcard()
            && let Some(ns) = draft.entries.iter().find(|e| e.rtype == Type::NS)
        {
            let message = format_args!(
                "{} NS is a wildcard delegation: RFC 4592 leaves its meaning undefined, BIND rejects such zones, and \
                 validators reject answers for the names it matches",
                self.current_name
            );
            self.findings.warning(ns.from, message);
        }
    }
}

/// Checks whether a type has its own rules that are checked when its records are packed.
pub(super) fn is_checked_alone(rtype: Type) -> bool {
    matches!(
        rtype,
        Type::SOA
            | Type::CNAME
            | Type::DNAME
            | Type::PTR
            | Type::LUA
            | Type::NSEC3
            | Type::NSEC3PARAM
    )
}
