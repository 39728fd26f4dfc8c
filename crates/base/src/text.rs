//! Counts and lists as people write them.

use std::fmt::Display;

/// Returns "1 zone" or "2 zones".
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns "a", "a and b" or "a, b and c".
pub fn listed<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.pop() {
        Some(last) if items.is_empty() => last,
        Some(last) => format!("{} and {last}", items.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree_with_their_number() {
        assert_eq!(counted(0, "zone"), "0 zones");
        assert_eq!(counted(1, "zone"), "1 zone");
        assert_eq!(counted(2, "zone"), "2 zones");
    }

    #[test]
    fn the_last_item_of_a_list_follows_and() {
        assert_eq!(listed([] as [&str; 0]), "");
        assert_eq!(listed(["a"]), "a");
        assert_eq!(listed(["a", "b"]), "a and b");
        assert_eq!(listed([1, 2, 3]), "1, 2 and 3");
    }
}
