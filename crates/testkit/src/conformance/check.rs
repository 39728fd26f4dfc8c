//! Comparison of a reply with the expected one: first the rules for every reply, then those in the file.

use super::send::Query;
use super::{ExpectedEdns, Line, Reply, Section};
use crate::wire::{Message, Record, Transport, fold, rcode_text};

const SECTION_NAMES: [&str; 3] = ["answer", "authority", "additional"];

/// How strictly a server is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judge {
    /// Our own server: every detail of the file.
    Strict,
    /// Another server: it may add the apex NS RRset and unrequested addresses, and need not send optional extended
    /// errors.
    Lenient,
}

/// Returns everything that is wrong with a reply; empty if it is correct.
pub fn check(
    query: Option<&Query>,
    reply: &Message,
    due: &Reply,
    transport: Transport,
    judge: Judge,
) -> Vec<String> {
    let mut wrong = Vec::new();
    check_header(query, reply, due, judge, &mut wrong);
    check_question(query, reply, due, &mut wrong);
    check_size(query, reply, due, transport, &mut wrong);
    check_edns(query, reply, &due.edns, judge, &mut wrong);
    let received = [&reply.answer, &reply.authority, &reply.additional];
    for (index, (records, section)) in received.into_iter().zip(&due.sections).enumerate() {
        check_unique(SECTION_NAMES[index], records, &mut wrong);
        check_section(index, records, section, judge, &mut wrong);
    }
    wrong
}

fn check_header(
    query: Option<&Query>,
    reply: &Message,
    due: &Reply,
    judge: Judge,
    wrong: &mut Vec<String>,
) {
    if reply.flags & 0x8000 == 0 {
        wrong.push("QR is not set".into());
    }
    if !due.rcodes.contains(&reply.rcode()) {
        let names: Vec<String> = due.rcodes.iter().map(|code| rcode_text(*code)).collect();
        wrong.push(format!(
            "{} instead of {}",
            rcode_text(reply.rcode()),
            names.join(" or ")
        ));
    }
    if let Some(query) = query {
        if reply.opcode() != (query.flags >> 11) & 15 {
            wrong.push(format!("opcode {} is not the query's", reply.opcode()));
        }
        // RFC 1035 section 4.1.1: RD is copied into the response.
        if (reply.flags ^ query.flags) & 0x0100 != 0 {
            wrong.push("RD is not copied".into());
        }
    }
    // RFC 6895 section 2.1: Z is zero. An authoritative server offers no recursion.
    for (bit, name) in [(0x0080, "RA"), (0x0040, "Z")] {
        if reply.flags & bit != 0 {
            wrong.push(format!("{name} is set"));
        }
    }
    let mut either = due.either;
    if judge == Judge::Lenient {
        either |= 0x0010;
    }
    for (bit, name) in [
        (0x0400, "AA"),
        (0x0200, "TC"),
        (0x0020, "AD"),
        (0x0010, "CD"),
    ] {
        let differs = (reply.flags ^ due.flags) & bit != 0;
        if differs && either & bit == 0 {
            wrong.push(format!(
                "{name} is {}",
                if due.flags & bit == 0 {
                    "set"
                } else {
                    "not set"
                }
            ));
        }
    }
}

fn check_question(query: Option<&Query>, reply: &Message, due: &Reply, wrong: &mut Vec<String>) {
    match (query, &reply.question[..]) {
        (_, []) if due.question_optional || query.is_none() => {}
        // Octet for octet: the case of the letters is the client's defence against forgery.
        (Some(query), [question]) if *question == query.question => {}
        (Some(query), _) => wrong.push(format!(
            "question {:?} is not {}",
            reply.question, query.question.name
        )),
        (None, _) => {}
    }
}

fn check_size(
    query: Option<&Query>,
    reply: &Message,
    due: &Reply,
    transport: Transport,
    wrong: &mut Vec<String>,
) {
    let payload = query
        .and_then(|query| query.opt.as_ref())
        .map_or(512, |opt| opt.size.max(512));
    let mut limit = due.max_size.unwrap_or(65535);
    if transport == Transport::Udp {
        limit = limit.min(payload as usize);
    }
    if reply.length > limit {
        wrong.push(format!("{} octets, over {limit}", reply.length));
    }
    if transport == Transport::Tcp && reply.truncated() {
        wrong.push("TC over TCP".into());
    }
}

