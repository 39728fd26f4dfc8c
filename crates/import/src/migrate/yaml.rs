//! The subset of YAML that geographic zone files use: mappings and lists in blocks or brackets, plain and quoted text,
//! comments. Anchors, tags and block text are errors. Every value has its line.

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

/// A line with something on it.
struct YamlLine {
    number: u32,
    margin: usize,
    text: String,
}

struct YamlParser {
    lines: Vec<YamlLine>,
    at: usize,
}

/// Parses a document.
pub(super) fn parse(text: &str) -> Result<YamlNode, YamlError> {
    let mut lines = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = without_comment(line).trim_end();
        let text = line.trim_start();
        if text.is_empty() || matches!(line, "---" | "...") {
            continue;
        }
        if text.starts_with('\t') || line.starts_with('\t') {
            return Err(error(number, "a tab at the start of a line"));
        }
        lines.push(YamlLine {
            number,
            margin: line.len() - text.len(),
            text: text.to_owned(),
        });
    }
    let mut parser = YamlParser { lines, at: 0 };
    let Some(margin) = parser.lines.first().map(|line| line.margin) else {
        return Ok(YamlNode {
            line: 1,
            value: YamlValue::Nothing,
        });
    };
    let node = parser.block(margin, 0)?;
    match parser.lines.get(parser.at) {
        None => Ok(node),
        Some(line) => Err(error(line.number, "unexpected indentation")),
    }
}

fn error(line: u32, message: impl Into<String>) -> YamlError {
    YamlError {
        line,
        message: message.into(),
    }
}

impl YamlParser {
    /// Parses the list or mapping that starts at the current line, whose margin is given.
    fn block(&mut self, margin: usize, depth: usize) -> Result<YamlNode, YamlError> {
        let line = self.lines[self.at].number;
        if depth > DEPTH_MAX {
            return Err(error(
                line,
                format!("nested more than {DEPTH_MAX} levels deep"),
            ));
        }
        let value = if is_item(&self.lines[self.at].text) {
            self.list(margin, depth)?
        } else {
            self.map(margin, depth)?
        };
        Ok(YamlNode { line, value })
    }

    fn list(&mut self, margin: usize, depth: usize) -> Result<YamlValue, YamlError> {
        let mut items = Vec::new();
        while let Some(line) = self.lines.get_mut(self.at)
            && line.margin == margin
            && is_item(&line.text)
        {
            let number = line.number;
            let rest = line.text[1..].trim_start().to_owned();
            if rest.is_empty() {
                self.at += 1;
                items.push(self.nested(number, margin, depth, false)?);
            } else if split_key(&rest).is_some() || is_item(&rest) {
                // The item is a block that starts on the line of its dash.
                line.margin += line.text.len() - rest.len();
                line.text = rest;
                let inner = line.margin;
                items.push(self.block(inner, depth + 1)?);
            } else {
                self.at += 1;
                items.push(self.flow(number, rest)?);
            }
        }
        Ok(YamlValue::List(items))
    }

    fn map(&mut self, margin: usize, depth: usize) -> Result<YamlValue, YamlError> {
        let mut pairs: Vec<(String, YamlNode)> = Vec::new();
        while let Some(line) = self.lines.get(self.at)
            && line.margin == margin
            && !is_item(&line.text)
        {
            let number = line.number;
            let Some((key, rest)) = split_key(&line.text) else {
                let message = format!("expected key: value, found {:?}", line.text);
                return Err(error(number, message));
            };
            let (key, rest) = (unquoted(number, key)?, rest.to_owned());
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(error(number, format!("the key {key} appears twice")));
            }
            self.at += 1;
            let node = if rest.is_empty() {
                self.nested(number, margin, depth, true)?
            } else {
                self.flow(number, rest)?
            };
            pairs.push((key, node));
        }
        Ok(YamlValue::Map(pairs))
    }

    /// Parses the block below a key or a dash; a list below a key may have the margin of the key.
    fn nested(
        &mut self,
        number: u32,
        margin: usize,
        depth: usize,
        is_key: bool,
    ) -> Result<YamlNode, YamlError> {
        match self.lines.get(self.at) {
            Some(line)
                if line.margin > margin
                    || is_key && line.margin == margin && is_item(&line.text) =>
            {
                let inner = line.margin;
                self.block(inner, depth + 1)
            }
            _ => Ok(YamlNode {
                line: number,
                value: YamlValue::Nothing,
            }),
        }
    }

    /// Parses a value that starts on a line; brackets may continue on the next lines.
    fn flow(&mut self, number: u32, mut text: String) -> Result<YamlNode, YamlError> {
        while text.starts_with(['[', '{']) && !is_closed(&text) {
            let Some(line) = self.lines.get(self.at) else {
                return Err(error(number, "a bracket is not closed"));
            };
            text.push(' ');
            text.push_str(&line.text);
            self.at += 1;
        }
        flow_value(number, &text, 0)
    }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// Splits `key: value`; the colon is followed by a blank or ends the line.
