//! LOC: geographical locations (RFC 1876).
//!
//! Angles are stored in thousandths of an arc second, lengths in centimetres; nothing is rounded.

use super::RdataError;
use super::digits::decimal;
use super::words::Words;
use crate::text::{TextError, Token};
use core::fmt;

const LENGTH: usize = 16;
const EQUATOR: i64 = 1 << 31;
const MAX_LATITUDE: i64 = 90 * 3_600_000;
const MAX_LONGITUDE: i64 = 180 * 3_600_000;
/// Altitudes count from 100,000 metres below the WGS 84 spheroid.
const LOWEST_CM: i64 = 10_000_000;
/// 90,000,000 metres: mantissa and exponent 9.
const LARGEST_CM: i64 = 9_000_000_000;
/// Size 1 m, horizontal precision 10,000 m, vertical precision 10 m (RFC 1876 section 3).
const DEFAULTS: [u8; 3] = [0x12, 0x16, 0x13];

/// Checks the sixteen octets.
pub(super) fn check(data: &[u8]) -> Result<(), RdataError> {
    let Some(place) = LocPosition::from_wire(data) else {
        return Err(match data.len() {
            0..LENGTH => RdataError::Short,
            LENGTH => RdataError::Value("an unknown version of LOC"),
            _ => RdataError::Trailing,
        });
    };
    // A zero mantissa with a nonzero exponent is a second spelling of zero.
    let bad = |octet: u8| octet != 0 && !(matches!(octet >> 4, 1..=9) && octet & 0xf <= 9);
    if place.precisions.into_iter().any(bad) {
        return Err(RdataError::Value("a LOC precision out of range"));
    }
    if place.latitude.abs() > MAX_LATITUDE || place.longitude.abs() > MAX_LONGITUDE {
        return Err(RdataError::Value(
            "a LOC latitude or longitude out of range",
        ));
    }
    Ok(())
}

struct LocPosition {
    precisions: [u8; 3],
    latitude: i64,
    longitude: i64,
    altitude_cm: i64,
}

impl LocPosition {
    fn from_wire(data: &[u8]) -> Option<LocPosition> {
        let data: &[u8; LENGTH] = data.try_into().ok()?;
        let number = |at: usize| {
            let octets = [data[at], data[at + 1], data[at + 2], data[at + 3]];
            i64::from(u32::from_be_bytes(octets))
        };
        (data[0] == 0).then(|| LocPosition {
            precisions: [data[1], data[2], data[3]],
            latitude: number(4) - EQUATOR,
            longitude: number(8) - EQUATOR,
            altitude_cm: number(12) - LOWEST_CM,
        })
    }
}

/// Reads `d [m [s]] N|S  d [m [s]] E|W  altitude [size [horizontal [vertical]]]`.
pub(super) fn parse(words: &mut Words<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let latitude = angle(words, 90, MAX_LATITUDE, [b'N', b'S'])?;
    let longitude = angle(words, 180, MAX_LONGITUDE, [b'E', b'W'])?;
    let word = words.expect("an altitude in metres")?;
    let altitude = metres(word.text)
        .map(|cm| cm + LOWEST_CM)
        .and_then(|cm| u32::try_from(cm).ok())
        .ok_or_else(|| word.error("an altitude from -100000.00m to 42849672.95m"))?;
    let mut precisions = DEFAULTS;
    for precision in &mut precisions {
        match words.next()? {
            None => break,
            Some(word) => *precision = precision_of(&word)?,
        }
    }
    out.push(0);
    out.extend_from_slice(&precisions);
    out.extend_from_slice(&((EQUATOR + latitude) as u32).to_be_bytes());
    out.extend_from_slice(&((EQUATOR + longitude) as u32).to_be_bytes());
    out.extend_from_slice(&altitude.to_be_bytes());
    Ok(())
}

