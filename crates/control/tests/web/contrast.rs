//! The contrast of the page's colors according to WCAG 2.2 (1.4.3 for text, 1.4.11 for edges of controls).

use std::collections::BTreeMap;

const STYLE: &str = include_str!("../../assets/style.css");

/// The colors of a block of the stylesheet, by name.
fn colors(block: &str) -> BTreeMap<&str, [f64; 3]> {
    let declared = block.split([';', '{', '}']).filter_map(|part| {
        let (name, value) = part.trim().strip_prefix("--")?.split_once(": #")?;
        let part = |at: usize| u8::from_str_radix(&value[at..at + 2], 16).expect("a color");
        Some((name, [0, 2, 4].map(|at| f64::from(part(at)) / 255.0)))
    });
    declared.collect()
}

/// The relative luminance of a color.
fn luminance(color: [f64; 3]) -> f64 {
    let [red, green, blue] = color.map(|part| {
        if part <= 0.04045 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn text_borders_and_placeholders_have_the_contrast_of_wcag_aa() {
    let (_, from_root) = STYLE.split_once(":root").expect("the light colors");
    let (light, rest) = from_root.split_once('}').expect("their end");
    let (_, from_dark) = rest.split_once(":root").expect("the dark colors");
    let (dark, _) = from_dark.split_once('}').expect("their end");
    for (theme, block) in [("light", light), ("dark", dark)] {
        let colors = colors(block);
        let of = |name: &str| colors[name];
        for back in ["back", "card", "row"] {
            for text in ["text", "soft", "accent", "bad", "good"] {
                let found = contrast(of(text), of(back));
                assert!(found >= 4.5, "{theme}: {text} on {back}: {found:.2}");
            }
            for edge in ["edge", "second"] {
                let found = contrast(of(edge), of(back));
                assert!(found >= 3.0, "{theme}: {edge} on {back}: {found:.2}");
            }
        }
    }
    // The colors of controls and placeholders.
    assert!(STYLE.contains("border: 1px solid var(--edge); border-radius: 6px; }"));
    assert!(STYLE.contains("::placeholder { color: var(--soft); opacity: 1; }"));
}
