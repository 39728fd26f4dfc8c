//! Statements of a `named.conf`: words and blocks up to a semicolon, whatever they mean.

use std::borrow::Cow;

use super::lex::{Lexer, Place, Token, Wrong, quoted};

/// Blocks in blocks, at most. Real configurations have five.
const DEPTH_MAX: usize = 32;

/// A word.
#[derive(Debug)]
pub(super) struct Word<'t> {
    pub place: Place,
    pub text: Cow<'t, [u8]>,
}

impl Word<'_> {
    /// Keywords are the same in upper and lower case.
    pub(super) fn is(&self, keyword: &str) -> bool {
        self.text.eq_ignore_ascii_case(keyword.as_bytes())
    }

    pub(super) fn is_one_of(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(keyword))
    }

    pub(super) fn string(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }
}

/// A part of a statement.
#[derive(Debug)]
pub(super) enum Item<'t> {
    Word(Word<'t>),
    Block(Place, Vec<Statement<'t>>),
}

impl Item<'_> {
    fn place(&self) -> Place {
        match self {
            Item::Word(word) => word.place,
            Item::Block(place, _) => *place,
        }
    }

    fn describe(&self) -> String {
        match self {
            Item::Word(word) => quoted(&word.text),
            Item::Block(..) => "'{'".into(),
        }
    }
}

/// Items up to a semicolon, at least one.
#[derive(Debug)]
pub(super) struct Statement<'t> {
    items: Vec<Item<'t>>,
    /// Where the semicolon stands.
    end: Place,
}

impl<'t> Statement<'t> {
    pub(super) fn items(&self) -> &[Item<'t>] {
        &self.items
    }

    /// The word that says what it is about; `None` where a block comes first.
    pub(super) fn keyword(&self) -> Option<&Word<'t>> {
        match self.items.first() {
            Some(Item::Word(word)) => Some(word),
            _ => None,
        }
    }

    pub(super) fn place(&self) -> Place {
        self.items.first().map_or(self.end, Item::place)
    }

    /// The one word after the keyword.
    pub(super) fn value(&self, expected: &str) -> Result<&Word<'t>, Wrong> {
        let word = match self.items.get(1) {
            Some(Item::Word(word)) => word,
            other => return Err(self.missing(expected, other)),
        };
        match self.items.get(2) {
            None => Ok(word),
            other => Err(self.missing("';'", other)),
        }
    }

    /// The words between the keyword and the block that ends the statement, and that block.
    pub(super) fn words_and_block(&self) -> Result<(Vec<&Word<'t>>, &[Statement<'t>]), Wrong> {
        let mut words = Vec::new();
        for (at, item) in self.items.iter().enumerate().skip(1) {
            match item {
                Item::Word(word) => words.push(word),
                Item::Block(_, statements) => {
                    return match self.items.get(at + 1) {
                        None => Ok((words, statements)),
                        other => Err(self.missing("';' after '}'", other)),
                    };
                }
            }
        }
        Err(self.missing("'{'", None))
    }

    fn missing(&self, expected: &str, found: Option<&Item<'_>>) -> Wrong {
        let (place, found) = match found {
            Some(item) => (item.place(), item.describe()),
            None => (self.end, "';'".into()),
        };
        Wrong::new(place, format!("expected {expected}, found {found}"))
    }
}

/// Reads the statements of a whole file.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Statement<'_>>, Wrong> {
    let mut lexer = Lexer::new(text);
    statements(&mut lexer, None)
}

/// Reads statements up to the end of the block that began at `open`, or of the file.
fn statements<'t>(
    lexer: &mut Lexer<'t>,
    open: Option<(Place, usize)>,
) -> Result<Vec<Statement<'t>>, Wrong> {
    let depth = open.map_or(0, |(_, depth)| depth);
    let mut all = Vec::new();
    let mut items = Vec::new();
    loop {
        let (place, token) = lexer.next()?;
        match token {
            Token::Word(text) => items.push(Item::Word(Word { place, text })),
            Token::Open if depth == DEPTH_MAX => {
                let message = format!("more than {DEPTH_MAX} blocks in each other");
                return Err(Wrong::new(place, message));
            }
            Token::Open => {
                let inner = statements(lexer, Some((place, depth + 1)))?;
                items.push(Item::Block(place, inner));
            }
            Token::Semicolon if items.is_empty() => {}
            Token::Semicolon => all.push(Statement {
                items: std::mem::take(&mut items),
                end: place,
            }),
            Token::Close | Token::End if !items.is_empty() => {
                let found = token.describe();
                return Err(Wrong::new(place, format!("expected ';' before {found}")));
            }
            Token::Close if open.is_some() => return Ok(all),
            Token::Close => return Err(Wrong::new(place, "this '}' closes nothing")),
            Token::End => match open {
                None => return Ok(all),
                Some((open, _)) => {
                    return Err(Wrong::new(open, "this '{' is not closed: expected '}'"));
                }
            },
        }
    }
}
