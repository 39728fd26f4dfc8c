//! Frame Streams (farsightsec/fstrm), the writing side, with the bidirectional handshake.
//!
//! A frame is its length in four octets and its data. A length of 0 is the escape before a control frame: length,
//! type, and fields of type, length and value. READY and ACCEPT negotiate the content type, START and STOP enclose
//! the frames, FINISH acknowledges that all of them were read.

use std::io::{self, BufWriter, Read, Write};

/// The content type (dnstap.info).
const CONTENT: &[u8] = b"protobuf:dnstap.Dnstap";
/// Maximum size of a control frame, as in the reference implementation.
const CONTROL_MAX: usize = 512;
/// The control frame field with the content type.
const FIELD_CONTENT: u32 = 1;

/// Control frame types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum ControlKind {
    Accept = 1,
    Start = 2,
    Stop = 3,
    Ready = 4,
    Finish = 5,
}

/// Writes frames to a reader that accepted the content type.
pub(super) struct FrameWriter<S: Read + Write> {
    stream: BufWriter<S>,
}

impl<S: Read + Write> FrameWriter<S> {
    /// Negotiates the content type with the reader.
    pub(super) fn begin(stream: S) -> io::Result<Self> {
        let mut writer = FrameWriter {
            stream: BufWriter::with_capacity(64 << 10, stream),
        };
        writer.control(ControlKind::Ready, true)?;
        writer.flush()?;
        writer.expect(ControlKind::Accept)?;
        writer.control(ControlKind::Start, true)?;
        writer.flush()?;
        Ok(writer)
    }

    /// Writes a data frame.
    pub(super) fn data(&mut self, data: &[u8]) -> io::Result<()> {
        let length = u32::try_from(data.len()).map_err(io::Error::other)?;
        self.stream.write_all(&length.to_be_bytes())?;
        self.stream.write_all(data)
    }

    /// Sends STOP and waits until the reader has read everything.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.control(ControlKind::Stop, false)?;
        self.flush()?;
        self.expect(ControlKind::Finish)
    }

    fn control(&mut self, kind: ControlKind, has_content: bool) -> io::Result<()> {
        let mut frame = (kind as u32).to_be_bytes().to_vec();
        if has_content {
            frame.extend_from_slice(&FIELD_CONTENT.to_be_bytes());
            frame.extend_from_slice(&(CONTENT.len() as u32).to_be_bytes());
            frame.extend_from_slice(CONTENT);
        }
        self.stream.write_all(&[0; 4])?;
        self.stream.write_all(&(frame.len() as u32).to_be_bytes())?;
        self.stream.write_all(&frame)
    }

    /// Reads a control frame of the expected type; if it lists content types, ours must be among them.
    fn expect(&mut self, kind: ControlKind) -> io::Result<()> {
        let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_string());
        let stream = self.stream.get_mut();
        let mut word = || -> io::Result<u32> {
            let mut octets = [0; 4];
            stream.read_exact(&mut octets)?;
            Ok(u32::from_be_bytes(octets))
        };
        if word()? != 0 {
            return Err(wrong("the collector sent no control frame"));
        }
        let length = word()? as usize;
        if !(4..=CONTROL_MAX).contains(&length) {
            return Err(wrong(
                "the collector sent a control frame of invalid length",
            ));
        }
        let mut frame = vec![0; length];
        stream.read_exact(&mut frame)?;
        let (found, mut fields) = frame.split_at(4);
        if found != (kind as u32).to_be_bytes() {
            return Err(wrong("the collector sent an unexpected control frame"));
        }
        let mut contents = 0;
        while let Some((head, rest)) = fields.split_first_chunk::<8>() {
            let [a, b, c, d, length @ ..] = *head;
            let length = u32::from_be_bytes(length) as usize;
            let Some((value, rest)) = rest.split_at_checked(length) else {
                return Err(wrong("the collector sent a truncated control frame"));
            };
            fields = rest;
            if u32::from_be_bytes([a, b, c, d]) == FIELD_CONTENT {
                contents += 1;
                if value == CONTENT {
                    return Ok(());
                }
            }
        }
        match contents {
            0 => Ok(()),
            _ => Err(wrong(
                "the collector does not accept the content type protobuf:dnstap.Dnstap",
            )),
        }
    }
}

impl<S: Read + Write> FrameWriter<S> {
    /// Flushes the written frames to the stream.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
