//! Checks both directions of every line in `rdata_vectors.txt`.

use nameward_wire::rdata::{parse_text, validate, write_text};
use nameward_wire::text::Fields;
use nameward_wire::{NameBuf, Type};

fn parse(rtype: Type, text: &str) -> Result<Vec<u8>, String> {
    let origin: NameBuf = "example.org.".parse().unwrap();
    let mut out = vec![0xaa];
    let result = parse_text(
        rtype,
        &mut Fields::new(text.as_bytes()),
        origin.as_name(),
        &mut out,
    );
    match result {
        Ok(_) => Ok(out.split_off(1)),
        Err(error) => {
            assert_eq!(out, [0xaa], "the output is as before: {text}");
            Err(error.to_string())
        }
    }
}

fn print(rtype: Type, rdata: &[u8]) -> String {
    let mut text = String::new();
    write_text(rtype, rdata, &mut text).unwrap();
    text
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    data_encoding::HEXLOWER_PERMISSIVE
        .decode(digits.as_bytes())
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn type_of(mnemonic: &str) -> Type {
    Type::from_text(mnemonic.trim().as_bytes()).unwrap_or_else(|| panic!("{mnemonic}"))
}

#[test]
fn every_vector_holds_in_both_directions() {
    let mut wrong = Vec::new();
    for line in include_str!("rdata_vectors.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Err(why) = check(line) {
            wrong.push(format!("{line}\n    {why}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn check(line: &str) -> Result<(), String> {
    let parts: Vec<&str> = line.split('|').map(str::trim).collect();
    if let Some(mnemonic) = parts[0].strip_prefix('!') {
        return match parse(type_of(mnemonic), parts[1]) {
            Ok(wire) => Err(format!("accepted as {wire:02x?}")),
            Err(_) => Ok(()),
        };
    }
    if let Some(mnemonic) = parts[0].strip_prefix('~') {
        let (rtype, wire) = (type_of(mnemonic), unhex(parts[1]));
        if validate(rtype, &wire).is_ok() {
            return Err(format!("accepted as {}", print(rtype, &wire)));
        }
        let text = print(rtype, &wire);
        if !text.starts_with("\\# ") {
            return Err(format!("malformed data printed as {text}"));
        }
        return Ok(());
    }
    let (rtype, wire) = (type_of(parts[0]), unhex(parts[2]));
    let read = parse(rtype, parts[1])?;
    if read != wire {
        return Err(format!("read as {}", data_encoding::HEXLOWER.encode(&read)));
    }
    validate(rtype, &wire).map_err(|why| format!("not valid: {why}"))?;
    let printed = print(rtype, &wire);
    let expected = parts.get(3).copied().unwrap_or(parts[1]);
    if printed != expected {
        return Err(format!("printed as {printed}"));
    }
    if parse(rtype, &printed)? != wire {
        return Err(format!("{printed} is not read back"));
    }
    let generic = format!(
        "\\# {} {}",
        wire.len(),
        data_encoding::HEXLOWER.encode(&wire)
    );
    if parse(rtype, &generic)? != wire {
        return Err(format!("{generic} is not read as the same"));
    }
    Ok(())
}