/// Reads degrees, minutes, seconds and a direction; the second direction is negative.
fn angle(
    words: &mut Words<'_, '_>,
    max_degrees: u64,
    max: i64,
    directions: [u8; 2],
) -> Result<i64, TextError> {
    let what = if max_degrees == 90 {
        "a latitude as degrees up to 90, minutes, seconds, N or S"
    } else {
        "a longitude as degrees up to 180, minutes, seconds, E or W"
    };
    let word = words.expect(what)?;
    let degrees = decimal(word.text, max_degrees).ok_or_else(|| word.error(what))?;
    let mut total = degrees as i64 * 3_600_000;
    // Minutes, seconds, and the direction after zero, one or two of them.
    for part in 0..3 {
        let word = words.expect(what)?;
        if let [letter] = word.text {
            let sign = match directions
                .iter()
                .position(|direction| direction.eq_ignore_ascii_case(letter))
            {
                Some(0) => 1,
                Some(_) => -1,
                None => 0,
            };
            if sign != 0 {
                if total > max {
                    return Err(word.error(what));
                }
                return Ok(sign * total);
            }
        }
        let value = match part {
            0 => decimal(word.text, 59).map(|minutes| minutes as i64 * 60_000),
            1 => scaled(word.text, 3).filter(|thousandths| *thousandths < 60_000),
            _ => None,
        };
        total += value.ok_or_else(|| word.error(what))?;
    }
    Err(word.error(what))
}

/// Reads an unsigned number with up to `places` decimals, in units of the last decimal.
fn scaled(text: &[u8], places: usize) -> Option<i64> {
    let (whole, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    if fraction.len() > places {
        return None;
    }
    let mut value = decimal(whole, 1 << 40)? as i64;
    for i in 0..places {
        let digit = match fraction.get(i) {
            Some(byte @ b'0'..=b'9') => i64::from(byte - b'0'),
            Some(_) => return None,
            None => 0,
        };
        value = value * 10 + digit;
    }
    Some(value)
}

/// Reads metres with an optional sign and `m`, as centimetres.
fn metres(text: &[u8]) -> Option<i64> {
    let text = match text {
        [number @ .., b'm' | b'M'] => number,
        _ => text,
    };
    match text {
        [b'-', number @ ..] => scaled(number, 2).map(|cm| -cm),
        _ => scaled(text, 2),
    }
}

/// Rounds a precision down to one digit and a power of ten.
fn precision_of(word: &Token<'_>) -> Result<u8, TextError> {
    let cm = metres(word.text)
        .filter(|cm| (0..=LARGEST_CM).contains(cm))
        .ok_or_else(|| word.error("a precision from 0 to 90000000.00m"))?;
    let (mut mantissa, mut exponent) = (cm, 0);
    while mantissa > 9 {
        mantissa /= 10;
        exponent += 1;
    }
    Ok((mantissa as u8) << 4 | exponent)
}

/// Writes all fields, including the precisions.
pub(super) fn print(data: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    let place = LocPosition::from_wire(data).ok_or(fmt::Error)?;
    print_angle(place.latitude, ['N', 'S'], out)?;
    out.write_char(' ')?;
    print_angle(place.longitude, ['E', 'W'], out)?;
    let (sign, cm) = (
        if place.altitude_cm < 0 { "-" } else { "" },
        place.altitude_cm.abs(),
    );
    write!(out, " {sign}{}.{:02}m", cm / 100, cm % 100)?;
    for octet in place.precisions {
        let cm = u64::from(octet >> 4) * 10u64.pow(u32::from(octet & 0xf));
        if cm % 100 == 0 {
            write!(out, " {}m", cm / 100)?;
        } else {
            write!(out, " {}.{:02}m", cm / 100, cm % 100)?;
        }
    }
    Ok(())
}

fn print_angle(angle: i64, directions: [char; 2], out: &mut dyn fmt::Write) -> fmt::Result {
    let direction = directions[usize::from(angle < 0)];
    let angle = angle.abs();
    let (degrees, minutes) = (angle / 3_600_000, angle / 60_000 % 60);
    let (seconds, thousandths) = (angle / 1000 % 60, angle % 1000);
    write!(
        out,
        "{degrees} {minutes} {seconds}.{thousandths:03} {direction}"
    )
}
