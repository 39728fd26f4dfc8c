//! A short run of each fuzz target: mutated seeds from `fuzz/seeds`, always the same ones.

use std::fs;
use std::path::Path;

use nameward_wire::fuzzing::TARGETS;

/// Inputs per run. `scripts/fuzz` runs for as long as desired.
const INPUTS: usize = 20_000;

/// Bytes of the longest input.
const MAX_INPUT: usize = 4096;

/// Words that are meaningful to one of the parsers.
const WORDS: &[&[u8]] = &[
    b"(",
    b")",
    b"\"",
    b"\\",
    b";",
    b"\n",
    b"\r\n",
    b" ",
    b"\t",
    b"$",
    b"$$",
    b"${",
    b"}",
    b"@",
    b".",
    b"..",
    b"\\000",
    b"\\256",
    b"\\#",
    b"\\# 0 ",
    b"$TTL ",
    b"$ORIGIN ",
    b"$INCLUDE ",
    b"\n$GENERATE 0-9 a$ ",
    b"4294967296",
    b"2147483648",
    b"-1",
    b"0",
    b"IN ",
    b"CH ",
    b"SOA ",
    b"TXT ",
    b"A 1.1.1.1\n",
    b"CLASS1 ",
    b"TYPE0 ",
    b"TYPE65535 ",
    b"\xc0\x0c",
    b"\xc0\x00",
    b"\xff",
    b"\x00",
    b"\x3f",
    b"\x40",
    b"\x80",
];

/// xorshift64*: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % bound.max(1)
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut paths: Vec<_> = fs::read_dir(directory.join(target))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + random.below(8)).min(input.len());
    match random.below(8) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.below(256) as u8,
        2 => {
            input.drain(at..end);
        }
        3 => {
            let copy = input[at..end].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, copy);
        }
        4 => input.truncate(at),
        5 => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => {
            let word = WORDS[random.below(WORDS.len())];
            input.splice(at..at, word.iter().copied());
        }
    }
    input.truncate(MAX_INPUT);
}

fn run(name: &str) {
    let (_, target) = TARGETS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("the target has a name");
    let seeds = seeds(name);
    seeds.iter().for_each(|seed| target(seed));
    let mut random = Random(0x6e61_6d65_7761_7264);
    for _ in 0..INPUTS {
        let mut input = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(6) {
            mutate(&mut input, &seeds, &mut random);
        }
        let outcome = std::panic::catch_unwind(|| target(&input));
        assert!(outcome.is_ok(), "b\"{}\"", input.escape_ascii());
    }
}

#[test]
fn mutated_messages_violate_no_invariant() {
    run("message");
}

#[test]
fn mutated_names_violate_no_invariant() {
    run("name");
}

#[test]
fn mutated_record_text_violates_no_invariant() {
    run("record_text");
}

#[test]
fn mutated_zone_files_violate_no_invariant() {
    run("zonefile");
}
