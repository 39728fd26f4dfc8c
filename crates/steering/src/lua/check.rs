//! The check of a script before it is served: its syntax, and the names that it uses.

use mlua::chunk::Compiler;

use super::known_names::is_known;
use super::script::{ScriptCode, ScriptProblem};

/// Compiles a script.
pub(super) fn compile(script: &ScriptCode) -> Result<Vec<u8>, ScriptProblem> {
    // Level 0 keeps an interrupt at every call and loop: nothing is unrolled or inlined.
    let compiler = Compiler::new().set_optimization_level(0).set_debug_level(1);
    compiler
        .compile(&script.source)
        .map_err(|error| ScriptProblem::Syntax(first_line(&error.to_string())))
}

/// Returns the first line of a message of the interpreter.
pub(super) fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.strip_prefix("syntax error: ").unwrap_or(line);
    line.strip_prefix("runtime error: ")
        .unwrap_or(line)
        .to_owned()
}

/// Checks the data of a LUA record before it is served: its syntax, and the names that it uses.
pub fn check_script(rdata: &[u8]) -> Vec<ScriptProblem> {
    let Some(script) = ScriptCode::from_rdata(rdata) else {
        return Vec::new();
    };
    if let Err(problem) = compile(&script) {
        return vec![problem];
    }
    unknown_names(&script.source)
        .into_iter()
        .map(ScriptProblem::UnknownName)
        .collect()
}

/// A token of the source that is relevant for names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceWord<'s> {
    Name(&'s str),
    Sign(u8),
}

/// Returns the global names that a script calls or indexes and that neither exist here nor are set by the script itself.
/// Scripts that include others are not checked, because those may define names.
fn unknown_names(source: &[u8]) -> Vec<String> {
    let words = words_of(source);
    let mut set_here = Vec::new();
    let mut used = Vec::<&str>::new();
    for (at, word) in words.iter().enumerate() {
        let SourceWord::Name(name) = *word else {
            continue;
        };
        let before = at.checked_sub(1).map(|at| words[at]);
        let after = words.get(at + 1).copied();
        if name == "include" {
            return Vec::new();
        }
        let is_member = matches!(before, Some(SourceWord::Sign(b'.' | b':')));
        let is_used = matches!(
            after,
            Some(SourceWord::Sign(b'(' | b'.' | b':' | b'{' | b'[' | b'"'))
        );
        if is_used && !is_member && !KEYWORDS.contains(&name) {
            used.push(name);
        }
        let is_set = matches!(after, Some(SourceWord::Sign(b'=' | b',' | b')')))
            || matches!(before, Some(SourceWord::Name("function" | "local" | "for")))
            || matches!(after, Some(SourceWord::Name("in")));
        if is_set && !is_member {
            set_here.push(name);
        }
    }
    used.sort_unstable();
    used.dedup();
    used.retain(|name| !is_known(name) && !set_here.contains(name));
    used.into_iter().map(str::to_owned).collect()
}

const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while", "continue",
];

/// Splits source into names and signs, without comments; a string is the sign `"`.
fn words_of(source: &[u8]) -> Vec<SourceWord<'_>> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(&byte) = source.get(at) {
        match byte {
            b'-' if source.get(at + 1) == Some(&b'-') => {
                let end = source[at..].iter().position(|&byte| byte == b'\n');
                at = end.map_or(source.len(), |end| at + end);
            }
            b'\'' | b'"' => {
                at = end_of_string(source, at);
                words.push(SourceWord::Sign(b'"'));
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let is_fragment = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let length = source[at..]
                    .iter()
                    .take_while(|byte| is_fragment(byte))
                    .count();
                let name = std::str::from_utf8(&source[at..at + length]).unwrap_or_default();
                words.push(SourceWord::Name(name));
                at += length;
            }
            b'=' if source.get(at + 1) == Some(&b'=') => at += 2,
            byte => {
                if !byte.is_ascii_whitespace() {
                    words.push(SourceWord::Sign(byte));
                }
                at += 1;
            }
        }
    }
    words
}

fn end_of_string(source: &[u8], start: usize) -> usize {
    let quote = source[start];
    let mut at = start + 1;
    while let Some(&byte) = source.get(at) {
        match byte {
            b'\\' => at += 2,
            _ if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use nameward_wire::Type;

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
    fn a_check_reports_syntax_errors_and_names_that_do_not_exist() {
        let check = |code: &str| {
            let problems = check_script(&rdata(Type::A, &[code]));
            problems.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(check("this is bad(")[0].starts_with("the script cannot be compiled"));
        assert_eq!(check("pickrandom({'a'})"), [""; 0]);
        assert_eq!(
            check("pickrandum({'a'})"),
            ["the script uses pickrandum, which does not exist here"]
        );
        assert_eq!(
            check(";local f = io.open('x') return f:read()"),
            ["the script uses io, which does not exist here"]
        );
        let own = ";function f(a) return a:upper() end for k, v in pairs({}) do v.x() end return f('nosuch(')";
        assert_eq!(check(own), [""; 0]);
        assert_eq!(check(";include('config') return anything()"), [""; 0]);
    }
}
