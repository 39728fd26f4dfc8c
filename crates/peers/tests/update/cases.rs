//! Every form of prerequisite and step, and what it does: one table for zones in memory and for all databases.

use nameward_wire::Rcode::{self, FormErr, NoError, NotZone, NxDomain, NxRrset, YxDomain, YxRrset};

/// The zone that each case begins with.
pub const ZONE: &str = r#"
@ SOA ns1 host 10 3600 600 86400 300
@ NS ns1
@ NS ns2
@ MX 10 mail
ns1 A 192.0.2.1
ns2 A 192.0.2.2
mail A 192.0.2.3
www A 192.0.2.10
www A 192.0.2.11
www TXT "web"
alias CNAME www
host.ent A 192.0.2.20
*.wild A 192.0.2.21
sub NS ns.sub
ns.sub A 192.0.2.30
old DNAME www
"#;

/// A case: its sentence, the message, the response code, and the records that go (`-`) and come (`+`) besides the SOA.
pub struct Case(
    pub &'static str,
    pub &'static str,
    pub Rcode,
    pub &'static [&'static str],
);

/// Whether the case sets a serial of its own.
impl Case {
    pub fn sets_serial(&self) -> bool {
        self.1.contains(" SOA ") && self.3.is_empty() && self.0.contains("serial of the update")
    }
}

const ADD: &str = "\nadd new 60 A 192.0.2.99";
const ADDED: &[&str] = &["+new 60 A 192.0.2.99"];

macro_rules! with_add {
    ($prerequisite:literal) => {
        concat!($prerequisite, "\nadd new 60 A 192.0.2.99")
    };
}

