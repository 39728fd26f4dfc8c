//! Parser for conformance files. Every error names `file:line`.

use super::send::Query;
use super::{Case, Expect, ExpectedEdns, Line, Outgoing, Reply, Section, Suite, ZoneText};
use crate::TestFailure;
use crate::wire::{
    Name, Opt, Question, Transport, class_from_text, rcode_from_text, type_from_text,
};
use std::collections::HashMap;
use std::path::Path;

/// Settings from earlier lines of the file that apply to the next query.
#[derive(Default)]
struct Context<'a> {
    title: &'a str,
    differs: Vec<(String, String)>,
    records: HashMap<&'a str, &'a str>,
}

/// A keyword line with the indented lines below it.
struct Block<'a> {
    line: usize,
    keyword: &'a str,
    rest: &'a str,
    body: Vec<(usize, &'a str)>,
}

/// Parses a whole file.
pub fn parse(path: &Path, text: &str) -> Result<Suite, TestFailure> {
    let mut suite = Suite {
        path: path.to_path_buf(),
        zones: vec![],
        config: String::new(),
        unloadable: vec![],
        cases: vec![],
    };
    let mut context = Context::default();
    for block in blocks(path, text)? {
        read_block(&mut suite, &block, &mut context)
            .map_err(|error| error.at(format_args!("{}:{}", path.display(), block.line)))?;
    }
    if suite.cases.is_empty() {
        return Err(format!("{}: no query", path.display()).into());
    }
    for case in &suite.cases {
        if matches!(&case.expect, Expect::Reply(reply) if reply.rcodes.is_empty()) {
            return Err(format!(
                "{}:{}: query without `reply` or `silence`",
                path.display(),
                case.line
            )
            .into());
        }
    }
    Ok(suite)
}

fn blocks<'a>(path: &Path, text: &'a str) -> Result<Vec<Block<'a>>, TestFailure> {
    let mut blocks: Vec<Block<'a>> = Vec::new();
    for (index, content) in text.lines().enumerate() {
        let line = index + 1;
        if content.trim().is_empty() || content.starts_with('#') {
            continue;
        }
        if content.starts_with([' ', '\t']) {
            let block = blocks
                .last_mut()
                .ok_or(format!("{}:{line}: indented line first", path.display()))?;
            block.body.push((line, content));
            continue;
        }
        let (keyword, rest) = content.split_once(' ').unwrap_or((content, ""));
        blocks.push(Block {
            line,
            keyword: keyword.trim(),
            rest: rest.trim(),
            body: vec![],
        });
    }
    Ok(blocks)
}

fn read_block<'a>(
    suite: &mut Suite,
    block: &Block<'a>,
    context: &mut Context<'a>,
) -> Result<(), TestFailure> {
    match block.keyword {
        "zone" => suite.zones.push(zone(block)?),
        "config" => suite.config.push_str(&undented(&block.body)),
        "test" => {
            context.title = block.rest;
            context.differs.clear();
        }
        "unloadable" => suite.unloadable.extend(differing(block.rest)?),
        "differs" => context.differs.extend(differing(block.rest)?),
        "let" => {
            let (name, record) = block
                .rest
                .split_once(' ')
                .ok_or("`let NAME RECORD` is due")?;
            context.records.insert(name, record.trim());
        }
        "query" | "send" => {
            let (send, transports) = match block.keyword {
                "query" => query(block.rest)?,
                _ => octets(block)?,
            };
            let (title, differs) = (context.title.to_string(), context.differs.clone());
            let expect = Expect::Reply(Box::default());
            suite.cases.push(Case {
                line: block.line,
                title,
                differs,
                send,
                transports,
                expect,
            });
        }
        _ => {
            let case = suite
                .cases
                .last_mut()
                .ok_or(format!("`{}` before any query", block.keyword))?;
            expectation(case, block, &context.records)?;
        }
    }
    let body_allowed = [
        "zone",
        "config",
        "send",
        "answer",
        "authority",
        "additional",
    ];
    if !block.body.is_empty() && !body_allowed.contains(&block.keyword) {
        return Err(format!("`{}` takes no indented lines", block.keyword).into());
    }
    Ok(())
}

