//! Statements that a zone inherits from its view or from `options`.

use super::{
    acl::{self, MatchList},
    keywords::is_on,
    lex::ConfMistake,
    remotes::{self, RemoteList},
    settings::{self, TermStatements},
    syntax::{ConfStatement, Word},
};

/// Statements that have a zone signed. Each is inherited for itself.
pub(super) const SIGNING: [&str; 3] = ["dnssec-policy", "inline-signing", "auto-dnssec"];
/// The place among them of the one that has BIND keep the signed zone in a copy.
pub(super) const INLINE_SIGNING: usize = 1;

/// Statements of `options`, a view or a zone; a zone inherits what it does not say itself.
#[derive(Default)]
pub(super) struct Inherited {
    pub also_notify: Option<RemoteList>,
    pub allow_query: Option<MatchList>,
    pub allow_query_on: Option<MatchList>,
    /// Whether each statement of [`SIGNING`] has the zone signed.
    pub signing: [Option<bool>; 3],
    /// Who may do what else, for a move.
    pub terms: Option<Box<TermStatements>>,
}

impl Inherited {
    /// Reads a statement that zones inherit; whether it is taken.
    pub(super) fn read(
        &mut self,
        keyword: &Word<'_>,
        statement: &ConfStatement<'_>,
        file: usize,
    ) -> Result<bool, ConfMistake> {
        let signing = SIGNING.iter().position(|word| keyword.is(word));
        if keyword.is("allow-query") {
            self.allow_query = Some(acl::read(statement, file)?);
        } else if keyword.is("allow-query-on") {
            self.allow_query_on = Some(acl::read(statement, file)?);
        } else if let Some(at) = signing {
            self.signing[at] = Some(is_on(statement));
            settings::see(&mut self.terms, keyword, statement, file);
        } else {
            if keyword.is("also-notify") {
                self.also_notify = Some(remotes::read(statement, file, false)?.1);
            }
            settings::see(&mut self.terms, keyword, statement, file);
            return Ok(false);
        }
        Ok(true)
    }
}
