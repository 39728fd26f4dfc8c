//! A short run of the fuzz targets for moves: mutated seeds of `fuzz/seeds`, always the same ones.

use std::{fs, path::Path};

use nameward_import::migrate::fuzzing::{
    geo_files, knot_conf, moved_named_conf, nsd_conf, pdns_conf,
};

/// Inputs of one run for each target. `scripts/fuzz` runs as long as one likes.
const INPUTS: usize = 2_000;
/// Bytes of the longest input.
const INPUT_MAX: usize = 4096;

/// Parts that mean something in one of the configurations.
const WORDS: &[&str] = &[
    "\n",
    ":",
    "=",
    "+=",
    "\\\n",
    "#",
    "\"",
    "[",
    "]",
    ",",
    "- ",
    "{",
    "}",
    ";",
    "!",
    "%s",
    "%c[0-9]",
    "@",
    "/33",
    "&",
    "-",
    "include: ",
    "include-dir=",
    "launch=bind,",
    "zone:\n",
    "pattern:\n",
    "key:\n",
    "include-pattern: ",
    "template: ",
    "acl: ",
    "::1",
    "0.0.0.0-255.255.255.255",
    "domain: ",
    "remote:\n",
    "\n- domain: a.test\n",
    "  records:\n",
    "  services:\n    x.a.test: ",
    "%co.%cn.",
    "%mp",
    "weight: ",
    "'",
    "{a: b}",
    "local-port=",
    "\0",
    "é",
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

fn run(name: &str, target: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let entries = fs::read_dir(directory.join(name)).expect("there are seeds");
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    seeds.iter().for_each(|seed| target(seed));
    let mut random = Random(0x6d6f_7665);
    for _ in 0..INPUTS {
        let mut input = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(6) {
            let at = random.below(input.len() + 1);
            let end = (at + random.below(40)).min(input.len());
            let word = WORDS[random.below(WORDS.len())].as_bytes().to_vec();
            input.splice(at..if random.below(2) == 0 { at } else { end }, word);
        }
        input.truncate(INPUT_MAX);
        target(&input);
    }
}

#[test]
fn any_pdns_conf_is_read_or_refused() {
    run("pdns_conf", pdns_conf);
}

#[test]
fn any_geographic_zone_is_read_or_refused() {
    run("geo_files", geo_files);
}

#[test]
fn any_nsd_conf_is_read_or_refused() {
    run("nsd_conf", nsd_conf);
}

#[test]
fn any_knot_conf_is_read_or_refused() {
    run("knot_conf", knot_conf);
}

#[test]
fn any_named_conf_is_moved_or_refused() {
    run("moved_named_conf", moved_named_conf);
}