fn expectation(
    case: &mut Case,
    block: &Block<'_>,
    known: &HashMap<&str, &str>,
) -> Result<(), TestFailure> {
    if block.keyword == "silence" {
        case.expect = Expect::Silence;
        return Ok(());
    }
    let Expect::Reply(reply) = &mut case.expect else {
        return Err(format!("`{}` after `silence`", block.keyword).into());
    };
    match block.keyword {
        "reply" => read_reply(reply, block.rest)?,
        "answer" => reply.sections[0] = section(block, known)?,
        "authority" => reply.sections[1] = section(block, known)?,
        "additional" => reply.sections[2] = section(block, known)?,
        "edns" => reply.edns = edns(block.rest)?,
        other => return Err(format!("unknown keyword `{other}`").into()),
    }
    Ok(())
}

fn zone(block: &Block<'_>) -> Result<ZoneText, TestFailure> {
    let name = block.rest.trim_end_matches('.').to_string();
    Name::parse(&format!("{name}."))?;
    if block.body.is_empty() {
        return Err("zone without records".into());
    }
    Ok(ZoneText {
        name,
        text: undented(&block.body),
    })
}

/// Returns the body without the indentation of its first line; deeper indentation is kept.
fn undented(body: &[(usize, &str)]) -> String {
    let indent = body
        .first()
        .map_or(0, |(_, text)| text.len() - text.trim_start().len());
    let mut whole = String::new();
    for (_, text) in body {
        let own = text.len() - text.trim_start().len();
        whole.push_str(&text[own.min(indent)..]);
        whole.push('\n');
    }
    whole
}

fn differing(rest: &str) -> Result<Vec<(String, String)>, TestFailure> {
    let (peers, reason) = rest.split_once(':').ok_or("`PEER...: reason` is due")?;
    let known = ["nsd", "knot", "bind"];
    let mut list = Vec::new();
    for peer in peers.split_whitespace() {
        if !known.contains(&peer) {
            return Err(format!("unknown peer `{peer}`; known are {}", known.join(", ")).into());
        }
        list.push((peer.to_string(), reason.trim().to_string()));
    }
    Ok(list)
}

fn number(text: &str) -> Result<u16, TestFailure> {
    let value = match text.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16),
        None => text.parse(),
    };
    value.map_err(|_| format!("`{text}` is not a number of 16 bits").into())
}

fn hex(text: &str) -> Result<Vec<u8>, TestFailure> {
    let pairs = text.as_bytes().chunks(2).map(|pair| {
        let digits = std::str::from_utf8(pair)
            .ok()
            .filter(|digits| digits.len() == 2)?;
        u8::from_str_radix(digits, 16).ok()
    });
    pairs
        .collect::<Option<Vec<u8>>>()
        .ok_or_else(|| format!("`{text}` is not hex").into())
}

fn query(rest: &str) -> Result<(Outgoing, Vec<Transport>), TestFailure> {
    let mut words = rest.split_whitespace();
    let name = Name::parse(words.next().ok_or("query without a name")?)?;
    let rtype = words.next().ok_or("query without a type")?;
    let rtype = type_from_text(rtype).ok_or(format!("unknown type `{rtype}`"))?;
    let question = Question {
        name,
        rtype,
        class: 1,
    };
    let mut query = Query {
        question,
        flags: 0,
        opt: None,
        trailing: vec![],
    };
    let mut transports = vec![Transport::Udp, Transport::Tcp];
    for word in words {
        let Some(option) = word.strip_prefix('+') else {
            query.question.class =
                class_from_text(word).ok_or(format!("unknown class `{word}`"))?;
            continue;
        };
        match option {
            "udp" => transports = vec![Transport::Udp],
            "tcp" => transports = vec![Transport::Tcp],
            _ => query_option(&mut query, option)?,
        }
    }
    Ok((Outgoing::Query(Box::new(query)), transports))
}

