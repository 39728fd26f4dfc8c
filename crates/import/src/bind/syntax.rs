//! Statements of a `named.conf`: words and blocks up to a semicolon, independent of their meaning.

use std::borrow::Cow;

use super::lex::{ConfMistake, ConfToken, Lexer, TextLocation, quoted};

/// Maximum nesting depth of blocks. Real configurations have five.
const DEPTH_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct Word<'t> {
    pub location: TextLocation,
    pub text: Cow<'t, [u8]>,
}

impl Word<'_> {
    /// Checks for a keyword, ignoring case.
    pub(super) fn is(&self, keyword: &str) -> bool {
        self.text.eq_ignore_ascii_case(keyword.as_bytes())
    }

    pub(super) fn is_one_of(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(keyword))
    }

    pub(super) fn string(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    /// Returns the mistake of a word where something else was expected.
    pub(super) fn instead_of(&self, expected: &str) -> ConfMistake {
        let found = quoted(&self.text);
        self.location
            .wrong(format!("expected {expected}, found {found}"))
    }
}

#[derive(Debug)]
pub(super) enum ConfItem<'t> {
    Word(Word<'t>),
    Block(TextLocation, Vec<ConfStatement<'t>>),
}

impl ConfItem<'_> {
    fn location(&self) -> TextLocation {
        match self {
            ConfItem::Word(word) => word.location,
            ConfItem::Block(location, _) => *location,
        }
    }

    fn describe(&self) -> String {
        match self {
            ConfItem::Word(word) => quoted(&word.text),
            ConfItem::Block(..) => "'{'".into(),
        }
    }
}

/// Items up to a semicolon, at least one.
#[derive(Debug)]
pub(super) struct ConfStatement<'t> {
    items: Vec<ConfItem<'t>>,
    end: TextLocation,
}

impl<'t> ConfStatement<'t> {
    pub(super) fn items(&self) -> &[ConfItem<'t>] {
        &self.items
    }

    /// Returns the keyword; `None` if the statement starts with a block.
    pub(super) fn keyword(&self) -> Option<&Word<'t>> {
        match self.items.first() {
            Some(ConfItem::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Checks for a keyword, ignoring case.
    pub(super) fn is(&self, keyword: &str) -> bool {
        self.keyword().is_some_and(|word| word.is(keyword))
    }

    pub(super) fn location(&self) -> TextLocation {
        self.items.first().map_or(self.end, ConfItem::location)
    }

    /// Returns the single word after the keyword.
    pub(super) fn value(&self, expected: &str) -> Result<&Word<'t>, ConfMistake> {
        let word = match self.items.get(1) {
            Some(ConfItem::Word(word)) => word,
            other => return Err(self.missing(expected, other)),
        };
        match self.items.get(2) {
            None => Ok(word),
            other => Err(self.missing("';'", other)),
        }
    }

    /// Returns the words between the keyword and the block that ends the statement, and that block.
    pub(super) fn words_and_block(
        &self,
    ) -> Result<(Vec<&Word<'t>>, &[ConfStatement<'t>]), ConfMistake> {
        let mut words = Vec::new();
        for (at, item) in self.items.iter().enumerate().skip(1) {
            match item {
                ConfItem::Word(word) => words.push(word),
                ConfItem::Block(_, statements) => {
                    return match self.items.get(at + 1) {
                        None => Ok((words, statements)),
                        other => Err(self.missing("';' after '}'", other)),
                    };
                }
            }
        }
        Err(self.missing("'{'", None))
    }

    fn missing(&self, expected: &str, found: Option<&ConfItem<'_>>) -> ConfMistake {
        let (location, found) = match found {
            Some(item) => (item.location(), item.describe()),
            None => (self.end, "';'".into()),
        };
        location.wrong(format!("expected {expected}, found {found}"))
    }
}

/// Reads the statements of a whole file.
pub(super) fn parse(text: &[u8]) -> Result<Vec<ConfStatement<'_>>, ConfMistake> {
    let mut lexer = Lexer::new(text);
    statements(&mut lexer, None)
}

/// Reads statements up to the end of the block that started at `open`, or of the file.
fn statements<'t>(
    lexer: &mut Lexer<'t>,
    open: Option<(TextLocation, usize)>,
) -> Result<Vec<ConfStatement<'t>>, ConfMistake> {
    let depth = open.map_or(0, |(_, depth)| depth);
    let mut all = Vec::new();
    let mut items = Vec::new();
    loop {
        let (location, token) = lexer.next()?;
        match token {
            ConfToken::Word(text) => items.push(ConfItem::Word(Word { location, text })),
            ConfToken::Open if depth == DEPTH_MAX => {
                let message = format!("blocks nested more than {DEPTH_MAX} levels deep");
                return Err(location.wrong(message));
            }
            ConfToken::Open => {
                let inner = statements(lexer, Some((location, depth + 1)))?;
                items.push(ConfItem::Block(location, inner));
            }
            ConfToken::Semicolon if items.is_empty() => {}
            ConfToken::Semicolon => all.push(ConfStatement {
                items: std::mem::take(&mut items),
                end: location,
            }),
            ConfToken::Close | ConfToken::End if !items.is_empty() => {
                let found = token.describe();
                return Err(location.wrong(format!("expected ';' before {found}")));
            }
            ConfToken::Close if open.is_some() => return Ok(all),
            ConfToken::Close => return Err(location.wrong("unmatched '}'")),
            ConfToken::End => match open {
                None => return Ok(all),
                Some((open, _)) => {
                    return Err(open.wrong("unclosed '{': expected '}'"));
                }
            },
        }
    }
}
