//! The progress of a transfer whose records come in stages: a message has as many of them as it has room for.

use super::{OutgoingFault, RecordHead, TransferRequest};
use nameward_wire::message::BulkWriter;

/// The stage after one that is written, `None` after the last; or where the message was full or nothing more was ready.
pub(super) type StageOutcome<S> = Result<Option<S>, S>;

/// The messages of a transfer so far.
pub(super) struct MessageProgress<S> {
    request: TransferRequest,
    /// Where the next message starts; `None` after the last one.
    pub(super) stage: Option<S>,
    is_first: bool,
    pub(super) records: u64,
}

impl<S: Copy> MessageProgress<S> {
    pub(super) fn new(first: S, request: TransferRequest) -> Self {
        MessageProgress {
            request,
            stage: Some(first),
            is_first: true,
            records: 0,
        }
    }

    /// Writes the next message and returns its length in octets; `None` after the last one. `no_room` is the fault if
    /// not even its head fits, `write` writes the records of a stage.
    pub(super) fn next_message<'n>(
        &'n mut self,
        out: &mut [u8],
        no_room: impl FnOnce() -> OutgoingFault,
        write: impl Fn(S, &mut BulkWriter<'n, '_>) -> Result<StageOutcome<S>, OutgoingFault>,
    ) -> Result<Option<usize>, OutgoingFault> {
        if self.stage.is_none() {
            return Ok(None);
        }
        let (request, is_first) = (&self.request, self.is_first);
        let query = request.query();
        let writer = request.begin(&query, is_first, out);
        let mut writer = writer.map_err(|_| no_room())?;
        let mut next = self.stage;
        while let Some(stage) = next {
            match write(stage, &mut writer)? {
                Ok(after) => next = after,
                Err(stopped) => {
                    next = Some(stopped);
                    break;
                }
            }
        }
        self.records += u64::from(writer.records());
        (self.stage, self.is_first) = (next, false);
        Ok(Some(request.finish(writer, is_first)))
    }
}

/// Writes the SOA of a stage, which another stage follows.
pub(super) fn write_soa<'n, S>(
    (head, rdata): (RecordHead<'n>, &'n [u8]),
    (stage, next): (S, Option<S>),
    writer: &mut BulkWriter<'n, '_>,
) -> Result<StageOutcome<S>, OutgoingFault> {
    match head.write(rdata, None, writer) {
        Ok(_) => Ok(Ok(next)),
        Err(_) if writer.is_empty() => Err(head.too_large()),
        Err(_) => Ok(Err(stage)),
    }
}
