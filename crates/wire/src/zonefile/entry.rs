//! Entries: owner, TTL, class, type and data of each record.

use super::diagnostic::Severity;
use super::parser::{LastOwner, Parser, Step, step};
use super::source::BlockEnd;
use super::{Record, RecordPlace, Sink, SinkRefusal};
use crate::name::{Name, NameError};
use crate::rdata;
use crate::rtype::{Class, Type};
use crate::text::{Fields, TextError, Token};

/// The words that were expected where neither a TTL nor a class nor a type stood.
const EXPECTED_TYPE: &str = "a TTL, a class or a type";

/// Where the data of a record stands that was just read.
enum EntryData {
    Ipv4([u8; 4]),
    Ipv6([u8; 16]),
    /// In [`Parser::host`].
    Host,
    /// In [`Parser::rdata`].
    Any,
}

impl<S: Sink + ?Sized> Parser<'_, S> {
    /// Reads one entry up to the newline that ends it.
    #[inline]
    pub(super) fn entry(
        &mut self,
        fields: &mut Fields<'_>,
        end: BlockEnd,
    ) -> Result<Step, TextError> {
        let line = fields.line();
        match fields.peek() {
            Some(b'\n') => Ok(Step::Done),
            Some(b'$') => self.directive(fields, end),
            Some(_) if self.plain_entry(fields).is_some() => Ok(Step::Done),
            Some(b' ' | b'\t' | b'\r') => match fields.next()? {
                None => Ok(step(fields, end)),
                Some(first) if self.last_owner == LastOwner::None => {
                    Err(first.error("an owner at the start of the first record"))
                }
                Some(first) => self.record(fields, first, line, end),
            },
            // An entry is read again where a block ended in it: an owner must not stay of which a part was read before.
            _ => match fields.next().inspect_err(|_| self.refuse_owner())? {
                None => Ok(step(fields, end)),
                Some(owner) => {
                    self.set_owner(fields, owner)?;
                    let first = fields.expect(EXPECTED_TYPE)?;
                    self.record(fields, first, line, end)
                }
            },
        }
    }

    /// Reads an entry of the most common form, one line of plain words with one word of data: half
    /// the time of the general way, which reads what this leaves and reports what is wrong.
    #[inline]
    fn plain_entry(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        let mut words: [&[u8]; 5] = [b""; 5];
        let (count, newline) = fields.plain_line(&mut words)?;
        let [owner, middle @ .., mnemonic, data] = &words[..count] else {
            return None;
        };
        let rtype = one_word_type(mnemonic)?;
        let (mut explicit, mut class) = (None, None);
        for &word in middle {
            if matches!(word, b"IN" | b"in") && class.is_none() {
                class = Some(Class::IN);
            } else {
                let ttl = rdata::parse_ttl(word).filter(|&ttl| ttl <= i32::MAX as u32)?;
                if explicit.replace(ttl).is_some() {
                    return None;
                }
            }
        }
        if class.is_some_and(|class| class != self.options.class) {
            return None;
        }
        let ttl = explicit.or(self.default_ttl).or(self.last_ttl)?;

        let data = match rtype {
            Type::A => EntryData::Ipv4(rdata::ipv4(data)?),
            Type::AAAA => EntryData::Ipv6(rdata::ipv6(data)?),
            _ => {
                self.host.set_plain(data, self.origin.as_name()).ok()?;
                EntryData::Host
            }
        };
        if owner.is_empty() {
            if self.last_owner == LastOwner::None {
                return None;
            }
        } else if !self.is_last_owner(fields, owner) {
            self.write_owner(owner, fields.offset()).ok()?;
        }
        if explicit.is_some() {
            self.last_ttl = explicit;
        }
        self.deliver(rtype, ttl, fields.line(), data);
        fields.go_to(newline);
        Some(())
    }

    /// An entry without directives, as `$GENERATE` makes them.
    pub(super) fn generated(&mut self, text: &[u8], line: u32) -> Result<(), TextError> {
        self.owner_text = None;
        let made = self.generated_record(&mut Fields::new(text), line);
        // Made or not: its owner does not stand in the block.
        self.owner_text = None;
        made
    }

    fn generated_record(&mut self, fields: &mut Fields<'_>, line: u32) -> Result<(), TextError> {
        let owner = fields.expect("an owner")?;
        self.set_owner(fields, owner)?;
        let first = fields.expect(EXPECTED_TYPE)?;
        self.record(fields, first, line, BlockEnd::EndOfFile)?;
        Ok(())
    }

    fn set_owner(&mut self, fields: &Fields<'_>, owner: Token<'_>) -> Result<(), TextError> {
        if owner.quoted {
            self.refuse_owner();
            return Err(owner.error("an owner without quotes"));
        }
        if self.is_last_owner(fields, owner.text) {
            return Ok(());
        }
        // An owner stands right before the current place.
        self.write_owner(owner.text, fields.offset() - owner.text.len())
            .map_err(|error| name_error(&owner, "an owner", error))
    }

    /// Notes that an owner could not be read.
    #[cold]
    fn refuse_owner(&mut self) {
        (self.last_owner, self.owner_text) = (LastOwner::Wrong, None);
    }

    /// Whether `owner` is the text of the last owner.
    #[inline]
    fn is_last_owner(&self, fields: &Fields<'_>, owner: &[u8]) -> bool {
        self.owner_text
            .is_some_and(|(start, len)| fields.text_at(start, len) == Some(owner))
    }

    /// Makes `text`, which stands at `offset` of the block, the last owner.
    #[inline]
    fn write_owner(&mut self, text: &[u8], offset: usize) -> Result<(), NameError> {
        self.owner_text = None;
        self.owner_delivered = false;
        self.last_owner = LastOwner::Wrong;
        self.owner.set_text(text, self.origin.as_name())?;
        self.last_owner = LastOwner::Known;
        self.owner_is_raw = !text.is_ascii();
        self.owner_text = Some((offset, text.len()));
        Ok(())
    }

    /// Reads TTL, class, type and data, of which `first` is the first word, and hands the record over.
    #[inline]
    fn record(
        &mut self,
        fields: &mut Fields<'_>,
        first: Token<'_>,
        line: u32,
        end: BlockEnd,
    ) -> Result<Step, TextError> {
        let (mut ttl, mut class) = (None, None);
        let mut word = first;
        let rtype = loop {
            if let Some(rtype) = common_type(word.text) {
                break rtype;
            }
            if ttl.is_none() && word.text.first().is_some_and(u8::is_ascii_digit) {
                ttl = Some((ttl_of(&word)?, word));
            } else if class.is_none()
                && let Some(found) = Class::from_text(word.text)
            {
                self.check_class(&word, found)?;
                class = Some(found);
            } else {
                break self.zone_type(&word)?;
            }
            word = fields.expect(EXPECTED_TYPE)?;
        };
        self.rdata.clear();
        let notes = rdata::parse_text(rtype, fields, self.origin.as_name(), &mut self.rdata)
            .map_err(|error| inside_parenthesis(fields, error))?;
        if step(fields, end) == Step::NeedsMore {
            return Ok(Step::NeedsMore);
        }
        if notes != rdata::Notes::default() {
            self.warn(&word, notes);
        }
        let ttl = self.settle_ttl(ttl, rtype, &word)?;
        self.deliver(rtype, ttl, line, EntryData::Any);
        Ok(Step::Done)
    }

    #[cold]
    fn zone_type(&self, word: &Token<'_>) -> Result<Type, TextError> {
        match Type::from_text(word.text) {
            Some(rtype) if rtype.is_meta() => Err(word.error("a type that can stand in a zone")),
            Some(rtype) => Ok(rtype),
            None => Err(word.error(EXPECTED_TYPE)),
        }
    }

    fn check_class(&self, word: &Token<'_>, class: Class) -> Result<(), TextError> {
        if class == self.options.class {
            return Ok(());
        }
        Err(word.error("the class of the zone"))
    }

    /// The TTL of a record by the rules in the module's documentation.
    #[inline]
    fn settle_ttl(
        &mut self,
        ttl: Option<(u32, Token<'_>)>,
        rtype: Type,
        word: &Token<'_>,
    ) -> Result<u32, TextError> {
        if let Some((ttl, ttl_word)) = ttl {
            let ttl = self.limit_ttl(ttl, &ttl_word);
            self.last_ttl = Some(ttl);
            return Ok(ttl);
        }
        if let Some(ttl) = self.default_ttl.or(self.last_ttl) {
            return Ok(ttl);
        }
        if rtype == Type::SOA
            && let Some(minimum) = self.rdata.last_chunk::<4>()
        {
            let ttl = self.limit_ttl(u32::from_be_bytes(*minimum), word);
            self.default_ttl = Some(ttl);
            return Ok(ttl);
        }
        self.options
            .default_ttl
            .ok_or_else(|| word.error("a TTL before the type, or $TTL before the record"))
    }

    /// RFC 2181 section 8: a TTL above 2^31-1 is treated as zero.
    #[inline]
    pub(super) fn limit_ttl(&mut self, ttl: u32, word: &Token<'_>) -> u32 {
        if ttl <= i32::MAX as u32 {
            return ttl;
        }
        let message = format!("a TTL of at most 2147483647 was expected, {ttl} is taken as 0");
        self.push(Severity::Warning, word.line, word.column, message);
        0
    }

    #[inline]
    fn deliver(&mut self, rtype: Type, ttl: u32, line: u32, data: EntryData) {
        if self.last_owner != LastOwner::Known {
            return;
        }
        if (self.owner_is_raw || self.warned_owner.is_some()) && !self.owner_delivered {
            self.judge_owner(line);
        }
        let record = Record {
            owner: Name::from_valid_wire(self.owner.as_wire()),
            same_owner: self.owner_delivered,
            rtype,
            class: self.options.class,
            ttl,
            rdata: match &data {
                EntryData::Ipv4(address) => address,
                EntryData::Ipv6(address) => address,
                EntryData::Host => self.host.as_wire(),
                EntryData::Any => &self.rdata,
            },
            from: RecordPlace::in_file(line, self.file),
        };
        match self.sink.record(&record) {
            Ok(()) => {
                self.owner_delivered = true;
                self.records += 1;
            }
            Err(SinkRefusal::Record(message)) => {
                self.owner_delivered = false;
                self.error_at(line, 0, message);
            }
            Err(SinkRefusal::Stop) => self.stop(),
        }
    }
}

