#pragma once

// Port counters for the PMA and for status: counts of live and of dead programs, minus what Sets
// have cleared (fabric/counters.h).

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "fabric/counter_source.h"
#include "fabric/counters.h"
#include "fabric/tables.h"

namespace weft::daemon {

class TrafficCounters final : public fabric::CounterSource {
 public:
  /// Sums the counts of all live programs and the ledger.
  using Reader = std::function<fabric::CounterSum(const fabric::CounterLedger&)>;

  /// Call before the first read. All counters of a new fabric are zero.
  void begin(Reader reader) { reader_ = std::move(reader); }

  [[nodiscard]] fabric::CounterLedger& ledger() { return ledger_; }
  [[nodiscard]] fabric::CounterSum read_all() const { return reader_(ledger_); }

  void resize(std::size_t port_count) override;
  [[nodiscard]] fabric::PortCounters read(fabric::PortIndex port, Instant now) override;
  void set(fabric::PortIndex port, const fabric::PortCounters& value, Instant now) override;
  [[nodiscard]] fabric::PortCounters& own(fabric::PortIndex port) override {
    return ledger_.own(port);
  }
  [[nodiscard]] fabric::PortDetails read_details(fabric::PortIndex port, Instant now) override;
  void set_details(fabric::PortIndex port, const fabric::PortDetails& value, Instant now) override;
  [[nodiscard]] fabric::DetailsOfPorts& own_details() override { return ledger_.own_details(); }

 private:
  void refresh(Instant now);

  fabric::CounterLedger ledger_{0};
  Reader reader_;
  fabric::CounterSum sum_;  // as of `read_at_`
  std::optional<Instant> read_at_;
};

}  // namespace weft::daemon
