//! The view of a request: found once, before anything about zones is decided.
//!
//! It selects the version of each zone that the client sees ([`nameward_zone::ViewTables`]); caches have it in their keys.
//! Without views none of this runs.

use nameward_answer::EffectiveClient;
use nameward_dnssec::tsig::ReplySigner;
use nameward_wire::message::Query;
use nameward_zone::{ViewClient, ViewTables};

use super::path::{Arrival, QueriedName, Turn};
use crate::request::{Verdict, ViewId};

impl<'t> Turn<'t> {
    /// Finds the view of a request, and decides the request in it.
    #[inline(never)]
    pub(super) fn select_view(
        &mut self,
        views: &'t ViewTables,
        (query, tsig): (&Query<'_>, Option<&ReplySigner>),
        arrival: &mut impl Arrival,
        (key, _): QueriedName<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let client = EffectiveClient::new(query, arrival.peer().ip());
        let selected = views.select(&ViewClient {
            sender: self.access_client(arrival.peer().ip(), tsig),
            local: arrival.local(),
            address: client.address,
            known_bits: client.prefix,
        });
        if selected.view != self.view {
            self.count_view();
        }
        (self.view, self.in_view) = (selected.view, self.in_view + 1);
        let mut options = *query.reply_options;
        // RFC 7871 section 7.2.1: the scope covers what the selection looked at, for clients without a view, too.
        if let Some(subnet) = &mut options.subnet {
            subnet.lengthen_scope(selected.bits);
        }
        let query = query.with_reply_options(&options);
        let found = self.zones.match_in(selected.view, key, query.qtype);
        self.decide_in_view((&query, tsig), arrival, (key, found), out)
    }

    /// Forgets the view of the request before: this one may be answered before its own is known.
    #[inline]
    pub(super) fn leave_view(&mut self) {
        if self.view != ViewId::DEFAULT {
            self.count_view();
            self.view = ViewId::DEFAULT;
        }
    }

    /// Counts the requests of a view. They are counted by the batch, since all workers share the counter.
    #[cold]
    pub(super) fn count_view(&mut self) {
        if let Some(views) = self.zones.views() {
            views.count_requests(self.view, self.in_view.into());
        }
        self.in_view = 0;
    }
}