fn query_option(query: &mut Query, option: &str) -> Result<(), TestFailure> {
    let (key, value) = option.split_once('=').unwrap_or((option, ""));
    let default = Opt {
        size: 1232,
        ..Opt::default()
    };
    match key {
        "rd" => query.flags |= 0x0100,
        "qr" => query.flags |= 0x8000,
        "aa" => query.flags |= 0x0400,
        "tc" => query.flags |= 0x0200,
        "ra" => query.flags |= 0x0080,
        "z" => query.flags |= 0x0040,
        "ad" => query.flags |= 0x0020,
        "cd" => query.flags |= 0x0010,
        "opcode" => query.flags |= (number(value)? & 15) << 11,
        "rcode" => query.flags |= number(value)? & 15,
        "trailing" => query.trailing = hex(value)?,
        "edns" => {
            let version = if value.is_empty() { 0 } else { number(value)? };
            query.opt.get_or_insert(default).version = version as u8;
        }
        "do" => query.opt.get_or_insert(default).flags |= 0x8000,
        "bufsize" => query.opt.get_or_insert(default).size = number(value)?,
        "ednsflags" => query.opt.get_or_insert(default).flags |= number(value)?,
        "nsid" => query.opt.get_or_insert(default).options.push((3, vec![])),
        "opt" => {
            let (code, data) = value.split_once(':').unwrap_or((value, ""));
            query
                .opt
                .get_or_insert(default)
                .options
                .push((number(code)?, hex(data)?));
        }
        _ => return Err(format!("unknown option `+{option}`").into()),
    }
    Ok(())
}

/// Parses hex pairs, `"label"` (a length octet and its text) and `; comments`.
fn octets(block: &Block<'_>) -> Result<(Outgoing, Vec<Transport>), TestFailure> {
    let transports = match block.rest {
        "" => vec![Transport::Udp, Transport::Tcp],
        "+udp" => vec![Transport::Udp],
        "+tcp" => vec![Transport::Tcp],
        other => return Err(format!("`send` takes +udp or +tcp, not `{other}`").into()),
    };
    let mut octets = Vec::new();
    for (line, text) in &block.body {
        let text = text.split(';').next().unwrap_or_default();
        for word in text.split_whitespace() {
            match word
                .strip_prefix('"')
                .and_then(|word| word.strip_suffix('"'))
            {
                Some(label) => {
                    octets.push(label.len() as u8);
                    octets.extend_from_slice(label.as_bytes());
                }
                None => octets.extend(hex(word).map_err(|error| format!("{error} (line {line})"))?),
            }
        }
    }
    Ok((Outgoing::Octets(octets), transports))
}

fn read_reply(reply: &mut Reply, rest: &str) -> Result<(), TestFailure> {
    let mut words = rest.split_whitespace();
    for rcode in words
        .next()
        .ok_or("`reply` without a response code")?
        .split('|')
    {
        reply
            .rcodes
            .push(rcode_from_text(rcode).ok_or(format!("unknown response code `{rcode}`"))?);
    }
    let flag = |text: &str| match text {
        "aa" => Some(0x0400),
        "tc" => Some(0x0200),
        "ad" => Some(0x0020),
        "cd" => Some(0x0010),
        _ => None,
    };
    for word in words {
        match word.split_once('=') {
            Some(("maxsize", size)) => reply.max_size = Some(number(size)? as usize),
            _ if word == "noquestion" => reply.question_optional = true,
            _ => match (flag(word), word.strip_prefix('?').and_then(flag)) {
                (Some(bit), _) => reply.flags |= bit,
                (_, Some(bit)) => reply.either |= bit,
                _ => return Err(format!("unknown flag `{word}`").into()),
            },
        }
    }
    Ok(())
}