pub const CASES: &[Case] = &[
    // RFC 2136 section 2.4: prerequisites.
    Case(
        "a name in use is in use",
        with_add!("prereq yxdomain www"),
        NoError,
        ADDED,
    ),
    Case(
        "a name without records is not in use",
        with_add!("prereq yxdomain nosuch"),
        NxDomain,
        &[],
    ),
    Case(
        "an empty non-terminal is not in use",
        with_add!("prereq yxdomain ent"),
        NxDomain,
        &[],
    ),
    Case(
        "a name that a wildcard covers is not in use",
        with_add!("prereq yxdomain a.wild"),
        NxDomain,
        &[],
    ),
    Case(
        "a name without records is free",
        with_add!("prereq nxdomain nosuch"),
        NoError,
        ADDED,
    ),
    Case(
        "an empty non-terminal is free",
        with_add!("prereq nxdomain ent"),
        NoError,
        ADDED,
    ),
    Case(
        "a name in use is not free",
        with_add!("prereq nxdomain WWW"),
        YxDomain,
        &[],
    ),
    Case(
        "an RRset exists",
        with_add!("prereq yxrrset www A"),
        NoError,
        ADDED,
    ),
    Case(
        "an RRset of another type does not exist",
        with_add!("prereq yxrrset www AAAA"),
        NxRrset,
        &[],
    ),
    Case(
        "an RRset of no name does not exist",
        with_add!("prereq yxrrset nosuch A"),
        NxRrset,
        &[],
    ),
    Case(
        "an RRset is absent",
        with_add!("prereq nxrrset www AAAA"),
        NoError,
        ADDED,
    ),
    Case(
        "an RRset is not absent",
        with_add!("prereq nxrrset www A"),
        YxRrset,
        &[],
    ),
    Case(
        "an RRset has these data in any order and between others",
        with_add!(
            "prereq yxrrset www A 192.0.2.11\nprereq yxrrset www TXT \"web\"\nprereq yxrrset WWW A 192.0.2.10"
        ),
        NoError,
        ADDED,
    ),
    Case(
        "an RRset with more data is another",
        with_add!("prereq yxrrset www A 192.0.2.10"),
        NxRrset,
        &[],
    ),
    Case(
        "an RRset with fewer data is another",
        with_add!(
            "prereq yxrrset www A 192.0.2.10\nprereq yxrrset www A 192.0.2.11\nprereq yxrrset www A 192.0.2.12"
        ),
        NxRrset,
        &[],
    ),
    Case(
        "an RRset of no name has no data",
        with_add!("prereq yxrrset nosuch A 192.0.2.1"),
        NxRrset,
        &[],
    ),
    Case(
        "names in data are compared without case",
        with_add!("prereq yxrrset alias CNAME WwW"),
        NoError,
        ADDED,
    ),
    Case(
        "all prerequisites count",
        with_add!("prereq yxdomain www\nprereq nxrrset www A"),
        YxRrset,
        &[],
    ),
    // Their forms, section 3.2.
    Case(
        "a prerequisite has no TTL",
        with_add!("raw prereq www 1 255 1"),
        FormErr,
        &[],
    ),
    Case(
        "a prerequisite of class ANY has no data",
        with_add!("raw prereq www 1 255 0 c0000201"),
        FormErr,
        &[],
    ),
    Case(
        "a prerequisite of class NONE has no data",
        with_add!("raw prereq www 1 254 0 c0000201"),
        FormErr,
        &[],
    ),
    Case(
        "a prerequisite is of the zone's class, ANY or NONE",
        with_add!("raw prereq www 1 3 0"),
        FormErr,
        &[],
    ),
    Case(
        "a prerequisite is in the zone",
        with_add!("prereq yxdomain www.elsewhere."),
        NotZone,
        &[],
    ),
    Case(
        "a value has a type",
        with_add!("raw prereq www 255 1 0"),
        FormErr,
        &[],
    ),
    Case(
        "a value is well formed",
        with_add!("raw prereq www 1 1 0 c00002"),
        FormErr,
        &[],
    ),
    Case(
        "no prerequisite is about a transfer",
        with_add!("raw prereq www 252 255 0"),
        FormErr,
        &[],
    ),
    // Section 2.5.1: additions.
    Case("a record is added to no name", ADD, NoError, ADDED),
    Case(
        "a record is added to an RRset",
        "add www 300 A 192.0.2.12",
        NoError,
        &["+www 300 A 192.0.2.12"],
    ),
    Case(
        "a record that is there changes nothing",
        "add www 300 A 192.0.2.10",
        NoError,
        &[],
    ),
    Case(
        "a TTL becomes that of the RRset",
        "add www 60 A 192.0.2.10",
        NoError,
        &[
            "-www 300 A 192.0.2.10",
            "-www 300 A 192.0.2.11",
            "+www 60 A 192.0.2.10",
            "+www 60 A 192.0.2.11",
        ],
    ),
    Case(
        "a TTL above the highest counts as 0",
        "raw update new 1 1 2147483648 c0000263",
        NoError,
        &["+new 0 A 192.0.2.99"],
    ),
    Case(
        "a CNAME is replaced",
        "add alias 300 CNAME mail",
        NoError,
        &["-alias 300 CNAME www", "+alias 300 CNAME mail"],
    ),
    Case(
        "a DNAME is replaced",
        "add old 300 DNAME mail",
        NoError,
        &["-old 300 DNAME www", "+old 300 DNAME mail"],
    ),
    Case(
        "a CNAME beside other data is ignored",
        "add www 300 CNAME mail\nadd new 60 A 192.0.2.99",
        NoError,
        ADDED,
    ),
    Case(
        "a CNAME at the apex is ignored",
        "add @ 300 CNAME mail",
        NoError,
        &[],
    ),
    Case(
        "other data beside a CNAME are ignored",
        "add alias 300 A 192.0.2.9\nadd new 60 A 192.0.2.99",
        NoError,
        ADDED,
    ),
    Case(
        "a CNAME takes the place of what is deleted before it",
        "delete www\nadd www 300 CNAME mail",
        NoError,
        &[
            "-www 300 A 192.0.2.10",
            "-www 300 A 192.0.2.11",
            "-www 300 TXT \"web\"",
            "+www 300 CNAME mail",
        ],
    ),
    Case(
        "records of an unknown type are added",
        "raw update new 65280 1 60 0102",
        NoError,
        &["+new 60 TYPE65280 \\# 2 0102"],
    ),
    Case(
        "a SOA with a later serial is the serial of the update",
        "add @ 300 SOA ns1 host 20 3600 600 86400 300",
        NoError,
        &[],
    ),
    Case(
        "a SOA with the same serial is ignored",
        "add @ 300 SOA ns1 other 10 3600 600 86400 300",
        NoError,
        &[],
    ),
    Case(
        "a SOA with an earlier serial is ignored",
        "add @ 300 SOA ns1 other 9 3600 600 86400 300\nadd new 60 A 192.0.2.99",
        NoError,
        ADDED,
    ),
    Case(
        "a SOA below the apex is ignored",
        "add www 300 SOA ns1 host 20 3600 600 86400 300",
        NoError,
        &[],
    ),
    Case(
        "DHCID beside an address, as DHCP servers do",
        "prereq nxdomain lease\nadd lease 600 A 192.0.2.77\nadd lease 600 DHCID AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=",
        NoError,
        &[
            "+lease 600 A 192.0.2.77",
            "+lease 600 DHCID AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=",
        ],
    ),
    // Sections 2.5.2 to 2.5.4: deletions.
    Case(
        "an RRset is deleted",
        "delete www A",
        NoError,
        &["-www 300 A 192.0.2.10", "-www 300 A 192.0.2.11"],
    ),
    Case(
        "an RRset that is not there changes nothing",
        "delete www AAAA\ndelete nosuch A",
        NoError,
        &[],
    ),
    Case(
        "a name is deleted",
        "delete WWW",
        NoError,
        &[
            "-www 300 A 192.0.2.10",
            "-www 300 A 192.0.2.11",
            "-www 300 TXT \"web\"",
        ],
    ),
    Case(
        "a name that is not there changes nothing",
        "delete nosuch",
        NoError,
        &[],
    ),
    Case(
        "SOA and NS stay when the apex is deleted",
        "delete @",
        NoError,
        &["-@ 300 MX 10 mail"],
    ),
    Case(
        "the NS of the apex are not deleted as an RRset",
        "delete @ NS\ndelete @ SOA",
        NoError,
        &[],
    ),
    Case(
        "a record is deleted",
        "delete www A 192.0.2.10",
        NoError,
        &["-www 300 A 192.0.2.10"],
    ),
    Case(
        "a record is deleted whatever the case of its name",
        "delete @ NS NS1",
        NoError,
        &["-@ 300 NS ns1"],
    ),
    Case(
        "a record that is not there changes nothing",
        "delete www A 192.0.2.13",
        NoError,
        &[],
    ),
    Case(
        "the last NS of the apex stays",
        "delete @ NS ns1\ndelete @ NS ns2",
        NoError,
        &["-@ 300 NS ns1"],
    ),
    Case(
        "the NS of the apex are replaced one by one",
        "delete @ NS ns1\nadd @ 300 NS mail\ndelete @ NS ns2",
        NoError,
        &["-@ 300 NS ns1", "-@ 300 NS ns2", "+@ 300 NS mail"],
    ),
    Case(
        "the SOA is not deleted as a record",
        "delete @ SOA ns1 host 10 3600 600 86400 300",
        NoError,
        &[],
    ),
    Case(
        "the last NS of a delegation goes",
        "delete sub NS ns.sub",
        NoError,
        &["-sub 300 NS ns.sub"],
    ),
    Case(
        "what is added and deleted again changes nothing",
        "add new 60 A 192.0.2.99\ndelete new",
        NoError,
        &[],
    ),
    Case(
        "steps are taken in order",
        "delete www A\nadd www 300 A 192.0.2.10",
        NoError,
        &["-www 300 A 192.0.2.11"],
    ),
    // Their forms, section 3.4.1.
    Case(
        "nothing is done of a message that is wrong at its end",
        "add new 60 A 192.0.2.99\nraw update www 1 3 0",
        FormErr,
        &[],
    ),
    Case(
        "a step is in the zone",
        "add new 60 A 192.0.2.99\nadd www.elsewhere. 60 A 192.0.2.1",
        NotZone,
        &[],
    ),
    Case(
        "a deletion of an RRset has no TTL",
        "raw update www 1 255 1",
        FormErr,
        &[],
    ),
    Case(
        "a deletion of an RRset has no data",
        "raw update www 1 255 0 c0000201",
        FormErr,
        &[],
    ),
    Case(
        "a deletion of a record has no TTL",
        "raw update www 1 254 1 c000020a",
        FormErr,
        &[],
    ),
    Case(
        "a deletion of a record has a type",
        "raw update www 255 254 0",
        FormErr,
        &[],
    ),
    Case(
        "an addition has a type",
        "raw update www 255 1 0",
        FormErr,
        &[],
    ),
    Case(
        "an addition is well formed",
        "raw update new 1 1 60 c00002",
        FormErr,
        &[],
    ),
    Case(
        "no zone has records of meta types",
        "raw update new 41 1 60",
        FormErr,
        &[],
    ),
    Case(
        "no transfer is deleted",
        "raw update www 252 255 0",
        FormErr,
        &[],
    ),
    Case(
        "no mailbox is deleted",
        "raw update www 253 254 0",
        FormErr,
        &[],
    ),
    Case(
        "an update without steps changes nothing",
        "prereq yxdomain www",
        NoError,
        &[],
    ),
];