/// Adds where the parenthesis was opened that the error stands in, if that is another line: it may
/// be the one that should have been closed long before.
#[cold]
fn inside_parenthesis(fields: &Fields<'_>, mut error: TextError) -> TextError {
    if let Some((line, column)) = fields.open_parenthesis()
        && line != error.line
    {
        error.message += &format!(" (inside the parenthesis opened at {line}:{column})");
    }
    error
}

#[cold]
pub(super) fn name_error(word: &Token<'_>, what: &str, error: NameError) -> TextError {
    let mut result = word.error(what);
    result.message += &format!(": {error}");
    result
}

pub(super) fn ttl_of(word: &Token<'_>) -> Result<u32, TextError> {
    rdata::parse_ttl(word.text).ok_or_else(|| word.error("a TTL such as 3600 or 1h30m"))
}

/// The types that most records have, without a search.
#[inline]
fn common_type(text: &[u8]) -> Option<Type> {
    match text {
        b"A" => Some(Type::A),
        b"NS" => Some(Type::NS),
        b"AAAA" => Some(Type::AAAA),
        b"MX" => Some(Type::MX),
        b"TXT" => Some(Type::TXT),
        b"CNAME" => Some(Type::CNAME),
        b"PTR" => Some(Type::PTR),
        b"DS" => Some(Type::DS),
        b"NSEC" => Some(Type::NSEC),
        b"NSEC3" => Some(Type::NSEC3),
        b"RRSIG" => Some(Type::RRSIG),
        _ => None,
    }
}

/// The same for types whose data is one word.
#[inline]
fn one_word_type(text: &[u8]) -> Option<Type> {
    match text {
        b"A" => Some(Type::A),
        b"NS" => Some(Type::NS),
        b"AAAA" => Some(Type::AAAA),
        b"CNAME" => Some(Type::CNAME),
        b"PTR" => Some(Type::PTR),
        _ => None,
    }
}
