//! The source of a LUA record: its computed type and its code.
//!
//! The data is the computed type and character strings, whose contents are joined. Code that starts with `;` is a list of
//! statements, other code is an expression whose value is returned.

use nameward_wire::Type;

/// The computed type and code of a LUA record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptCode {
    /// The type of the records that the script computes; LUA if it is for other scripts to include.
    pub rtype: Type,
    /// Luau source.
    pub source: Vec<u8>,
}

/// A finding about a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptProblem {
    /// There is no interpreter: queries that need the script are answered SERVFAIL.
    #[error("the script cannot run: this build has no LUA records")]
    NotBuilt,
    /// The code cannot be compiled: queries that need it are answered SERVFAIL.
    #[error("the script cannot be compiled: {0}")]
    Syntax(String),
    /// The code uses a name that does not exist here.
    #[error("the script uses {0}, which does not exist here")]
    UnknownName(String),
}

impl ScriptCode {
    /// Reads the data of a LUA record; `None` if it is malformed.
    pub fn from_rdata(rdata: &[u8]) -> Option<ScriptCode> {
        let (rtype, mut rest) = rdata.split_first_chunk()?;
        let rtype = Type(u16::from_be_bytes(*rtype));
        let mut code = Vec::with_capacity(rest.len() + 8);
        while let Some((&length, after)) = rest.split_first() {
            let (string, after) = after.split_at_checked(usize::from(length))?;
            code.extend_from_slice(string);
            rest = after;
        }
        let source = match code.split_first() {
            Some((b';', statements)) => statements.to_vec(),
            // Included scripts are statements, too.
            _ if rtype == Type::LUA => code,
            _ => [b"return ", &code[..]].concat(),
        };
        Some(ScriptCode { rtype, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rdata(rtype: Type, strings: &[&str]) -> Vec<u8> {
        let mut data = rtype.0.to_be_bytes().to_vec();
        for string in strings {
            data.push(string.len() as u8);
            data.extend_from_slice(string.as_bytes());
        }
        data
    }

    #[test]
    fn strings_are_joined_and_an_expression_is_returned() {
        let script = ScriptCode::from_rdata(&rdata(Type::A, &["pick", "random({})"]));
        let script = script.expect("valid data");
        assert_eq!(script.rtype, Type::A);
        assert_eq!(script.source, b"return pickrandom({})");
        let statements = ScriptCode::from_rdata(&rdata(Type::A, &[";return 1"]));
        assert_eq!(statements.expect("valid data").source, b"return 1");
        let included = ScriptCode::from_rdata(&rdata(Type::LUA, &["x=1"]));
        assert_eq!(included.expect("valid data").source, b"x=1");
        assert_eq!(ScriptCode::from_rdata(&[0, 1, 9, b'x']), None);
    }
}
