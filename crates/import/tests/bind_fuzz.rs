//! A short run of the fuzz targets for BIND configurations and files: mutated seeds of `fuzz/seeds`, always the same ones.

use std::{fs, path::Path};

use nameward_import::bind::fuzzing::{bind_files, named_conf};

/// Inputs of one run. `scripts/fuzz` runs as long as one likes.
const INPUTS: usize = 10_000;
/// Bytes of the longest input.
const MAX_INPUT: usize = 2048;

/// Words that mean something in a configuration.
const WORDS: &[&str] = &[
    "{",
    "}",
    ";",
    "\"",
    "\\",
    "\\\"",
    "!",
    "#",
    "//",
    "/*",
    "*/",
    "\n",
    " ",
    "\0",
    "zone ",
    "view ",
    "options ",
    "type primary;",
    "type slave;",
    "file \"f\";",
    "in-view v;",
    "include \"x\";",
    "include \"*\";",
    "directory \"/\";",
    "primaries ",
    "masters m { m; };",
    "also-notify { 192.0.2.1; };",
    "port 65536 ",
    "key ",
    "CH ",
    "any;",
    ".",
    "..",
    "\\255",
    "dnssec-policy default;",
    "match-clients { any; };",
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

fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + random.below(16)).min(input.len());
    match random.below(6) {
        0 if at < input.len() => input[at] = random.below(256) as u8,
        1 => {
            input.drain(at..end);
        }
        2 => {
            let copy = input[at..end].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, copy);
        }
        3 => input.truncate(at),
        _ => {
            let word = WORDS[random.below(WORDS.len())].as_bytes();
            input.splice(at..at, word.iter().copied());
        }
    }
    input.truncate(MAX_INPUT);
}

/// Runs a target on its seeds and on mutations of them.
fn run(target: fn(&[u8]), name: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut paths: Vec<_> = fs::read_dir(directory.join(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let seeds: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    seeds.iter().for_each(|seed| target(seed));
    let mut random = Random(0x6e61_6d65_7761_7264);
    for _ in 0..INPUTS {
        let mut input = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(6) {
            mutate(&mut input, &mut random);
        }
        let outcome = std::panic::catch_unwind(|| target(&input));
        assert!(outcome.is_ok(), "b\"{}\"", input.escape_ascii());
    }
}

#[test]
fn mutated_configurations_violate_no_invariant() {
    run(named_conf, "named_conf");
}

#[test]
fn mutated_copies_and_journals_violate_no_invariant() {
    run(bind_files, "bind_files");
}