fn check_edns(
    query: Option<&Query>,
    reply: &Message,
    due: &ExpectedEdns,
    judge: Judge,
    wrong: &mut Vec<String>,
) {
    let in_query = query.map(|query| query.opt.is_some());
    let present = reply.opt.is_some();
    if due.present.or(in_query).is_some_and(|due| due != present) {
        wrong.push(format!(
            "OPT is {}",
            if present { "there" } else { "missing" }
        ));
    }
    let Some(opt) = &reply.opt else { return };
    if opt.version != 0 {
        wrong.push(format!("EDNS version {}", opt.version));
    }
    // RFC 6891 section 6.1.4: undefined flags are zero in replies.
    if opt.flags & 0x7fff != 0 {
        wrong.push(format!("EDNS flags {:#06x}", opt.flags));
    }
    let do_in_query = query
        .and_then(|query| query.opt.as_ref())
        .map(|opt| opt.dnssec_ok());
    if do_in_query.is_some_and(|is_set| is_set != opt.dnssec_ok()) {
        wrong.push("DO is not copied".into());
    }
    if due.size.is_some_and(|size| size != opt.size) && judge == Judge::Strict {
        wrong.push(format!("EDNS size {}", opt.size));
    }
    let ede = opt
        .option(15)
        .and_then(|data| Some(u16::from_be_bytes(*data.first_chunk()?)));
    if judge == Judge::Strict
        && !due.ede.is_empty()
        && !ede.is_some_and(|code| due.ede.contains(&code))
    {
        wrong.push(format!("extended error {ede:?} instead of {:?}", due.ede));
    }
    match (opt.option(3), &due.nsid) {
        (None, None) => {}
        (Some(_), None) => wrong.push("unrequested NSID".into()),
        (None, Some(_)) => wrong.push("no NSID".into()),
        (Some(data), Some(text)) => {
            if !text.is_empty() && data != text.as_bytes() && judge == Judge::Strict {
                wrong.push(format!("NSID {:?}", String::from_utf8_lossy(data)));
            }
        }
    }
}

fn check_unique(name: &str, records: &[Record], wrong: &mut Vec<String>) {
    for (index, record) in records.iter().enumerate() {
        if records[..index].contains(record) {
            wrong.push(format!("twice in {name}: {record}"));
        }
    }
}

fn rrset_of(record: &Record) -> String {
    format!("{} {}", record.owner, crate::wire::type_text(record.rtype)).to_ascii_lowercase()
}

fn matches(line: &Line, record: &Record) -> bool {
    let mut shown = record.clone();
    if line.record.split(' ').nth(1) == Some("*") {
        shown.ttl = 0;
        return fold(&line.record.replacen(" * ", " 0 ", 1)) == shown.comparable();
    }
    fold(&line.record) == shown.comparable()
}

fn check_section(
    index: usize,
    records: &[Record],
    due: &Section,
    judge: Judge,
    wrong: &mut Vec<String>,
) {
    let name = SECTION_NAMES[index];
    let mut listed: Vec<&Line> = due.records.iter().collect();
    if due.one_rrset {
        let Some(first) = records.first() else {
            wrong.push(format!("{name} is empty"));
            return;
        };
        listed.retain(|line| line.rrset == rrset_of(first));
    }
    let present: Vec<String> = records.iter().map(rrset_of).collect();
    for line in &listed {
        let excused = line.optional && !present.contains(&line.rrset);
        if !excused && !records.iter().any(|record| matches(line, record)) {
            wrong.push(format!(
                "missing in {name} (line {}): {}",
                line.line, line.record
            ));
        }
    }
    for record in records {
        let known = listed.iter().any(|line| matches(line, record));
        let excused = due.open || (judge == Judge::Lenient && is_optional(index, record));
        if !known && !excused {
            wrong.push(format!("unexpected in {name}: {record}"));
        }
    }
    if index == 0 {
        check_order(records, &listed, wrong);
    }
}

/// Checks whether a record is one that non-minimal servers add: apex NS in the authority section, and addresses.
fn is_optional(index: usize, record: &Record) -> bool {
    match index {
        1 => record.rtype == 2,
        2 => matches!(record.rtype, 1 | 28),
        _ => false,
    }
}

/// Checks that the RRsets of the answer are in the listed order: a chain is read from its start.
fn check_order(records: &[Record], listed: &[&Line], wrong: &mut Vec<String>) {
    let mut order: Vec<String> = records.iter().map(rrset_of).collect();
    order.dedup();
    let mut due: Vec<String> = listed.iter().map(|line| line.rrset.clone()).collect();
    due.dedup();
    due.retain(|rrset| order.contains(rrset));
    order.retain(|rrset| due.contains(rrset));
    if order != due {
        wrong.push(format!("answer in the order {order:?}"));
    }
}