fn edns(rest: &str) -> Result<ExpectedEdns, TestFailure> {
    let mut edns = ExpectedEdns {
        present: Some(true),
        ..ExpectedEdns::default()
    };
    for word in rest.split_whitespace() {
        match word.split_once('=').unwrap_or((word, "")) {
            ("none", _) => edns.present = Some(false),
            ("size", size) => edns.size = Some(number(size)?),
            ("ede", codes) => edns.ede = codes.split('|').map(number).collect::<Result<_, _>>()?,
            ("nsid", text) => edns.nsid = Some(text.trim_matches('"').to_string()),
            _ => return Err(format!("unknown word `{word}`").into()),
        }
    }
    Ok(edns)
}

fn section(block: &Block<'_>, known: &HashMap<&str, &str>) -> Result<Section, TestFailure> {
    let mut section = Section::default();
    match block.rest {
        "" => {}
        "one-rrset" => section.one_rrset = true,
        "any" => section.open = true,
        other => {
            return Err(
                format!("`{}` takes one-rrset or any, not `{other}`", block.keyword).into(),
            );
        }
    }
    for (line, text) in &block.body {
        let at_line = |error: TestFailure| format!("{error} (line {line})");
        let (optional, text) = match text.trim().strip_prefix('?') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text.trim()),
        };
        let text = match text.strip_prefix('$') {
            Some(name) => *known
                .get(name)
                .ok_or(format!("no `let {name}` above (line {line})"))?,
            None => text,
        };
        section.records.push(Line {
            optional,
            ..record(*line, text).map_err(at_line)?
        });
    }
    Ok(section)
}

/// Parses `owner ttl [class] type data...` with arbitrary white space.
fn record(line: usize, text: &str) -> Result<Line, TestFailure> {
    let mut words = text.split_whitespace();
    let (owner, ttl) = (
        words.next().ok_or("empty record")?,
        words.next().ok_or("record without TTL")?,
    );
    let owner = Name::parse(owner)?;
    if ttl != "*" && ttl.parse::<u32>().is_err() {
        return Err(format!("`{ttl}` is not a TTL").into());
    }
    let mut rtype = words.next().ok_or("record without type")?;
    let mut class = String::new();
    if let Some(code) = class_from_text(rtype).filter(|_| rtype != "ANY") {
        if code != 1 {
            class = format!("{} ", crate::wire::class_text(code));
        }
        rtype = words.next().ok_or("record without type")?;
    }
    let code = type_from_text(rtype).ok_or(format!("unknown type `{rtype}`"))?;
    let rtype = crate::wire::type_text(code);
    let data = words.collect::<Vec<_>>().join(" ");
    Ok(Line {
        line,
        optional: false,
        record: format!("{owner} {ttl} {class}{rtype} {data}"),
        rrset: format!("{owner} {rtype}").to_ascii_lowercase(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Suite, TestFailure> {
        parse(Path::new("x.test"), text)
    }

    #[test]
    fn a_file_reads_into_zones_and_cases() {
        let text = "zone example.org\n  @ SOA a b 1 2 3 4 5\n   NS a\ntest It answers\nquery a.example.org A +rd +do\nreply NOERROR aa\nanswer\n  a.example.org. 60 A 192.0.2.1\n";
        let suite = parsed(text).expect("a good file");
        assert_eq!(suite.zones[0].text, "@ SOA a b 1 2 3 4 5\n NS a\n");
        assert_eq!(suite.cases[0].title, "It answers");
        assert_eq!(suite.cases[0].line, 5);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, message) in [
            (
                "query a. A\nreply NOPE\n",
                "x.test:2: unknown response code `NOPE`",
            ),
            (
                "query a. A\n",
                "x.test:1: query without `reply` or `silence`",
            ),
            ("query a. A +zz\n", "x.test:1: unknown option `+zz`"),
            ("\n answer\n", "x.test:2: indented line first"),
            (
                "query a. A\nreply NOERROR\nanswer\n  a. x A\n",
                "x.test:3: `x` is not a TTL (line 4)",
            ),
        ] {
            assert_eq!(parsed(text).unwrap_err().to_string(), message);
        }
    }
}