fn split_key(text: &str) -> Option<(&str, &str)> {
    if text.starts_with(['[', '{']) {
        return None;
    }
    let bytes = text.as_bytes();
    let at = outside_quotes(text)
        .find(|&(at, byte)| byte == b':' && bytes.get(at + 1).is_none_or(|next| *next == b' '))?;
    Some((text[..at.0].trim_end(), text[at.0 + 1..].trim_start()))
}

/// Iterates over the bytes outside quoted text. A quote within a word is part of it.
fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, u8)> {
    let (mut quote, mut before) = (None, b' ');
    text.bytes().enumerate().filter(move |&(_, byte)| {
        let starts = matches!(before, b' ' | b'[' | b'{' | b',' | b':');
        let is_outside = quote.is_none();
        match quote {
            Some(open) if byte == open && before != b'\\' => quote = None,
            None if matches!(byte, b'"' | b'\'') && starts => quote = Some(byte),
            _ => {}
        }
        before = byte;
        is_outside && quote.is_none()
    })
}

fn without_comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let comment =
        outside_quotes(line).find(|&(at, byte)| byte == b'#' && (at == 0 || bytes[at - 1] == b' '));
    comment.map_or(line, |(at, _)| &line[..at])
}

fn is_closed(text: &str) -> bool {
    let depth = outside_quotes(text).fold(0i32, |depth, (_, byte)| match byte {
        b'[' | b'{' => depth + 1,
        b']' | b'}' => depth - 1,
        _ => depth,
    });
    depth <= 0
}

fn flow_value(line: u32, text: &str, depth: usize) -> Result<YamlNode, YamlError> {
    let text = text.trim();
    let node = |value| Ok(YamlNode { line, value });
    if depth > DEPTH_MAX {
        return Err(error(
            line,
            format!("nested more than {DEPTH_MAX} levels deep"),
        ));
    }
    let inner = |close: char| {
        let inner = text[1..].strip_suffix(close);
        inner.ok_or_else(|| error(line, format!("expected '{close}' at the end of {text:?}")))
    };
    match text.bytes().next() {
        None => node(YamlValue::Nothing),
        Some(b'[') => {
            let items = split_commas(inner(']')?);
            let items = items.map(|item| flow_value(line, item, depth + 1));
            node(YamlValue::List(items.collect::<Result<_, _>>()?))
        }
        Some(b'{') => {
            let mut pairs = Vec::new();
            for item in split_commas(inner('}')?) {
                let Some((key, rest)) = split_key(item) else {
                    return Err(error(line, format!("expected key: value, found {item:?}")));
                };
                pairs.push((unquoted(line, key)?, flow_value(line, rest, depth + 1)?));
            }
            node(YamlValue::Map(pairs))
        }
        Some(b'&' | b'*' | b'!' | b'|' | b'>' | b'@' | b'`') if text.len() > 1 || depth > 0 => {
            Err(error(line, format!("unsupported YAML: {text}")))
        }
        Some(b'|' | b'>') => Err(error(line, "unsupported YAML: text in a block")),
        Some(_) => node(YamlValue::Text(unquoted(line, text)?)),
    }
}

/// Splits at commas outside quotes and brackets; empty items are left out.
fn split_commas(text: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut begin) = (0i32, 0);
    let mut parts = Vec::new();
    for (at, byte) in outside_quotes(text) {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

/// Returns the text of a plain or quoted value.
fn unquoted(line: u32, text: &str) -> Result<String, YamlError> {
    let unclosed = || error(line, format!("a quote is not closed in {text:?}"));
    if let Some(inner) = text.strip_prefix('\'') {
        let inner = inner.strip_suffix('\'').ok_or_else(unclosed)?;
        return Ok(inner.replace("''", "'"));
    }
    let Some(inner) = text.strip_prefix('"') else {
        return Ok(text.to_owned());
    };
    let inner = inner.strip_suffix('"').ok_or_else(unclosed)?;
    let mut out = String::new();
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (_, true) => match letters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(other @ ('"' | '\\' | '/')) => out.push(other),
                // A blank within a word of record data, as Knot has it.
                Some(' ') => out.push_str("\\ "),
                _ => return Err(error(line, format!("unsupported escape in {text:?}"))),
            },
            (letter, false) => out.push(letter),
        }
    }
    Ok(out)
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
    }

    #[test]
    fn mistakes_have_their_line() {
        for (text, line) in [
            ("a: 1\na: 2\n", 2),
            ("a: [1\n", 1),
            ("a:\n\tb: 1\n", 2),
            ("a: &x 1\n", 1),
            ("a: |\n  text\n", 1),
            ("a:\n    b: 1\n  c: 2\n", 3),
            ("just text\n", 1),
            ("a: \"b\n", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text:?}");
        }
    }
}
