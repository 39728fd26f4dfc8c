//! YAML documents of geographic zone files, as a tree in which every value has its line. Anchors, aliases and tags, which no such
//! file needs, are errors: a short document with aliases can be a very large tree.

use saphyr_parser::{Event, Parser, ScalarStyle};

/// Maximum nesting depth of a document.
const DEPTH_MAX: usize = 32;

/// A value with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct YamlNode {
    pub(super) line: u32,
    pub(super) value: YamlValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum YamlValue {
    Nothing,
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<(String, YamlNode)>),
}

/// A mistake in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) line: u32,
    pub(super) message: String,
}

impl YamlNode {
    /// Returns the value of a key of a mapping.
    pub(super) fn get(&self, key: &str) -> Option<&YamlNode> {
        let found = self.pairs().iter().find(|(name, _)| name == key);
        found.map(|(_, node)| node)
    }

    /// Returns the pairs of a mapping; none if it is something else.
    pub(super) fn pairs(&self) -> &[(String, YamlNode)] {
        match &self.value {
            YamlValue::Map(pairs) => pairs,
            _ => &[],
        }
    }

    /// Returns the values of a list, or a single value as a list of one.
    pub(super) fn items(&self) -> &[YamlNode] {
        match &self.value {
            YamlValue::List(items) => items,
            YamlValue::Nothing => &[],
            _ => std::slice::from_ref(self),
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            YamlValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A list or mapping that is being read.
struct OpenNode {
    node: YamlNode,
    /// The key of a mapping whose value comes next.
    key: Option<String>,
}

/// Parses a document.
pub(super) fn parse(text: &str) -> Result<YamlNode, YamlError> {
    let mut open: Vec<OpenNode> = Vec::new();
    // What is missing at the end of the text is reported for its last line.
    let last = text.lines().count().max(1);
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|found| error(found.marker().line().min(last), found.info()))?;
        let line = span.start.line().min(last);
        let value = match event {
            Event::Scalar(.., 1.., _)
            | Event::SequenceStart(1.., _)
            | Event::MappingStart(1.., _) => {
                return Err(error(line, "unsupported YAML: an anchor"));
            }
            Event::Scalar(.., Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                return Err(error(line, "unsupported YAML: a tag"));
            }
            Event::Alias(_) => return Err(error(line, "unsupported YAML: an alias")),
            Event::Scalar(text, ScalarStyle::Plain, ..) if matches!(&*text, "" | "~") => {
                YamlValue::Nothing
            }
            Event::Scalar(text, ..) => YamlValue::Text(text.into_owned()),
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() > DEPTH_MAX => {
                return Err(error(
                    line,
                    format!("nested more than {DEPTH_MAX} levels deep"),
                ));
            }
            Event::SequenceStart(..) => {
                open.push(OpenNode::new(line, YamlValue::List(Vec::new())));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(OpenNode::new(line, YamlValue::Map(Vec::new())));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(done) = open.pop() else { continue };
                match open.last_mut() {
                    Some(parent) => parent.add(done.node)?,
                    // Files have one document.
                    None => return Ok(done.node),
                }
                continue;
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {
                continue;
            }
        };
        let node = YamlNode {
            line: number(line),
            value,
        };
        match open.last_mut() {
            Some(parent) => parent.add(node)?,
            None if node.value == YamlValue::Nothing => {}
            None => return Err(error(line, "expected key: value")),
        }
    }
    Ok(YamlNode {
        line: 1,
        value: YamlValue::Nothing,
    })
}

impl OpenNode {
    fn new(line: usize, value: YamlValue) -> Self {
        let line = number(line);
        OpenNode {
            node: YamlNode { line, value },
            key: None,
        }
    }

    fn add(&mut self, node: YamlNode) -> Result<(), YamlError> {
        let line = node.line as usize;
        match (&mut self.node.value, self.key.take()) {
            (YamlValue::List(items), _) => items.push(node),
            (YamlValue::Map(pairs), Some(key)) => pairs.push((key, node)),
            (_, _) => {
                let Some(key) = node.text() else {
                    return Err(error(line, "expected a name as key"));
                };
                if self.node.get(key).is_some() {
                    return Err(error(line, format!("the key {key} appears twice")));
                }
                self.key = Some(key.to_owned());
            }
        }
        Ok(())
    }
}

fn number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

fn error(line: usize, message: impl Into<String>) -> YamlError {
    YamlError {
        line: number(line),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(node: &YamlNode) -> String {
        match &node.value {
            YamlValue::Nothing => "-".into(),
            YamlValue::Text(text) => format!("{text:?}"),
            YamlValue::List(items) => {
                let items: Vec<String> = items.iter().map(shown).collect();
                format!("[{}]", items.join(" "))
            }
            YamlValue::Map(pairs) => {
                let pairs = pairs
                    .iter()
                    .map(|(key, node)| format!("{key}={}", shown(node)));
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn blocks_lists_and_quotes_are_read_with_their_lines() {
        let text = "# a comment\na:\n- b: 1\n  c: [ 'x, y', \"q\\\"\", z ]   # more\n- - in\n  - it's\nd:\n    e: 10.0.0.0/8\n    '::/0': {f: g, h: [i]}\nj:\n";
        let node = parse(text).unwrap();
        assert_eq!(
            shown(&node),
            "{a=[{b=\"1\" c=[\"x, y\" \"q\\\"\" \"z\"]} [\"in\" \"it's\"]] d={e=\"10.0.0.0/8\" ::/0={f=\"g\" h=[\"i\"]}} j=-}"
        );
        assert_eq!(node.get("d").unwrap().line, 8);
        assert_eq!(
            shown(&parse("x: [a,\n  b]\ny: c").unwrap()),
            "{x=[\"a\" \"b\"] y=\"c\"}"
        );
        assert_eq!(
            shown(&parse("x: |\n  a\n  b\n").unwrap()),
            "{x=\"a\\nb\\n\"}"
        );
        assert_eq!(shown(&parse("# nothing\n---\n").unwrap()), "-");
        let deep = "[".repeat(1000);
        assert!(parse(&deep).is_err());
    }

    #[test]
    fn mistakes_have_their_line() {
        for (text, line) in [
            ("a: 1\na: 2\n", 2),
            ("a: [1\n", 1),
            ("a:\n\tb: 1\n", 2),
            ("a: &x 1\n", 1),
            ("a: !!str 1\n", 1),
            ("a: 1\nb: *a\n", 2),
            ("[a]: 1\n", 1),
            ("a:\n    b: 1\n  c: 2\n", 3),
            ("just text\n", 1),
            ("a: \"b\n", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text:?}");
        }
    }
}
