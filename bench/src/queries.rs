//! Questions in wire form, prepared in memory before a run, with the kind of answer each must get.

use nameward_testkit::wire::{QuestionEdns, encode_opt};

/// The largest prepared query: a header, a name of 255 octets, type, class and OPT.
pub const MAX_QUERY: usize = 12 + 255 + 4 + 11;

/// The kind of answer that is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Expected {
    /// NOERROR with answer records.
    Data,
    /// NOERROR with two answer records at least: the data and its signature.
    SignedData,
    /// NOERROR, authoritative, without answer records.
    NoData,
    /// NXDOMAIN.
    NxDomain,
    /// NOERROR, not authoritative, with authority records only.
    Referral,
}

impl Expected {
    /// Whether the header of an answer is of this kind.
    pub fn matches(self, header: &[u8; 12]) -> bool {
        let authoritative = header[2] & 0x04 != 0;
        let rcode = header[3] & 0x0f;
        let answers = (header[6], header[7]) != (0, 0);
        let authority = (header[8], header[9]) != (0, 0);
        match self {
            Self::Data => rcode == 0 && answers,
            Self::SignedData => rcode == 0 && (header[6] > 0 || header[7] > 1),
            Self::NoData => rcode == 0 && authoritative && !answers,
            Self::NxDomain => rcode == 3,
            Self::Referral => rcode == 0 && !authoritative && !answers && authority,
        }
    }
}

/// A list of queries, packed one after the other.
#[derive(Debug)]
pub struct Queries {
    octets: Vec<u8>,
    ends: Vec<u32>,
    expected: Vec<Expected>,
    edns: QuestionEdns,
}

impl Queries {
    /// An empty list with room for `count` queries.
    pub fn with_capacity(count: usize, edns: QuestionEdns) -> Self {
        Self {
            octets: Vec::with_capacity(count * 56),
            ends: Vec::with_capacity(count),
            expected: Vec::with_capacity(count),
            edns,
        }
    }

    /// Adds a query of class IN with ID 0. The name has no escapes and no final dot.
    pub fn push(&mut self, name: &str, rtype: u16, expected: Expected) {
        let opt = self.edns.opt();
        let octets = &mut self.octets;
        octets.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(opt.is_some())]);
        for label in name.split('.') {
            assert!((1..64).contains(&label.len()), "a scenario made {name:?}");
            octets.push(label.len() as u8);
            octets.extend_from_slice(label.as_bytes());
        }
        octets.push(0);
        octets.extend_from_slice(&rtype.to_be_bytes());
        octets.extend_from_slice(&[0, 1]);
        if let Some(opt) = opt {
            encode_opt(octets, &opt);
        }
        self.ends.push(octets.len() as u32);
        self.expected.push(expected);
    }

    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the message of one query.
    pub fn message(&self, index: usize) -> &[u8] {
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1] as usize,
        };
        &self.octets[start..self.ends[index] as usize]
    }

    /// The kind of answer that is right for it.
    pub fn expected(&self, index: usize) -> Expected {
        self.expected[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_in_wire_format_with_opt() {
        let mut queries = Queries::with_capacity(2, QuestionEdns::Dnssec);
        queries.push("a.bc", 1, Expected::Data);
        queries.push("d", 28, Expected::NxDomain);
        let expected: &[u8] = b"\0\0\0\0\0\x01\0\0\0\0\0\x01\x01a\x02bc\0\0\x01\0\x01\
            \0\0\x29\x04\xd0\0\0\x80\0\0\0";
        assert_eq!(queries.message(0), expected);
        assert_eq!(&queries.message(1)[12..19], b"\x01d\0\0\x1c\0\x01");
        assert_eq!(queries.expected(1), Expected::NxDomain);
    }

    #[test]
    fn each_kind_of_answer_matches_only_itself() {
        let kinds = [
            (Expected::Data, [0, 0, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0]),
            (Expected::NoData, [0, 0, 0x84, 0, 0, 1, 0, 0, 0, 1, 0, 0]),
            (Expected::NxDomain, [0, 0, 0x84, 3, 0, 1, 0, 0, 0, 1, 0, 0]),
            (Expected::Referral, [0, 0, 0x80, 0, 0, 1, 0, 0, 0, 2, 0, 1]),
        ];
        for (i, (_, header)) in kinds.iter().enumerate() {
            for (j, (kind, _)) in kinds.iter().enumerate() {
                assert_eq!(kind.matches(header), i == j, "{kind:?} {header:?}");
            }
        }
        assert!(!Expected::Data.matches(&[0, 0, 0x84, 5, 0, 1, 0, 0, 0, 0, 0, 0]));
    }
}
