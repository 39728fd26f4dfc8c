//! Owns how the words of a request travel on one line: separated by spaces, with spaces and control characters inside
//! them as `%XX`.

/// Words to one line.
pub fn encode<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        if word.is_empty() {
            // No octet has this number: a word of nothing.
            line.push('%');
        }
        for c in word.chars() {
            match c {
                '%' | ' ' | '\x7f' => line.push_str(&format!("%{:02X}", c as u32)),
                c if c.is_ascii_control() => line.push_str(&format!("%{:02X}", c as u32)),
                c => line.push(c),
            }
        }
    }
    line
}

/// One line to words; `None` if it is not from [`encode`].
pub fn decode(line: &str) -> Option<Vec<String>> {
    line.split_ascii_whitespace().map(decode_word).collect()
}

fn decode_word(word: &str) -> Option<String> {
    if word == "%" {
        return Some(String::new());
    }
    let mut parts = word.split('%');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        text.push(u8::from_str_radix(digits, 16).ok()?.into());
        text.push_str(rest);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_plain_where_words_are() {
        assert_eq!(
            encode(["record", "set", "example.org"]),
            "record set example.org"
        );
        assert_eq!(encode(["", "a b", "100%"]), "% a%20b 100%25");
        assert_eq!(decode("a %zz"), None);
        assert_eq!(decode("a %2"), None);
        assert_eq!(decode("%é1"), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(words in proptest::collection::vec(".{0,20}", 0..6)) {
            let line = encode(words.iter().map(String::as_str));
            prop_assert!(!line.contains(['\n', '\r']));
            prop_assert_eq!(decode(&line), Some(words));
        }

        #[test]
        fn no_line_panics(line in ".*") {
            let _ = decode(&line);
        }
    }
}
