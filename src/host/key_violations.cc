// Packets with wrong keys, on their way to the counters and traps of the daemon's SMA.

#include <unistd.h>

#include <algorithm>

#include "host/process_impl.h"
#include "os/clock.h"

namespace weft::host {

void HcaEventsOf::bad_key(const hca::BadKey& bad) {
  if (process_.bad_keys.note(hca_, bad)) {
    process_.wake_control();
  }
}

void Process::Impl::wake_control() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(control_wake.get(), &one, sizeof one));
}

/// By the thread that speaks to the daemon. How long it may wait then, as poll(2) takes it.
int Process::Impl::tell_bad_keys() {
  for (const KeyViolations::Report& report : bad_keys.take(now())) {
    const hca::BadKey& bad = report.last;
    const auto port = map.ask([&](const fabric::TablesView& view) {
      return view.find_port(fabric::NodeIndex{self.node}, bad.port, report.hca);
    });
    if (port) {
      post(uabi::BadKeys{.port = port->value(),
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
  const Instant due = bad_keys.due();
  if (due == Instant::never()) {
    return -1;
  }
  return static_cast<int>(std::max<std::int64_t>((due - now()).nanoseconds() / 1'000'000, 0) + 1);
}

}  // namespace weft::host
