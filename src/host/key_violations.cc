// Packets with wrong keys, on their way to the counters and traps of the daemon's SMA.

#include "host/process_impl.h"
#include "os/clock.h"

namespace weft::host {

void HcaEventRelay::bad_key(const hca::BadKey& bad) {
  if (process_.bad_keys.note(hca_, bad)) {
    process_.connection.wake();
  }
}

/// On the control thread.
Instant Process::Impl::report_due() {
  for (const KeyViolations::Report& report : bad_keys.take(os::now())) {
    const hca::BadKey& bad = report.last;
    const auto port = map.ask([&](const fabric::TablesView& view) {
      return view.find_port(fabric::NodeIndex{self.node}, bad.port, report.hca);
    });
    if (port) {
      connection.post(uabi::BadKeys{.port = port->value(),
                                    .is_qkey = bad.kind == hca::BadKey::Kind::QKey,
                                    .count = report.count,
                                    .source = bad.source,
                                    .destination = bad.destination,
                                    .sl = bad.sl.value(),
                                    .source_qp = bad.source_qp,
                                    .destination_qp = bad.destination_qp,
                                    .source_gid = bad.source_gid,
                                    .key = bad.key});
    }
  }
  return bad_keys.due();
}

}  // namespace weft::host
